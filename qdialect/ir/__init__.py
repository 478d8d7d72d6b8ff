"""What every layer needs of xDSL: elements, resources, types of values. No quantization."""
