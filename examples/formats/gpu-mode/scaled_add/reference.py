import torch
from task import input_t, output_t


def generate_input(rows: int, columns: int, seed: int) -> input_t:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(rows, columns, generator=generator) for _ in range(2))
    return x, y, 0.5


def ref_kernel(data: input_t) -> output_t:
    x, y, scale = data
    return x + scale * y


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return torch.allclose(ref_kernel(data), output), "differs"
