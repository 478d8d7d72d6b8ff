"""Movements, and the arrays and parameters that they move. Depends only on numpy, not on any IR."""
