"""The drift gate: compiled kernels against a committed baseline of signatures.

`lockfile` is the baseline's text, `check` compares, `suppress` excuses with a reason and an end,
`trees` shows the first difference, `formats` writes reports for people and for CI systems.
"""
