"""The ops of other dialects, as movements: a module per dialect, an entry per op."""
