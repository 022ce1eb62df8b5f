"""Readers of kernel collections whose language is Python. Each runs as a process of its own, in a guest's place (docs/sandbox.md)."""
