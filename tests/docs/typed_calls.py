"""What planish.optimize keeps of types, for mypy and pyright; nobody runs it."""

from __future__ import annotations

from typing import Any, assert_type

import planish
import torch
from torch import Tensor, nn


class Net(nn.Module):
    width: int = 8

    def forward(self, x: Tensor) -> Tensor:
        return x


def scaled(x: Tensor, by: float = 2.0) -> Tensor:
    return x * by


x = torch.ones(8)
net = planish.optimize(Net(), x, budget="5s", seed=3)
assert_type(net, planish.Optimized[Net])
assert_type(net.module, Net)
assert_type(net.module.width, int)
assert_type(net.speedups, dict[str, float])
net(x)

function = planish.optimize(scaled, (x, 2.0))
assert_type(function.module(x, by=3.0), Tensor)
assert_type(function(x), Tensor)


@planish.optimize(example_inputs=x, budget="5s")
def searched(x: Tensor, rows: int = 1) -> list[Tensor]:
    return [x] * rows


@planish.optimize
def waits(x: Tensor) -> Tensor:
    return x


assert_type(searched(x, rows=2), list[Tensor])
assert_type(waits(x), Tensor)
assert_type(planish.load("folder", Net()), Net)
assert_type(planish.load("folder"), nn.Module)
assert_type(planish.detach(net.module), Net)
settings: planish.Settings = {"budget": 5, "baselines": ["eager"]}
again: planish.Optimized[Any] = planish.optimize(Net(), x, **settings)
