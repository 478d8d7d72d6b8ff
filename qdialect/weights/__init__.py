"""
Weights in files of safetensors, which are moved in pieces, whatever their size.

`qdialect weights` carries a plan of a fold out on them. The format is that of Hugging Face:
https://huggingface.co/docs/safetensors. See docs/weights.md.
"""
