"""Shipped modules keep the user's habits, and step aside whenever a call is not what they were made for."""

from __future__ import annotations

import copy
import pickle
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from planish.ship import load
from shipping import program_ran, ship

MLP = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width, slope=0.5):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.act = nn.Sequential(nn.ReLU(), nn.Identity())
        self.slope = slope

    def forward(self, x):
        return self.act(self.first(x)) * self.slope

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return [8]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ship(tmp_path_factory.mktemp("mlp"), MLP)


@pytest.fixture
def model(folder: Path) -> nn.Module:
    return load(folder)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 8)


def original(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """What the user's own forward gives."""
    return type(model).__mro__[1].forward(model, *args, **kwargs)


def expect(model: nn.Module, ran: bool, *args: Any, **kwargs: Any) -> None:
    did, result = program_ran(model, *args, **kwargs)
    assert did is ran
    torch.testing.assert_close(result, original(model, *args, **kwargs))


@torch.no_grad()
def test_runs_the_program_and_equals_the_original(model: nn.Module, x: torch.Tensor) -> None:
    expect(model, True, x)
    expect(model, True, x + 1)


def test_looks_like_the_original(model: nn.Module, folder: Path) -> None:
    reference = sys.modules[type(model).__mro__[1].__module__].Model(8)
    assert isinstance(model, type(reference))
    assert list(model.state_dict()) == list(reference.state_dict())
    assert model.load_state_dict(reference.state_dict()).missing_keys == []
    assert [n for n, _ in model.named_modules()] == [n for n, _ in reference.named_modules()]


@torch.no_grad()
def test_parameters_are_live(model: nn.Module, x: torch.Tensor) -> None:
    model(x)
    state = {k: torch.randn_like(v) for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    expect(model, True, x)
    model.first.weight = nn.Parameter(torch.randn(8, 8))
    expect(model, True, x)
    model.first.bias.data = torch.randn(8)
    expect(model, True, x)
    model.first.weight.data.mul_(2)
    expect(model, True, x)
    model.first = nn.Linear(8, 8)
    model(x)  # the replaced submodule is found again
    expect(model, True, x)


@torch.no_grad()
def test_deepcopy_has_its_own_parameters(model: nn.Module, x: torch.Tensor) -> None:
    model(x)
    twin = copy.deepcopy(model)
    twin.first.weight.fill_(0.25)
    expect(twin, True, x)
    expect(model, True, x)
    assert not torch.equal(twin(x), model(x))


@torch.no_grad()
def test_pickle_and_torch_save(model: nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    model(x)
    again = pickle.loads(pickle.dumps(model))
    expect(again, True, x)
    assert torch.equal(again(x), model(x))
    torch.save(model, tmp_path / "model.pt")
    expect(torch.load(tmp_path / "model.pt", weights_only=False), True, x)


@torch.no_grad()
def test_constructor_arguments(folder: Path, x: torch.Tensor) -> None:
    module = sys.modules[type(load(folder)).__module__]
    expect(module.ModelNew(8), True, x)
    expect(module.ModelNew(8, slope=0.75), False, x)
    expect(module.ModelNew(6), False, torch.randn(4, 6))
    torch.manual_seed(3)
    module.ModelNew(8)
    after = torch.rand(1)
    torch.manual_seed(3)
    module.Model(8)
    assert torch.equal(after, torch.rand(1)), "the caller's random numbers go on as with the original"


@torch.no_grad()
def test_other_inputs_run_the_original(model: nn.Module, x: torch.Tensor) -> None:
    expect(model, False, torch.randn(5, 8))
    expect(model, False, torch.randn(2, 4, 8))
    expect(model, False, torch.randn(8, 4).t())
    expect(model, True, torch.randn(4 * 8 + 1)[1:].view(4, 8))  # begins at an odd place: copied
    expect(model, True, x=x)  # captured as a positional argument
    double = copy.deepcopy(model).double()
    expect(double, False, x.double())
    expect(model, True, x)


def test_gradients_run_the_original(model: nn.Module, x: torch.Tensor) -> None:
    ran, result = program_ran(model, x)
    assert not ran and result.requires_grad
    result.sum().backward()
    assert model.first.weight.grad is not None
    model.requires_grad_(False)
    expect(model, True, x)
    expect(model, False, x.clone().requires_grad_())
    with torch.inference_mode():
        expect(model, True, torch.randn(4, 8))


@torch.no_grad()
def test_modes_run_the_original(model: nn.Module, x: torch.Tensor) -> None:
    model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ran, result = program_ran(model, x)
        assert not ran and result.dtype is torch.bfloat16
    ran, result = program_ran(torch.vmap(model), x)
    assert not ran
    torch.testing.assert_close(result, original(model, x))
    torch.use_deterministic_algorithms(True)
    try:
        expect(model, False, x)
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.autograd.forward_ad.dual_level():
        assert not program_ran(model, x)[0]
    with torch.device("cpu"):
        expect(model, True, x)
    expect(model, True, x)


class Tagged(torch.Tensor):
    pass


@torch.no_grad()
def test_tensor_subclasses_and_fake_tensors_run_the_original(model: nn.Module, x: torch.Tensor) -> None:
    ran, result = program_ran(model, x.as_subclass(Tagged))
    assert not ran and type(result) is Tagged
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        ran, result = program_ran(model, mode.from_tensor(x))
        assert not ran and tuple(result.shape) == (4, 8)


@torch.no_grad()
def test_tracing_and_compiling_see_the_original(model: nn.Module, x: torch.Tensor) -> None:
    model(x)
    traced, _ = program_ran(lambda y: torch.jit.trace(model, y, check_trace=False), x)
    assert not traced
    graph = torch.export.export(model, (x,)).graph
    assert any("linear" in str(n.target) for n in graph.nodes)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    ran, result = program_ran(compiled, x)
    assert not ran
    torch.testing.assert_close(result, original(model, x))


@torch.no_grad()
def test_hooks_modes_and_attributes_of_the_module(model: nn.Module, x: torch.Tensor) -> None:
    expect(model, True, x)
    called = []
    hook = model.first.register_forward_hook(lambda *_: called.append(1))
    assert not program_ran(model, x)[0] and called
    hook.remove()
    expect(model, True, x)
    model.eval()  # no part of it asks for the mode
    expect(model, True, x)
    model.train()
    expect(model, True, x)
    model.slope = 2.0
    expect(model, False, x)
    model.slope = 0.5
    expect(model, True, x)
    model.extra = nn.Linear(2, 2)
    expect(model, False, x)


DROPOUT = """
import torch
from torch import nn

def halve(module, y):
    return y if module.training else y / 2

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5).eval()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.drop(self.norm(x))
"""
INPUTS = """
def get_inputs():
    return [torch.randn(4, 8)]
"""


@torch.no_grad()
def test_modes_matter_where_somebody_asks_for_them(tmp_path: Path, x: torch.Tensor) -> None:
    model = load(ship(tmp_path / "dropout", DROPOUT + INPUTS))
    expect(model, True, x)
    expect(model.eval(), True, x)
    ran, result = program_ran(model.train(), x)
    assert not ran and (result == 0).any(), "dropout is on now"
    model.drop.eval()
    expect(model, True, x)
    model.norm.eval()  # layer norm does the same in both modes
    expect(model, True, x)


@torch.no_grad()
def test_a_helper_that_asks_for_the_mode_counts(tmp_path: Path, x: torch.Tensor) -> None:
    model = load(ship(tmp_path / "helper", DROPOUT.replace("self.drop(self.norm(x))", "halve(self, self.drop(self.norm(x)))") + INPUTS))
    expect(model, True, x)
    model.training = False
    expect(model, False, x)


NESTED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.table = torch.arange(3.0)

    def forward(self, pair, *, options, power=2):
        a, b = pair
        return {"sum": (a + b) * self.scale, "rest": [a ** power + self.table, options["bias"]], "power": power}

def get_inputs():
    pair = (torch.randn(2, 3), torch.randn(2, 3))
    return [[pair], {"options": {"bias": torch.randn(3)}, "power": 3}]

def get_init_inputs():
    return []
"""


@torch.no_grad()
def test_nesting_keywords_scalars_and_constants(tmp_path: Path) -> None:
    model = load(ship(tmp_path, NESTED))
    pair, options = (torch.randn(2, 3), torch.randn(2, 3)), {"bias": torch.randn(3)}
    expect(model, True, pair, options=options, power=3)
    result = model(pair, options=options, power=3)
    assert result["rest"][1] is options["bias"] and result["power"] == 3
    expect(model, True, pair, power=3, options=options)
    expect(model, False, pair, options=options, power=2)
    expect(model, False, pair, options=options, power=3.0)
    expect(model, False, pair, options=options)
    expect(model, False, list(pair), options=options, power=3)
    model.table.add_(1)  # a constant of the program no longer holds
    expect(model, False, pair, options=options, power=3)
    expect(model, False, pair, options=options, power=3)
    named = namedtuple("named", "a b")
    expect(model, False, named(*pair), options=options, power=3)


NORM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        x.mul_(2)
        return self.norm(x)

def get_inputs():
    return [torch.randn(10, 6)]
"""


@torch.no_grad()
def test_effects_on_buffers_and_inputs(tmp_path: Path) -> None:
    model = load(ship(tmp_path, NORM))
    twin = type(model).__mro__[1]()
    twin.load_state_dict(model.state_dict())
    for _ in range(3):
        x = torch.randn(10, 6)
        y = x.clone()
        ran, result = program_ran(model, x)
        assert ran
        torch.testing.assert_close(result, twin(y))
        torch.testing.assert_close(x, y)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)
    assert int(model.norm.num_batches_tracked) == 3 and float(model.calls) == 3


TIED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))

