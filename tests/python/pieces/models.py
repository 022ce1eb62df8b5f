"""A model for each way in which a graph ends, or in which a step may be in no program."""

from __future__ import annotations

import torch
from torch import nn


def work(x: torch.Tensor) -> torch.Tensor:
    return x.tanh() * x


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.calls = 0


class Branch(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = work(self.linear(x))
        if y.sum() > 0:
            return work(y)
        return work(-y)


class Print(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = work(self.linear(x))
        print("the mean is", float(y.mean()))
        return work(y)


class Item(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = work(self.linear(x))
        return work(y[:, : int(y.argmax().item()) % 16 + 1]).sum(-1)


class Loop(Base):
    """Writes into a tensor that later steps read: nothing but the order says so."""

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        result, start = torch.zeros_like(x), 0
        for end in ends.tolist():
            result[start:end] = work(x[start:end])
            start = end
        return work(self.linear(result))


@torch.library.custom_op("planish_tests_pieces::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return work(torch.ops.planish_tests_pieces.doubled(work(self.linear(x))))


class Counter(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return work(self.linear(x))


class Experts(Base):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = work(self.linear(x))
        chosen, result = x[:, :3].argmax(-1), torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            places = (chosen == k).nonzero()[:, 0]
            if places.numel():
                result.index_add_(0, places, expert(x[places]))
        return work(result)


class Suppression(Base):
    """A detector's last steps: how many boxes are kept depends on where they lie."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        boxes = work(self.linear(x))
        order, kept = boxes[:, 4].argsort(descending=True), []
        while order.numel():
            kept.append(int(order[0]))
            order = order[(boxes[order, :2] - boxes[order[0], :2]).abs().sum(-1) > 0.5]
        return boxes[kept], boxes[kept, 4]


class Layers(nn.Module):
    """Three alike, each with a branch: a graph that is searched once."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Branch() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
