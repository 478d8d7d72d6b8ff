"""
Modules in the formats of engines, which run quantized layers in integers.

`export_tool` is `qdialect export`.
"""
