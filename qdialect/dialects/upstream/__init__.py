"""Ops that upstream dialects lack in xDSL: each goes when xDSL has it."""
