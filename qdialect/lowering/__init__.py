"""From the quant dialect to ops of tensor, linalg and arith."""
