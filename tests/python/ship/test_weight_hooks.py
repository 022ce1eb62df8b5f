"""Shipped modules whose layers have torch's classic weight_norm or spectral_norm: the hooks are part of what was captured."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from planish.capture import capture  # noqa: E402
from planish.errors import PlanishError  # noqa: E402
from planish.ship import guards, load  # noqa: E402
from programs import SCALE, buffer, build, program, scale, user  # noqa: E402
from shipping import aten_program, program_ran, runs, ship, with_kernels, write  # noqa: E402
from torch.nn.utils import prune, remove_weight_norm, spectral_norm  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.nn.utils import weight_norm

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

TASK = """
import torch
from torch import nn
from torch.nn.utils import weight_norm, spectral_norm

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Sequential(HOOK(nn.Linear(8, 8)), nn.ReLU()), HOOK(nn.Linear(8, 5))

    def forward(self, x):
        return self.b(self.a(x))

def get_inputs():
    return [torch.randn(4, 8)]
"""

#: Its kernel reads no weight, so that calls can be answered in C: what is looked at is the layer.
DOUBLE = """
import torch
from torch import nn
from torch.nn.utils import weight_norm

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(64)]
"""


def original(model: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = type(model).__mro__[1].forward(model, x)
    return result


@torch.no_grad()
def test_the_program_runs_with_live_parameters(tmp_path: Path) -> None:
    model, x = load(ship(tmp_path, TASK.replace("HOOK", "weight_norm"))), torch.randn(4, 8)
    for _ in range(2):
        ran, result = program_ran(model, x)
        assert ran
        torch.testing.assert_close(result, original(model, x))
        model.b.weight_g.mul_(3)
    remove_weight_norm(model.b)
    ran, result = program_ran(model, x)
    assert not ran
    torch.testing.assert_close(result, original(model, x))


PRUNED = TASK.replace("HOOK", "pruned").replace(
    "class Model",
    """from torch.nn.utils import prune

def pruned(layer):
    prune.random_unstructured(layer, "weight", 0.5)
    return layer

class Model""",
)


@torch.no_grad()
def test_a_pruned_layer_follows_its_mask(tmp_path: Path) -> None:
    made, x = ship(tmp_path, PRUNED), torch.randn(4, 8)
    model = load(made)
    for _ in range(2):
        ran, result = program_ran(model, x)
        assert ran
        torch.testing.assert_close(result, original(model, x))
        model.b.weight_mask.copy_(1 - model.b.weight_mask)
    twin = load(made)
    prune.remove(twin.b, "weight")
    assert not program_ran(twin, x)[0]


def test_a_module_that_is_pruned_itself_is_told_how_to_make_it_permanent(tmp_path: Path) -> None:
    layer = nn.Linear(8, 8)
    prune.l1_unstructured(layer, "weight", 0.5)
    with pytest.raises(PlanishError) as caught:
        capture(layer, (torch.randn(4, 8),), {}, tmp_path)
    assert caught.value.kind == "not_exportable" and "prune.remove(layer, 'weight')" in caught.value.hint


@torch.no_grad()
def test_a_spectral_norm_goes_on_as_eager_does(tmp_path: Path) -> None:
    made = ship(tmp_path, TASK.replace("HOOK", "spectral_norm"))
    model, twin = load(made), load(made)
    twin.load_state_dict(model.state_dict())
    for _ in range(3):
        x = torch.randn(4, 8)
        ran, result = program_ran(model, x)
        assert ran
        torch.testing.assert_close(result, original(twin, x))
        for (name, mine), (_, theirs) in zip(model.named_buffers(), twin.named_buffers(), strict=True):
            torch.testing.assert_close(mine, theirs, msg=name)
    model.b.eval()  # whose class does not read the mode, but the hook does
    before = model.b.weight_u.clone()
    assert not program_ran(model, torch.randn(4, 8))[0]
    assert torch.equal(model.b.weight_u, before)


@pytest.mark.parametrize("form", ["in C", "in Python"])
@torch.no_grad()
def test_other_hooks_are_seen_in_both_forms(form: str, tmp_path: Path) -> None:
    document = program([buffer("input", [64], user(0)), buffer("output", [64])], [scale(0, 1, 64)], [{"buffer": 1, "kind": "user"}], [SCALE])
    model = load(with_kernels(tmp_path, DOUBLE, document, build([SCALE], tmp_path), form == "in C"))
    x = torch.randn(64)
    model(x)
    with runs() as seen:
        assert torch.equal(model(x), x * 2)
    assert seen == ["direct" if form == "in C" else "run"]
    added = model.layer.register_forward_pre_hook(lambda module, args: None)
    assert not program_ran(model, x)[0] and model._planish.refused
    added.remove()
    assert program_ran(model, x)[0]
    (key, own), *_ = model.layer._forward_pre_hooks.items()
    for other in (lambda module, args: None, type(own)("weight", 1)):  # as many as before, and another
        model.layer._forward_pre_hooks[key] = other
        assert not program_ran(model, x)[0]
    model.layer._forward_pre_hooks[key] = own
    assert program_ran(model, x)[0]
    after = model.layer.register_forward_hook(lambda module, args, result: None)
    assert not program_ran(model, x)[0]
    after.remove()
    assert program_ran(model, x)[0]


def live(hook: Any) -> nn.Module:
    return nn.Sequential(hook(nn.Linear(8, 8)), nn.ReLU()).eval()


@torch.no_grad()
def test_a_live_module(tmp_path: Path) -> None:
    module, x = live(weight_norm), torch.randn(4, 8)
    blobs = tmp_path / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(module, (x,), {}, blobs).graph
    folder = write(tmp_path / "shipped", tmp_path, aten_program(graph), graph, modules=guards.configuration(module))
    ran, result = program_ran(load(folder, module), x)
    assert ran
    torch.testing.assert_close(result, nn.Sequential.forward(module, x))
    for other in (live(lambda layer: layer), live(spectral_norm)):
        with pytest.raises(PlanishError) as error:
            load(folder, other)
        assert error.value.kind == "another_module"
