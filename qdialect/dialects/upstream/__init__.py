"""Ops of upstream dialects that xDSL lacks or restricts. Each is removed once xDSL has it."""
