"""MLIR text: read and written fast, and as MLIR reads and writes it."""
