#!POPCORN leaderboard scaled_add
import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, y, scale = data
    return torch.add(x, y, alpha=scale)
