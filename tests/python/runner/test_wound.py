"""What a solution counts is found and moved on; what only looks like a count stays."""

from __future__ import annotations

import datetime
import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from planish.runner.wound import Wound

SOURCE = """
import itertools
from time import time as now
from datetime import datetime
import torch
CALLS = 0
FIXED = 7

class Kept:
    n = 0
    clock = now

class ModelNew(torch.nn.Module):
    shared = 0

    def __init__(self):
        super().__init__()
        self.count, self.ring, self.half, self.flag = 0, 0, 1.0, True
        self.turns = itertools.count(3)
        self.state = Kept()
        self.register_buffer("seen", torch.zeros(()))
        self.table = {"calls": [0]}
        self.begun = now()

    def forward(self):
        global CALLS
        CALLS += 1
        type(self).shared += 2
        self.count -= 1
        self.ring = (self.ring + 1) % 8
        self.half /= 2
        self.flag = not self.flag
        next(self.turns)
        self.state.n += 1
        self.seen += 1
        self.table["calls"][0] += 1
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "solution.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("planish_solution_test", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    clocks = {name: getattr(time, name) for name in dir(time) if callable(getattr(time, name))}
    date = datetime.datetime
    yield made
    for name, clock in clocks.items():
        setattr(time, name, clock)
    datetime.datetime = date  # type: ignore[misc]
    del sys.modules[spec.name]


def test_counts_are_moved_on_and_rings_are_not(module: ModuleType, tmp_path: Path) -> None:
    model = module.ModelNew()
    wound = Wound(model, tmp_path / "solution.py")
    for calls in range(1, 31):
        model()
        wound.look(calls)
    moved = wound.wind(1000)
    assert model.count == -1030 and module.CALLS == 1030 and module.ModelNew.shared == 2060
    assert next(model.turns) == 1033 and model.state.n == 1030 and model.seen.item() == 1030 and model.table["calls"] == [1030]
    assert model.ring == 30 % 8 and model.half == 2.0**-30 and model.flag is True and module.FIXED == 7
    assert any("self.count (by -1 a call)" in words for words in moved)
    wound.wind(10**6)
    assert module.CALLS == 1_001_030 and model.ring == 30 % 8


def test_calls_behind_which_buffers_are_put_back_count_for_other_places(module: ModuleType, tmp_path: Path) -> None:
    model = module.ModelNew()
    model.register_buffer("calls", torch.zeros((), dtype=torch.int64))
    wound = Wound(model, tmp_path / "solution.py")
    for calls in range(1, 31):
        model()
        if calls % 4 == 0:
            wound.put_back([model._buffers])
        else:
            model.calls += 1
        wound.look(calls)
    wound.wind(1000)
    assert model.count == -1030 and model.calls.item() == 1023


def test_clocks_are_turned_once_wherever_they_were_taken_from(module: ModuleType, tmp_path: Path) -> None:
    model = module.ModelNew()
    before = {name: getattr(time, name)() for name in ("time", "monotonic", "perf_counter", "time_ns")}
    today = datetime.datetime.now()
    real = datetime.datetime
    wound = Wound(model, tmp_path / "solution.py")
    wound.wind(1)
    after = {name: getattr(time, name)() for name in before}
    year = 365 * 86400
    assert all(after[name] - before[name] >= year * (1e9 if name.endswith("_ns") else 1) for name in before)
    assert module.now() - before["time"] >= year and module.Kept().clock() - before["time"] >= year
    assert module.datetime.now() - today >= datetime.timedelta(300) and isinstance(today, datetime.datetime) and issubclass(datetime.datetime, real)
    wound.wind(1)
    assert time.time() - after["time"] < year / 2


def test_too_few_calls_say_nothing(module: ModuleType, tmp_path: Path) -> None:
    model = module.ModelNew()
    wound = Wound(model, tmp_path / "solution.py")
    for calls in range(1, 8):
        model()
        wound.look(calls)
    assert wound.wind(1000) == [] and model.count == -7
