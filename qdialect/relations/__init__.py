"""Relations between the quantization parameters of the operands and results of each op."""
