"""The compiler of an NPU: its dialect, what qdialect knows of it, and a pass."""
