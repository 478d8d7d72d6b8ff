"""Quantized modules in integers: products, rescaling, pools and tables on codes."""
