"""
Quantized checkpoints: which layout their weights have, and what their numbers mean.

A layout is a row of one table, and one reader and one writer do all of them.
"""
