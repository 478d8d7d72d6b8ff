"""Helpers on top of xDSL that know nothing of quantization: elements, resources, value types."""
