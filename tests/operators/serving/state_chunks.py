"""A selective state space model over a sequence, chunk by chunk: sums of decays within one, and states handed from one to the next (Mamba2's prefill)."""

import torch
from torch import nn

BATCH, LENGTH, CHUNK, HEADS, SIZE, STATES = 2, 32, 8, 4, 8, 16


def segments(x):
    """Sums from each place to each later one."""
    n = x.shape[-1]
    x = x.unsqueeze(-1).expand(*x.shape, n)
    x = x.masked_fill(~torch.ones(n, n, dtype=torch.bool, device=x.device).tril(-1), 0).cumsum(-2)
    return x.masked_fill(~torch.ones(n, n, dtype=torch.bool, device=x.device).tril(), float("-inf"))


class Model(nn.Module):
    def forward(self, x, decay, B, C):
        x, B, C = (t.reshape(BATCH, -1, CHUNK, HEADS, t.shape[-1]) for t in (x, B, C))
        decay = decay.reshape(BATCH, -1, CHUNK, HEADS).permute(0, 3, 1, 2)
        sums = decay.cumsum(-1)
        within = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", C, B, torch.exp(segments(decay)), x)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", B, torch.exp(sums[..., -1:] - sums), x)
        states = torch.cat((torch.zeros_like(states[:, :1]), states), dim=1)
        between = torch.exp(segments(nn.functional.pad(sums[..., -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)
        before, last = states[:, :-1], states[:, -1]
        from_before = torch.einsum("bclhn,bchpn,bhcl->bclhp", C, before, torch.exp(sums))
        return (within + from_before).reshape(BATCH, LENGTH, HEADS, SIZE), last


def get_inputs():
    return [
        torch.randn(BATCH, LENGTH, HEADS, SIZE),
        -torch.rand(BATCH, LENGTH, HEADS),
        torch.randn(BATCH, LENGTH, HEADS, STATES) * 0.5,
        torch.randn(BATCH, LENGTH, HEADS, STATES) * 0.5,
    ]
