"""Low-rank adapters, another one for each token of a batch (S-LoRA, Punica): matrices are gathered by a token's adapter; -1 is none."""

import torch
from torch import nn

TOKENS, WIDTH, OUT, RANK, ADAPTERS = 6, 64, 48, 8, 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(OUT, WIDTH) * 0.1)
        self.down = nn.Parameter(torch.randn(ADAPTERS, RANK, WIDTH) * 0.1)
        self.up = nn.Parameter(torch.randn(ADAPTERS, OUT, RANK) * 0.1)

    def forward(self, x, adapter):
        y = nn.functional.linear(x, self.weight)
        own = adapter.clamp(min=0)
        low = torch.bmm(self.down[own], x.unsqueeze(-1))
        more = torch.bmm(self.up[own], low).squeeze(-1)
        return y + torch.where((adapter >= 0).unsqueeze(-1), more, 0.0)


def get_inputs():
    return [torch.randn(TOKENS, WIDTH), torch.randint(-1, ADAPTERS, (TOKENS,))]
