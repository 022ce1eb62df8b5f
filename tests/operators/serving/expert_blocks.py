"""Which rows each block of a grouped product multiplies: tokens sorted by expert, each expert's padded to whole blocks, and the expert of each block."""

import torch
from torch import nn

TOKENS, WIDTH, EXPERTS, PICKED, BLOCK = 40, 16, 8, 2, 16
PAIRS = TOKENS * PICKED
ROOM = PAIRS + EXPERTS * (BLOCK - 1)


class Model(nn.Module):
    def forward(self, scores):
        experts = scores.topk(PICKED, dim=-1).indices.flatten()
        counts = torch.bincount(experts, minlength=EXPERTS)
        padded = (counts + BLOCK - 1) // BLOCK * BLOCK
        ends = padded.cumsum(0)
        order = experts.argsort(stable=True)
        of_pair = experts[order]
        begin = (ends - padded)[of_pair] - (counts.cumsum(0) - counts)[of_pair]
        rows = torch.full((ROOM,), PAIRS, device=scores.device).scatter(0, torch.arange(PAIRS, device=scores.device) + begin, order)
        blocks = torch.searchsorted(ends, torch.arange(0, ROOM, BLOCK, device=scores.device), right=True)
        return rows, blocks, ends[-1]


def get_inputs():
    return [torch.randn(TOKENS, EXPERTS)]
