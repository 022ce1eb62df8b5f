"""A linear layer of 4-bit weights as AWQ stores them: eight codes of a row in a word, in the order 0 2 4 6 1 3 5 7."""

import torch
from torch import nn

K, N, GROUP = 128, 256, 64
ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        words = {"low": -(2**31), "high": 2**31 - 1, "dtype": torch.int32, "generator": draw}
        self.register_buffer("qweight", torch.randint(size=(K, N // 8), **words))
        self.register_buffer("qzeros", torch.randint(size=(K // GROUP, N // 8), **words))
        self.register_buffer("scales", torch.rand(K // GROUP, N, generator=draw) * 0.02 + 0.001)

    def unpacked(self, words):
        shifts = torch.arange(0, 32, 4, device=words.device)
        codes = (words[:, :, None] >> shifts[None, None, :]).to(torch.int8).view(words.shape[0], -1)
        order = torch.arange(codes.shape[-1], dtype=torch.int32, device=words.device).view(-1, 8)[:, ORDER].view(-1)
        return codes[:, order] & 15

    def forward(self, x):
        scales = self.scales.repeat_interleave(GROUP, dim=0)
        zeros = self.unpacked(self.qzeros).repeat_interleave(GROUP, dim=0)
        return x @ ((self.unpacked(self.qweight) - zeros) * scales).to(x.dtype)


def get_inputs():
    return [torch.randn(4, K)]
