"""A gated delta rule, token by token (Qwen3-Next's linear attention): a state of each head, taken back by what it already says of a key."""

import torch
from torch import nn

BATCH, TOKENS, HEADS, KEY, VALUE = 2, 6, 4, 16, 16


class Model(nn.Module):
    def forward(self, q, k, v, gate, beta):
        q, k = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (q, k))
        q = q * KEY**-0.5
        state = q.new_zeros(q.shape[0], HEADS, KEY, VALUE)
        out = []
        for t in range(q.shape[1]):
            state = state * gate[:, t].exp()[..., None, None]
            said = (state * k[:, t].unsqueeze(-1)).sum(-2)
            change = (v[:, t] - said) * beta[:, t].unsqueeze(-1)
            state = state + k[:, t].unsqueeze(-1) * change.unsqueeze(-2)
            out.append((state * q[:, t].unsqueeze(-1)).sum(-2))
        return torch.stack(out, dim=1), state


def get_inputs():
    shape = (BATCH, TOKENS, HEADS)
    return [
        torch.randn(*shape, KEY),
        torch.randn(*shape, KEY),
        torch.randn(*shape, VALUE),
        -torch.rand(*shape),
        torch.rand(*shape),
    ]
