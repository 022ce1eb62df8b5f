"""A decode step over compressed keys and values: queries go to the latent space, and what they find comes back from it (MLA with absorbed projections)."""

import torch
from torch import nn

BATCH, HEADS, LATENT, NOPE, ROPE, VALUE, PLACES = 2, 4, 64, 32, 16, 32, 24


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up_key = nn.Parameter(torch.randn(HEADS, NOPE, LATENT) * 0.1)
        self.up_value = nn.Parameter(torch.randn(HEADS, LATENT, VALUE) * 0.1)

    def forward(self, q_nope, q_rope, latent, rope, lengths):
        q = torch.einsum("bhd,hdl->bhl", q_nope, self.up_key)
        scores = torch.einsum("bhl,btl->bht", q, latent) + torch.einsum("bhr,btr->bht", q_rope, rope)
        scores = scores * (NOPE + ROPE) ** -0.5
        places = torch.arange(latent.shape[1], device=scores.device)
        scores = scores.masked_fill(places >= lengths[:, None, None], float("-inf"))
        found = torch.einsum("bht,btl->bhl", scores.softmax(-1), latent)
        return torch.einsum("bhl,hlv->bhv", found, self.up_value)


def get_inputs():
    return [
        torch.randn(BATCH, HEADS, NOPE),
        torch.randn(BATCH, HEADS, ROPE),
        torch.randn(BATCH, PLACES, LATENT),
        torch.randn(BATCH, PLACES, ROPE),
        torch.randint(1, PLACES + 1, (BATCH,)),
    ]
