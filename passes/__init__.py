"""The passes: one module each, named after its flag."""

if __name__ != "qdialect.passes":
    raise ImportError("this package is imported as qdialect.passes")
