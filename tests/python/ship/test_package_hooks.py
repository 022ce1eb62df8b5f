"""Hooks that a model's own package registers behind its layers are part of what was captured; others stop the program, and so does a caller further out
that records what such hooks see."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from live_program import attached

#: As transformers does it: hooks are there from the first call on that asks for hidden states, and put them where the call in progress looks.
PACKAGE = """
from contextvars import ContextVar

import torch
from torch import nn


class Kept:
    def __init__(self):
        self.variable = ContextVar("collector", default=None)


collector = Kept()


def install(layer, scale):
    def record(module, args, output):
        found = collector.variable.get()
        if found is not None:
            found.append(output * scale)

    layer.register_forward_hook(record)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.linear(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x, states=False):
        if states and not getattr(self, "_hooked", False):
            for number, layer in enumerate(self.layers):
                install(layer, number + 1.0)
            self._hooked = True
        token = collector.variable.set([]) if states else None
        try:
            for layer in self.layers:
                x = layer(x)
            return (x, *collector.variable.get()) if states else x
        finally:
            if token is not None:
                collector.variable.reset(token)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("hooks") / "site-packages"
    (folder / "recording_layers").mkdir(parents=True)
    (folder / "recording_layers" / "__init__.py").write_text(PACKAGE)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("recording_layers")
    sys.path.remove(str(folder))
    del sys.modules["recording_layers"]


def ran(model: Any, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
    before = planish.status(model).ran
    result = model(*args, **kwargs)
    return planish.status(model).ran > before, result


@torch.no_grad()
def test_a_model_that_has_recorded_before(package: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = package.Model().eval(), torch.randn(3, 8)
    model(x, states=True)
    twin = copy.deepcopy(model)
    attached(model, tmp_path, x, states=True)
    for _ in range(2):
        by_program, ours = ran(model, x, states=True)
        assert by_program
        for a, b in zip(ours, twin(x, states=True), strict=True):
            torch.testing.assert_close(a, b)
    # Another hook of the package's, none, a hook of the user's.
    layer = model.layers[0]
    (key, own), *_ = layer._forward_hooks.items()
    package.install(layer, 3.0)
    assert not ran(model, x, states=True)[0]
    layer._forward_hooks.popitem()
    assert ran(model, x, states=True)[0]
    del layer._forward_hooks[key]
    assert not ran(model, x, states=True)[0]
    assert "no longer has the hooks" in str(planish.status(model).fell_back)
    layer._forward_hooks[key] = own
    assert ran(model, x, states=True)[0]
    layer._forward_hooks[key] = lambda module, args, output: None
    assert not ran(model, x, states=True)[0]


@torch.no_grad()
def test_a_caller_further_out_that_records(package: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = package.Model().eval(), torch.randn(3, 8)
    model(x, states=True)
    attached(model, tmp_path, x)
    assert ran(model, x)[0]
    token = package.collector.variable.set(seen := [])
    assert not ran(model, x)[0] and len(seen) == 2
    package.collector.variable.reset(token)
    assert ran(model, x)[0]
    assert "context variable 'collector'" in str(planish.status(model).fell_back)


@torch.no_grad()
def test_a_hook_of_the_users_stops_the_program(package: Any, tmp_path: Path) -> None:
    model, x = package.Model().eval(), torch.randn(3, 8)
    seen: list[Any] = []
    model.layers[0].register_forward_hook(lambda module, args, output: seen.append(output))
    attached(model, tmp_path, x)
    assert not ran(model, x)[0]
    with pytest.raises(planish.PlanishError, match=r"'layers\.0' has a hook"):
        planish.optimize(model, (x,), budget="1s", pieces=False)
