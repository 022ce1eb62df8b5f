"""Which parameters of a solution are the task's."""

from __future__ import annotations

import torch
from planish.runner.places import places
from torch import nn


class Task(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.second = nn.Linear(4, 4, bias=False)


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4)
        self.b = nn.BatchNorm1d(4)
        self.c = nn.Linear(4, 4, bias=False)


class OtherOrder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        c = nn.Linear(4, 4)
        self.b = nn.BatchNorm1d(4)
        self.a = nn.Linear(4, 4, bias=False)
        self.c = c


class Packed(Task):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.cat([self.first.weight.detach(), self.second.weight.detach()]))


class Hidden(Task):
    def __init__(self) -> None:
        super().__init__()
        self.weights = [self.first.weight.detach().t().contiguous()]


class Fewer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)


def test_the_same_names_are_taken_by_name() -> None:
    model = Task()
    found = places(model, Task())
    assert found.kind == "by_name"
    assert found.parameters["second.weight"] is model.second.weight and found.buffers["norm.running_mean"] == "norm.running_mean"
    assert places(Fewer(), Task()).kind == "by_name", "what is left out has to be right without it"


def test_other_names_in_the_same_order_are_taken_by_order() -> None:
    model = Renamed()
    found = places(model, Task())
    assert found.kind == "by_order"
    assert found.parameters["first.bias"] is model.a.bias and found.parameters["second.weight"] is model.c.weight
    assert found.buffers["norm.running_var"] == "b.running_var"


def test_values_decide_whether_the_order_is_the_same() -> None:
    assert places(OtherOrder(), Task()).kind == "own"
    model = Renamed()
    with torch.no_grad():
        model.c.weight.add_(1)
    assert places(model, Task()).kind == "own"


def test_packed_weights_are_the_solutions_own() -> None:
    assert places(Packed(), Task()).kind == "own"
    assert places(Hidden(), Task()).kind == "own"


def test_what_a_task_holds_twice_is_found_under_both_names() -> None:
    class Tied(Task):
        def __init__(self) -> None:
            super().__init__()
            self.again = self.second

    model = Renamed()
    found = places(model, Tied())
    assert found.kind == "by_order"
    assert found.parameters["again.weight"] is found.parameters["second.weight"] is model.c.weight
