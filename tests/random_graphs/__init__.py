"""Random PyTorch modules through the real capture, partition, emitters, executor and gate (README.md)."""
