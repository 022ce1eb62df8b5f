"""A layer of experts, one after the other, as models write it."""

import torch
import torch.nn.functional as F
from torch import nn

DTYPE = torch.bfloat16
EXPERTS, TOP, DIM, HIDDEN = 6, 2, 32, 48


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, EXPERTS, bias=False, dtype=DTYPE)
        self.up = nn.Parameter(torch.randn(EXPERTS, DIM, 2 * HIDDEN, dtype=DTYPE) / DIM**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, DIM, dtype=DTYPE) / HIDDEN**0.5)

    def route(self, x):
        weights, chosen = self.gate(x).softmax(-1, dtype=torch.float32).topk(TOP, -1)
        return (weights / weights.sum(-1, keepdim=True)).to(x.dtype), chosen

    def expert(self, x, e):
        gate, up = (x @ self.up[e]).chunk(2, -1)
        return (F.silu(gate) * up) @ self.down[e]

    def forward(self, x):
        weights, chosen = self.route(x)
        result = torch.zeros_like(x)
        for e in range(EXPERTS):
            token, place = torch.where(chosen == e)
            if token.numel() == 0:
                continue
            result.index_add_(0, token, self.expert(x[token], e) * weights[token, place, None])
        return result


def get_inputs():
    return [torch.randn(120, DIM, dtype=DTYPE)]


def get_init_inputs():
    return []


class Dense(Model):
    """Every token through every expert, weighted by what is mostly zero."""

    def forward(self, x):
        weights, chosen = self.route(x)
        dense = torch.zeros(x.shape[0], EXPERTS, dtype=x.dtype).scatter_(1, chosen, weights)
        gate, up = torch.einsum("td,edh->teh", x, self.up).chunk(2, -1)
        return torch.einsum("ted,te->td", torch.einsum("teh,ehd->ted", F.silu(gate) * up, self.down), dense)


class Sorted(Model):
    """Rows in the order of experts, results added in single precision."""

    def forward(self, x):
        weights, chosen = self.route(x)
        order = chosen.flatten().argsort(stable=True)
        rows = x[order // TOP]
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS).tolist()
        parts = [self.expert(part, e) for e, part in enumerate(rows.split(counts))]
        found = torch.empty(len(order), DIM, dtype=x.dtype)
        found[order] = torch.cat(parts)
        return (found.view(-1, TOP, DIM).float() * weights[..., None].float()).sum(1).to(x.dtype)


class NotNormalised(Model):
    def route(self, x):
        weights, chosen = self.gate(x).softmax(-1, dtype=torch.float32).topk(TOP, -1)
        return weights.to(x.dtype), chosen


class LastExpertLeftOut(Model):
    def expert(self, x, e):
        return super().expert(x, e) * (e != EXPERTS - 1)


class CapacityDropped(Model):
    """A place too few for the fullest expert's tokens."""

    def expert(self, x, e):
        found = super().expert(x, e)
        if len(x) > 40:
            found[40:] = 0
        return found


class WeightsSwapped(Model):
    def route(self, x):
        weights, chosen = super().route(x)
        return weights.flip(-1), chosen


class Low(Model):
    def expert(self, x, e):
        low = torch.bfloat16 if DTYPE is torch.float32 else torch.float8_e4m3fn
        gate, up = (x.to(low).to(DTYPE) @ self.up[e]).chunk(2, -1)
        return (F.silu(gate) * up) @ self.down[e]


RIGHT = [Dense, Sorted]
WRONG = [NotNormalised, LastExpertLeftOut, CapacityDropped, WeightsSwapped, Low]
