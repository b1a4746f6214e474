"""Rows: one small function per PTX instruction, by the manual's chapters."""
