"""Activations quantised to e4m3 in groups of a row, times weights in e4m3 with a scale for each block (DeepSeek's w8a8)."""

import torch
from torch import nn

ROWS, K, N, BLOCK = 8, 256, 192, 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(N, K).to(torch.float8_e4m3fn))
        self.register_buffer("scale", torch.rand(N // BLOCK, K // BLOCK) * 0.02 + 0.001)

    def forward(self, x):
        groups = x.reshape(*x.shape[:-1], -1, BLOCK)
        scale = groups.abs().amax(dim=-1, keepdim=True).clamp(min=1e-10) / 448.0
        codes = (groups / scale).clamp(min=-448.0, max=448.0).to(torch.float8_e4m3fn).reshape(x.shape)
        scale = scale.reshape(*x.shape[:-1], -1)
        out = torch.zeros(x.shape[0], N, dtype=torch.float32, device=x.device)
        for k in range(K // BLOCK):
            part = slice(k * BLOCK, (k + 1) * BLOCK)
            product = codes[:, part].float() @ self.weight[:, part].float().t()
            out = out + product * scale[:, k : k + 1] * self.scale[:, k].repeat_interleave(BLOCK)
        return out.to(x.dtype)


def get_inputs():
    return [torch.randn(ROWS, K)]
