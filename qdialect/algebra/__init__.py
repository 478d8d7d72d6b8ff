"""Movements, and the arrays and parameters that they move. Needs numpy only, no IR."""
