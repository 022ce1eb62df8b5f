"""What is changed on a module after its program was bound: seen at the next call, and never mixed into gradients of an earlier one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

HERE = Path(__file__).parent
for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(HERE.parent / neighbour))

from planish import executor  # noqa: E402
from planish.ship import load  # noqa: E402
from programs import buffer, launch, param, program, state, user  # noqa: E402
from shipping import program_ran, with_kernels  # noqa: E402

TASK = """
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.weight = nn.Parameter(torch.linspace(-1, 1, 8))
        self.register_buffer("scale", torch.linspace(1, 2, 8))
        self.tail = nn.Sequential(nn.LeakyReLU(0.1))
        self.gain = 3.0

    def forward(self, x):
        return self.tail(self.norm(x) * self.scale * self.weight) * self.gain

def get_inputs():
    return [torch.randn(4, 8)]
"""
KERNEL = {
    "language": "cpp",
    "entry": "whole",
    "flags": [],
    "source": """#include <cmath>
extern "C" void whole(void** args) {
  auto* x = (const float*)args[0]; auto* norm = (const float*)args[1]; auto* bias = (const float*)args[2];
  auto* weight = (const float*)args[3]; auto* scale = (const float*)args[4]; auto* out = (float*)args[5];
  for (int r = 0; r < 4; ++r) {
    double mean = 0, square = 0;
    for (int i = 0; i < 8; ++i) mean += x[r * 8 + i] / 8.0;
    for (int i = 0; i < 8; ++i) square += (x[r * 8 + i] - mean) * (x[r * 8 + i] - mean) / 8.0;
    for (int i = 0; i < 8; ++i) {
      const double n = (x[r * 8 + i] - mean) / std::sqrt(square + 1e-5) * norm[i] + bias[i], v = n * scale[i] * weight[i];
      out[r * 8 + i] = (float)((v < 0 ? 0.1 * v : v) * 3);
    }
  }
}
""",
}


def shipped(made: Path, extension: bool) -> Path:
    names = [param("norm.weight"), param("norm.bias"), param("weight"), state("scale")]
    document = program(
        [buffer("input", [4, 8], user(0)), *[buffer("param", [8], name) for name in names], buffer("output", [4, 8])],
        [launch(0, *[{"buffer": i} for i in range(6)])],
        [{"buffer": 5, "kind": "user"}],
        [KERNEL],
    )
    (made / "k.cpp").write_text(str(KERNEL["source"]))
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", str(made / "k.so"), str(made / "k.cpp")], check=True)
    return with_kernels(made, TASK, document, [str(made / "k.so")], extension)


@pytest.fixture(scope="module", params=["in C", "in Python"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shipped(tmp_path_factory.mktemp("changes"), request.param == "in C")


def original(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return type(model).__mro__[1].forward(model, x)


def expect(model: nn.Module, ran: bool, x: torch.Tensor) -> None:
    did, result = program_ran(model, x)
    assert did is ran
    torch.testing.assert_close(result, original(model, x))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "an attribute": lambda m: setattr(m, "gain", 9.0),
    "a child's attribute": lambda m: setattr(m.norm, "eps", 0.5),
    "a grandchild's attribute": lambda m: setattr(m.tail[0], "negative_slope", 0.9),
    "a child's forward": lambda m: setattr(m.norm, "forward", lambda x: x * 7),
    "a grandchild's forward": lambda m: setattr(m.tail[0], "forward", lambda x: x * 7),
    "the forward": lambda m: setattr(m, "forward", lambda x: type(m).__mro__[1].forward(m, x) * 7),
    "another child": lambda m: m.tail.append(nn.Tanh()),
    "a replaced child": lambda m: setattr(m, "norm", nn.LayerNorm(8, eps=0.5)),
    "a grandchild replaced": lambda m: m.tail.__setitem__(0, nn.LeakyReLU(0.5)),
    "a child's hook": lambda m: m.norm.register_forward_hook(lambda module, given, result: result * 3),
    "a parametrization": lambda m: nn.utils.parametrize.register_parametrization(m.norm, "weight", nn.Tanh()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@torch.no_grad()
def test_a_change_after_binding_counts(folder: Path, change: Callable[[Any], Any]) -> None:
    model, x = load(folder), torch.randn(4, 8)
    for _ in range(4):
        expect(model, True, x)
    before = model(x)
    change(model)
    for _ in range(3):
        wanted = model.forward(x) if "forward" in vars(model) else original(model, x)
        torch.testing.assert_close(model(x), wanted)
        assert not torch.allclose(wanted, before)


@torch.no_grad()
def test_an_attribute_set_back_brings_the_program_back(folder: Path) -> None:
    model, x = load(folder), torch.randn(4, 8)
    expect(model, True, x)
    model.norm.eps = 0.5
    expect(model, False, x)
    model.norm.eps = 1e-5
    model(x)
    expect(model, True, x)


@pytest.fixture(scope="module")
def deferring(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    """Makes modules as a single file does, whose program also runs (in the C form) where parameters may be asked for gradients."""
    folder = shipped(tmp_path_factory.mktemp("deferring"), True)
    cls = type(load(folder))
    own = sys.modules[cls.__module__]._guards
    deferred = own.Shipped(own.Folder(folder), executor, defer_gradients=True)

    def make() -> Any:
        model = cls()
        object.__setattr__(model, "_planish", own.attach(deferred, model, cls.__mro__[1]))
        return model

    return make


BETWEEN = {
    "a buffer replaced": lambda m: setattr(m, "scale", torch.full((8,), 5.0)),
    "an attribute": CHANGES["an attribute"],
    "a child's attribute": CHANGES["a child's attribute"],
    "a grandchild's attribute": CHANGES["a grandchild's attribute"],
    "a child's forward": CHANGES["a child's forward"],
    "a parameter replaced": lambda m: setattr(m, "weight", nn.Parameter(torch.zeros(8))),
    "a child replaced": CHANGES["a replaced child"],
    "another child": CHANGES["another child"],
    "a hook": CHANGES["a child's hook"],
    "a state loaded": lambda m: setattr(m.norm, "weight", nn.Parameter(torch.zeros(8))),
}


@pytest.mark.parametrize("change", BETWEEN.values(), ids=BETWEEN.keys())
def test_gradients_are_of_what_ran(deferring: Callable[[], Any], change: Callable[[Any], Any]) -> None:
    model, x = deferring(), torch.randn(4, 8)
    parameters = [model.weight, model.norm.weight, model.norm.bias]
    wanted = original(model, x)
    expected = torch.autograd.grad(wanted.square().sum(), parameters)
    for _ in range(2):  # the first call binds
        ran, result = program_ran(model, x)
    assert ran and result.requires_grad
    torch.testing.assert_close(result, wanted)
    change(model)
    found = torch.autograd.grad(result.square().sum(), parameters)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


IN_PLACE = {
    "a buffer": lambda m, x: m.scale.add_(1),
    "a parameter": lambda m, x: m.weight.detach().add_(1),
    "a child's parameter": lambda m, x: m.norm.weight.detach().add_(1),
    "the input": lambda m, x: x.add_(1),
}


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_a_change_in_place_before_backward_raises_as_eager_does(deferring: Callable[[], Any], change: Callable[[Any, torch.Tensor], Any]) -> None:
    for run in (lambda m, x: m(x), original):
        model, x = deferring(), torch.randn(4, 8)
        result = run(model, x).square().sum()
        change(model, x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()


def test_another_default_dtype_at_backward_is_refused(deferring: Callable[[], Any]) -> None:
    model, x = deferring(), torch.randn(4, 8)
    result = model(x).sum()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RuntimeError, match="default dtype was changed"):
            result.backward()
    finally:
        torch.set_default_dtype(torch.float32)
