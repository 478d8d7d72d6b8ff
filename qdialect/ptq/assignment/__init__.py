"""Quantization of a whole model: parameters are assigned to values step by step, and written."""
