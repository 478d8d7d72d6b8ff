"""The commands of post-training quantization, and what they share."""
