"""Bit-exact arithmetic: float operations, conversions, approximate tables, matrix steps (numpy)."""
