"""Own Triton kernels, one file a family; each exports ``FAMILIES``."""
