"""Reads ops as movements, casts and constants: the interface, and a file for each dialect."""
