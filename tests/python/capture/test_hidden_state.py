"""Attributes that a call assigns: refused where they are state, accepted where a hook of torch's computes them anew each time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import Captured, capture
from planish.capture.live import load_live, write_live
from planish.errors import PlanishError
from planish.oracle.interpret import Interpreter, Mode
from torch import nn
from torch.nn.utils import spectral_norm

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.nn.utils import weight_norm

HOOKS = [weight_norm, spectral_norm]
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Two(nn.Module):
    def __init__(self, hooked: Callable[..., Any]) -> None:
        super().__init__()
        self.a, self.b = hooked(nn.Conv1d(3, 4, 3, padding=1)), hooked(nn.Linear(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.b(self.a(x).relu())
        return y


class Early(Two):
    """Reads the weight before the hook computes it: that of the last call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.b.weight.t() + super().forward(x).mean(1, keepdim=True)


def computed(result: Captured, model: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the captured graph computes of the outputs, by kind and target."""
    graph = result.graph
    given = dict(zip((item["value"] for item in graph["inputs"]), result.flat_inputs((x,), {}, model), strict=True))
    given = {value: tensor.detach().clone() for value, tensor in given.items()}
    found = Interpreter(result, range(len(graph["nodes"]))).run(given, [o["value"] for o in graph["outputs"]], Mode())
    return {str(o.get("target", "result")): found[o["value"]] for o in graph["outputs"]}


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("hooked", HOOKS)
def test_weights_that_hooks_compute_are_no_state(hooked: Callable[..., Any], training: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Two(hooked).train(training), torch.randn(2, 3, 8)
    before = model.b.weight
    result = capture(model, (x,), {}, tmp_path / "blobs")
    assert model.b.weight is before, "nothing without contents stays there"
    names = {item["name"] for item in result.graph["inputs"]}
    assert ("b.weight_g" if hooked is weight_norm else "b.weight_orig") in names
    assert not any(item["kind"] == "const" for item in result.graph["inputs"])
    with torch.no_grad():
        first = model.b.weight_g if hooked is weight_norm else model.b.weight_orig
        first.mul_(-3)  # parameters are live
        found = computed(result, model, x)
        torch.testing.assert_close(found.pop("result"), model(x))
    moved = {"a.weight_u", "a.weight_v", "b.weight_u", "b.weight_v"} if hooked is spectral_norm and training else set()
    assert found.keys() == moved, "a spectral norm in training mode changes its buffers, which are effects like others"
    for name, value in found.items():
        torch.testing.assert_close(value, model.get_buffer(name))


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize("hooked", HOOKS)
def test_as_a_live_module(hooked: Callable[..., Any], exported: bool, tmp_path: Path) -> None:
    model, x = Two(hooked).eval(), torch.randn(2, 3, 8)
    form = write_live(tmp_path / "task", "it", model, (x,), {}, exported)
    assert form == ("exported" if exported else "module")
    task = load_live(tmp_path / "task")
    capture(task.model, (x,), {}, tmp_path / "blobs")
    torch.testing.assert_close(task.model(x), model(x))


@pytest.mark.parametrize("hooked", HOOKS)
def test_a_weight_that_is_read_before_its_hook_ran_is_state(hooked: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as error:
        capture(Early(hooked), (torch.randn(2, 3, 8),), {}, tmp_path / "blobs")
    assert error.value.kind == "not_exportable" and "'b.weight'" in error.value.message
    assert f"remove_{hooked.__name__}" in error.value.hint and f"parametrizations.{hooked.__name__}" in error.value.hint


def test_a_hook_of_the_module_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as error:
        capture(spectral_norm(nn.Linear(4, 4)), (torch.randn(2, 4),), {}, tmp_path / "blobs")
    assert error.value.kind == "not_exportable" and "remove_spectral_norm" in error.value.hint


class Many(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("zeta", "alpha", "mid", "beta"):
            setattr(self, name, torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in ("zeta", "mid", "beta", "alpha"):
            setattr(self, name, getattr(self, name) + x)
        y: torch.Tensor = self.zeta + self.mid + self.beta + self.alpha
        return y


def test_the_attribute_that_is_named_is_always_the_same(tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(PlanishError, match="'alpha'") as error:
            capture(Many(), (torch.randn(4),), {}, tmp_path / "blobs")
        assert "register_buffer('alpha'" in error.value.hint
