"""Post-training quantization of modules: names of values, recorded ranges, quantized weights."""
