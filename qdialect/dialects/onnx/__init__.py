"""The dialect onnx."""
