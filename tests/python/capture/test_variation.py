"""Models constructed with other parameters than they draw by themselves: the same for all who construct alike, and no constant among them."""

from __future__ import annotations

import torch
from planish.capture.variation import varied
from torch import nn


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.zeros_(self.q.bias)
        nn.init.zeros_(self.k.bias)
        self.scale = nn.Parameter(1e-6 * torch.ones(8, 1, 1))
        self.expanded = nn.Parameter(torch.zeros(1).expand(8))
        self.filled, self.scaled = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.filled.weight.data.zero_()
        self.scaled.weight.data *= 0
        self.norm, self.table = nn.BatchNorm1d(8), nn.Embedding(5, 8, padding_idx=0)
        self.register_buffer("setting", torch.tensor(0.125))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        q, k = nn.Linear(8, 8), nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.cat([q.weight, k.weight]).detach())
        self.bias = nn.Parameter(torch.zeros(16))
        self.gamma = nn.Parameter(torch.full((8,), 1e-6))


def test_constants_get_other_values_and_settings_do_not() -> None:
    state = varied(7, 7, Plain).state_dict()
    constant = [name for name, t in state.items() if t.numel() > 1 and bool((t == t.reshape(-1)[0]).all())]
    assert constant == []
    assert float(state["scale"].abs().min()) > 0.01  # would hide a branch as zero does
    assert float(state["setting"]) == 0.125 and bool((state["table.weight"][0] == 0).all())
    assert bool((state["norm.running_var"] > 0).all())


def test_what_is_packed_or_reshaped_is_the_same() -> None:
    plain, packed = varied(7, 7, Plain), varied(7, 7, Packed)
    assert torch.equal(packed.weight, torch.cat([plain.q.weight, plain.k.weight]))
    assert torch.equal(packed.bias, torch.cat([plain.q.bias, plain.k.bias]))
    assert torch.equal(packed.gamma, plain.scale.flatten())


def test_other_seeds_give_others_and_nothing_stays_behind() -> None:
    assert not torch.equal(varied(7, 7, Plain).q.bias, varied(8, 7, Plain).q.bias)
    assert torch.equal(varied(7, 7, Plain).q.weight, varied(8, 7, Plain).q.weight)
    assert bool((nn.LayerNorm(4).weight == 1).all())
