"""Emitted Triton under Triton's interpreter, on the CPU."""
