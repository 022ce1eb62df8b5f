"""One step of a selective state space model with grouped B and C: its state is written in place (Mamba2's decode step)."""

import torch
from torch import nn
from torch.nn.functional import silu, softplus

BATCH, HEADS, SIZE, STATES, GROUPS = 3, 8, 16, 32, 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.A = nn.Parameter(-torch.rand(HEADS) - 0.1)
        self.D = nn.Parameter(torch.randn(HEADS))
        self.bias = nn.Parameter(torch.randn(HEADS) * 0.1)

    def forward(self, state, x, dt, B, C, z):
        dt = softplus(dt + self.bias)
        decay = torch.exp(dt * self.A)[..., None, None]
        B, C = (t.repeat_interleave(HEADS // GROUPS, dim=1) for t in (B, C))
        state.copy_(state * decay + (dt[..., None] * x).unsqueeze(-1) * B.unsqueeze(2))
        y = torch.einsum("bhps,bhs->bhp", state, C) + self.D[:, None] * x
        return y * silu(z)


def get_inputs():
    return [
        torch.randn(BATCH, HEADS, SIZE, STATES),
        torch.randn(BATCH, HEADS, SIZE),
        torch.randn(BATCH, HEADS),
        torch.randn(BATCH, GROUPS, STATES),
        torch.randn(BATCH, GROUPS, STATES),
        torch.randn(BATCH, HEADS, SIZE),
    ]
