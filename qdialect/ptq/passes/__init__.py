"""The passes of post-training quantization."""
