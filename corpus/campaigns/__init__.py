"""Campaigns that try to break samebits: one command each, fixed seeds, non-zero on a finding."""
