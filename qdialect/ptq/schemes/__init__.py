"""The choice of quantization parameters: ranges, schemes, and files of ranges."""
