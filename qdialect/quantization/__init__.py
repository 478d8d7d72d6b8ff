"""How quantization parameters are chosen: ranges, schemes, and files of ranges."""