def get_inputs():
    return [torch.randn(2, 4)]
"""


@torch.no_grad()
def test_untied_parameters_run_the_original(tmp_path: Path) -> None:
    model, x = load(ship(tmp_path, TIED)), torch.randn(2, 4)
    expect(model, True, x)
    model.a.weight.mul_(2)
    expect(model, True, x)
    model.b.weight = nn.Parameter(torch.randn(4, 4))
    expect(model, False, x)
    expect(copy.deepcopy(model), False, x)


@pytest.mark.parametrize("baseline", ["eager", "compile"])
@torch.no_grad()
def test_a_baseline_may_be_what_is_shipped(tmp_path: Path, baseline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ship(tmp_path, MLP, mode="baseline", baseline=baseline)
    (folder / "program.json").unlink()
    asked = []
    real = torch.compile

    def spy(function: Any, **options: Any) -> Any:
        asked.append(options)
        return real(function, backend="eager")

    monkeypatch.setattr(torch, "compile", spy)
    model, x = load(folder), torch.randn(4, 8)
    torch.testing.assert_close(model(x), original(model, x))
    torch.testing.assert_close(copy.deepcopy(model)(x), original(model, x))
    assert asked == ([] if baseline == "eager" else [{"options": {"fallback_random": True}}] * 2)  # numbers that a model draws are eager's


@torch.no_grad()
def test_a_shipped_max_autotune_never_hands_out_memory_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA graphs write into one buffer at every replay; here a stand-in for torch.compile does."""
    folder = ship(tmp_path, MLP, mode="baseline", baseline="max_autotune")
    (folder / "program.json").unlink()
    buffer = torch.empty(4, 8)

    def replaying(function: Any, **options: Any) -> Any:
        return lambda module, x: buffer.copy_(function(module, x)) if x.sum() != 0 else x

    monkeypatch.setattr(torch, "compile", replaying)
    model, x = load(folder), torch.randn(4, 8)
    monkeypatch.setattr(type(model._planish), "_replayed", staticmethod(lambda tensor: True))
    first = model(x)
    kept = first.clone()
    model(x + 1)
    assert torch.equal(first, kept)
    zeros = torch.zeros(4, 8)
    assert model(zeros) is zeros, "the caller's own tensor is returned as it is"


def test_a_program_for_another_device_runs_the_original(tmp_path: Path) -> None:
    import json

    folder = ship(tmp_path, MLP)
    program = json.loads((folder / "program.json").read_text())
    (folder / "program.json").write_text(json.dumps({**program, "target": "cuda", "arch": "sm_90a"}))
    model = load(folder)
    with torch.no_grad():
        expect(model, False, torch.randn(4, 8))
    assert "made for cuda" in model._planish.why
