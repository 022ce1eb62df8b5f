"""A linear layer of 4-bit weights as GPTQ stores them: eight codes of a column in a word, a group of each row in a tensor, zero points less one."""

import torch
from torch import nn

K, N, GROUP = 256, 128, 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        words = {"low": -(2**31), "high": 2**31 - 1, "dtype": torch.int32, "generator": draw}
        self.register_buffer("qweight", torch.randint(size=(K // 8, N), **words))
        self.register_buffer("qzeros", torch.randint(size=(K // GROUP, N // 8), **words))
        self.register_buffer("scales", torch.rand(K // GROUP, N, generator=draw) * 0.02 + 0.001)
        self.register_buffer("g_idx", torch.arange(K, dtype=torch.int32) // GROUP)

    def forward(self, x):
        shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=x.device)
        zeros = (self.qzeros.unsqueeze(2) >> shifts).to(torch.int16) & 15
        zeros = (zeros + 1).reshape(self.scales.shape)
        codes = (self.qweight.unsqueeze(1) >> shifts.unsqueeze(-1)).to(torch.int16) & 15
        codes = codes.reshape(-1, codes.shape[-1])
        group = self.g_idx.long()
        return x @ (self.scales[group] * (codes - zeros[group])).to(x.dtype)


def get_inputs():
    return [torch.randn(4, K)]
