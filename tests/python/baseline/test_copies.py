"""Modules that copy.deepcopy() refuses are timed all the same: they are made anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "ship"))

from planish.baseline.table import Table
from planish.runner.timing import Limits
from shipping import ship

QUICK = Limits(min_runs=6, max_runs=12, max_seconds=0.5, interval=0.05)
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

#: Each has something that cannot be copied, parameters that are tied, buffers and parts in another mode than the whole.
TASK = """
import threading
import torch
from torch import nn
from torch.nn.utils import spectral_norm, weight_norm

class Config(dict):
    __getattr__ = dict.__getitem__

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.still = nn.BatchNorm1d(16).eval()
        self.register_buffer("gain", torch.full((16,), 2.0), persistent=False)
        SPECIAL

    def forward(self, x):
        return self.still(self.second(self.first(self.norm(x)))).relu() * self.gain

def get_inputs():
    return [torch.randn(32, 16)]
"""
SPECIAL = {
    "a dict that answers to every name": "self.config = Config(width=16)",
    "a lock": "self.lock = threading.Lock()",
    "a weight of weight_norm": "self.third = weight_norm(nn.Linear(16, 16))",
}


@pytest.fixture(params=SPECIAL)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    ship(tmp_path, TASK.replace("SPECIAL", SPECIAL[request.param]))
    return Table(tmp_path / "task.py", torch.device("cpu"))


def test_every_row_is_timed_and_compared(table: Table, tmp_path: Path) -> None:
    table.add("eager", "eager", None)
    table.add("ours", "shipped", tmp_path / "shipped")
    found = table.time(["eager", "ours"], QUICK)
    assert found["errors"] == {} and set(found["times"]) == {"eager", "ours"}
    table.entries["ours"].module.forward = lambda x: torch.zeros_like(x)  # type: ignore[method-assign]
    assert table.time(["ours"], QUICK)["errors"]["ours"]["kind"] == "wrong_when_timed", "what it returns is still looked at"


def test_a_twin_shares_parameters_but_not_buffers(table: Table) -> None:
    with torch.no_grad():
        table.model.first.weight.mul_(3)
        table.model.gain.mul_(3)
    twin = table._twin()
    assert twin.first.weight.data_ptr() == twin.second.weight.data_ptr() == table.model.first.weight.data_ptr()
    assert torch.equal(twin.gain, table.model.gain) and twin.gain.data_ptr() != table.model.gain.data_ptr()
    assert twin.norm.training and not twin.still.training
    x = torch.randn(32, 16)
    with torch.no_grad():
        torch.testing.assert_close(twin(x), table.model(x))


def test_a_copy_in_fp64_leaves_the_model_as_it_is(table: Table) -> None:
    with torch.no_grad():
        [exact] = table._in_double(0, 1) or [None]
    assert exact is not None and exact.dtype is torch.float64
    assert {p.dtype for p in table.model.parameters()} == {torch.float32}


def test_what_no_memory_is_left_for_is_not_made_anew(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("planish.baseline.table.copy.deepcopy", full)
    monkeypatch.setattr(table.task, "rebuild", lambda: pytest.fail("there is no room for another one"))
    with pytest.raises(torch.OutOfMemoryError):
        table._twin()


def with_shipped(folder: Path, task: str) -> Table:
    """A table of what ships for the task, as `ours`."""
    shipped = ship(folder, task)
    table = Table(folder / "task.py", torch.device("cpu"))
    table.add("ours", "shipped", shipped)
    return table


SPECTRAL = """
import torch
from torch import nn
from torch.nn.utils import spectral_norm

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = spectral_norm(nn.Linear(64, 64))

    def forward(self, x):
        return torch.tanh(self.layer(x))

def get_inputs():
    return [torch.randn(8, 64)]
"""


def test_results_that_follow_buffers_which_calls_change(tmp_path: Path) -> None:
    """A spectral norm in training mode is another function after many calls than at the first."""
    table = with_shipped(tmp_path, SPECTRAL)
    assert table.time(["ours"], QUICK)["errors"] == {}
    table.entries["ours"].module.forward = lambda x: torch.zeros_like(x)  # type: ignore[method-assign]
    assert table.time(["ours"], QUICK)["errors"]["ours"]["kind"] == "wrong_when_timed"


SCALED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((64,), 3.0))

    def forward(self, x):
        return torch.tanh(x) * self.scale

def get_inputs():
    return [torch.randn(8, 64)]
"""


def test_results_that_follow_buffers_which_no_call_of_eager_changes(tmp_path: Path) -> None:
    """What a timed module leaves in a buffer is no excuse for results that are eager's with that."""
    table = with_shipped(tmp_path, SCALED)
    module = table.entries["ours"].module

    def nothing(x: torch.Tensor) -> torch.Tensor:
        dict(module.named_buffers())["scale"].zero_()
        return torch.zeros_like(x)

    module.forward = nothing  # type: ignore[method-assign]
    assert table.time(["ours"], QUICK)["errors"]["ours"]["kind"] == "wrong_when_timed"
