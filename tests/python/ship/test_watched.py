"""Dictionaries that the C form compares: each twice, and then only where it changed."""

from __future__ import annotations

import collections
import gc
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from live_program import attached as attached_program
from stand_in import attached, extension
from torch import nn

X = torch.ones(4, 8)
CHANGES = getattr(extension(), "changes", "none")
watched = pytest.mark.skipif(CHANGES == "none", reason="this Python tells of no changes")


def test_this_python_tells_of_changes() -> None:
    older, silent = sys.version_info < (3, 12), sys.version_info[:3] == (3, 13, 0)  # CPython's issue 125608
    assert ("tag" if older else "none" if silent else "callback") == CHANGES


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU())
        self.scale, self.note = 2.0, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x) * self.scale * FACTORS["one"]
        return result


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)
        return result


FACTORS = {"one": 1.5}


def made() -> Any:
    return attached(Outer().eval(), X, extension=extension())


def looked_into(module: Any) -> int:
    """By a call that the C form answers."""
    plan = module._planish.fast.__self__
    before = plan.hits()
    module(X)
    assert plan.hits() == before + 1
    count: int = plan.looked_into()
    return count


@watched
@torch.no_grad()
def test_what_did_not_change_is_compared_twice() -> None:
    module = made()
    module(X)  # bound by the checks in Python
    first = looked_into(module)
    assert first > 10  # attributes, submodules, hooks, globals
    assert looked_into(module) == first
    assert [looked_into(module) for _ in range(3)] == [0, 0, 0]
    module.inner.note = 1  # nothing that forward reads
    assert [looked_into(module) for _ in range(3)] == [1, 1, 0]
    FACTORS["one"], one = 9.0, FACTORS["one"]
    FACTORS["one"] = one
    assert [looked_into(module) for _ in range(3)] == [1, 1, 0]


@torch.no_grad()
def test_what_changes_between_calls_is_always_seen() -> None:
    """Whatever the number of calls before, and by whichever way the dictionary is written."""

    def by_function(m: Any) -> None:
        m.inner.scale = 5.0

    def hot(m: Any) -> None:
        for k in range(100):
            m.inner.scale = float(k)

    ways: list[Any] = [
        by_function, hot, lambda m: vars(m.inner).update(scale=5.0), lambda m: object.__setattr__(m.inner, "scale", 5.0),
        lambda m: vars(m.inner).pop("scale") and vars(m.inner).setdefault("scale", 5.0), lambda m: vars(m.inner).__ior__({"scale": 5.0}),
        lambda m: m.inner.layers.__setitem__(1, nn.LayerNorm(8, eps=0.5)), lambda m: m.inner.layers[1].register_forward_hook(lambda *a: a[2] * 3),
        lambda m: m.inner.layers[1].register_forward_pre_hook(lambda *a: (a[1][0] * 3,)), lambda m: FACTORS.update(one=7.0),
        lambda m: setattr(m.inner, "forward", lambda x: x * 7), lambda m: m.inner.layers.append(nn.Tanh()),
    ]  # fmt: skip
    for way in ways:
        for calls in range(6):
            module = made()
            before = [module(X) for _ in range(calls)]
            way(module)
            wanted = Outer.forward(module, X)
            assert all(not torch.equal(wanted, result) for result in before)
            assert torch.equal(module(X), wanted)
            assert torch.equal(module(X), wanted)
            FACTORS["one"] = 1.5


@torch.no_grad()
def test_parameters_are_those_of_the_call(tmp_path: Path) -> None:
    """A program reads the tensors that the module holds now."""
    module, twin = Outer().eval(), Outer().eval()
    attached_program(module, tmp_path, X)
    module(X)
    plan = module._planish.fast.__self__
    for calls in range(6):
        for _ in range(calls):
            module(X)
        hits = plan.hits()
        module.inner.layers[0].weight = nn.Parameter(torch.randn(8, 8))
        module.inner.layers[1]._parameters["bias"] = nn.Parameter(torch.randn(8))
        module.inner.layers[1].weight.data = torch.randn(8)
        twin.load_state_dict(module.state_dict())
        torch.testing.assert_close(module(X), twin(X))
        torch.testing.assert_close(module(X), twin(X))
        assert plan.hits() == hits + 2


@torch.no_grad()
def test_hooks_in_a_new_order_are_seen() -> None:
    """An ordered dictionary's order changes and its entries do not."""
    outer = Outer().eval()
    for name in ("weight", "bias"):
        nn.utils.weight_norm(outer.inner.layers[0], name)
    module = attached(outer, X, extension=extension())
    module(X)
    plan = module._planish.fast.__self__
    for _ in range(4):
        module(X)
    assert plan.hits() == 4
    hooks = module.inner.layers[0]._forward_pre_hooks
    assert isinstance(hooks, collections.OrderedDict)
    hooks.move_to_end(next(iter(hooks)))
    assert torch.equal(module(X), Outer.forward(module, X))
    assert plan.hits() == 4


@torch.no_grad()
def test_hooks_in_another_dictionary_are_seen() -> None:
    module = made()
    for _ in range(4):
        module(X)
    module.inner._forward_hooks = collections.OrderedDict()
    plan = module._planish.fast.__self__
    hits = plan.hits()
    for _ in range(4):
        module(X)
    assert plan.hits() == hits + 4  # an equal one
    module.inner._forward_hooks[0] = lambda m, a, y: y * 3
    assert torch.equal(module(X), Outer.forward(module, X))


@watched
@torch.no_grad()
def test_dictionaries_are_let_go_with_their_module() -> None:
    """Many modules that share a global: each watches it, and none keeps it from being watched by the next."""
    for _ in range(50):
        module = made()
        for _ in range(3):
            module(X)
        del module
    gc.collect()
    module = made()
    for _ in range(4):
        module(X)
    FACTORS["one"] = 7.0
    try:
        assert torch.equal(module(X), Outer.forward(module, X))
    finally:
        FACTORS["one"] = 1.5
