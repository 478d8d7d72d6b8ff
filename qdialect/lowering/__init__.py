"""Lowering the quant dialect to ops of tensor, linalg, arith and other dialects."""
