"""Planish: a PyTorch program in, a faster and verified one out."""

__version__ = "0.1.0"
