"""A linear layer of weights in nf4 as bitsandbytes stores them: two codes a byte, a table of 16 numbers, and scales of blocks that are codes themselves."""

import torch
from torch import nn

K, N, BLOCK = 256, 128, 64
TABLE = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.register_buffer("weight", torch.randint(0, 256, (N * K // 2, 1), dtype=torch.uint8, generator=draw))
        self.register_buffer("table", torch.tensor(TABLE))
        self.register_buffer("scales", torch.randint(0, 256, (N * K // BLOCK,), dtype=torch.uint8, generator=draw))
        self.register_buffer("table_of_scales", torch.linspace(-1, 1, 256))
        self.register_buffer("scale_of_scales", torch.rand(N * K // BLOCK // 256, generator=draw))
        self.register_buffer("offset", torch.tensor(0.1))

    def forward(self, x):
        codes = torch.stack((self.weight >> 4, self.weight & 15), -1).reshape(-1, BLOCK)
        scales = self.table_of_scales[self.scales.long()].reshape(-1, 256) * self.scale_of_scales.unsqueeze(-1) + self.offset
        weight = self.table[codes.long()] * scales.reshape(-1, 1)
        return nn.functional.linear(x, weight.reshape(N, K).to(x.dtype))


def get_inputs():
    return [torch.randn(4, K)]
