"""`torch.compile(…, backend="planish")`, with a stand-in for the search."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from planish import api, dynamo, registration
from planish.capture import capture
from planish.errors import PlanishError
from planish.ship import guards
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "ship"))

from shipping import aten_program, write

PACKAGE = Path(planish.__file__).parent


class Search:
    """What planish.optimize was asked, and its answer: a module that marks what it computes."""

    def __init__(self, improved: bool = True) -> None:
        self.asked: list[Any] = []
        self.improved = improved
        self.error: PlanishError | None = None

    def __call__(self, graph: Any, inputs: tuple[Any, ...], **settings: Any) -> Any:
        self.asked.append((inputs, settings))
        if self.error is not None:
            raise self.error
        outcome = "improved" if self.improved else "no_improvement"
        return api.Optimized(lambda *given: tuple(t + 100 for t in graph.forward(*given)), {"outcome": outcome, "reason": "r"}, None, "module")


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    made = Search()
    monkeypatch.setattr(api, "optimize", made)
    torch._dynamo.reset()
    return made


@torch.no_grad()
def test_graphs_are_optimised_one_by_one(search: Search) -> None:
    registration.announce()
    module, x = nn.Linear(8, 8), torch.randn(4, 8)
    compiled = torch.compile(module, backend="planish", options={"budget": "3s", "baselines": "none"})
    torch.testing.assert_close(compiled(x), module(x) + 100)
    ((inputs, settings),) = search.asked
    assert settings["budget"] == "3s" and settings["baselines"] == "none" and settings["name"] == "graph"
    assert all(type(t) in (torch.Tensor, nn.Parameter) and not t.requires_grad for t in inputs) and any(t.shape == x.shape for t in inputs)


@torch.no_grad()
def test_a_graph_runs_its_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a program that is attached as optimize() attaches one: every call of the compiled model goes through it."""
    graphs: list[Any] = []

    def search(graph: Any, inputs: tuple[Any, ...], **settings: Any) -> Any:
        blobs = tmp_path / "shipped" / "blobs"
        blobs.mkdir(parents=True)
        document = capture(graph, inputs, {}, blobs).graph
        folder = write(tmp_path / "shipped", tmp_path, aten_program(document), document, modules=guards.configuration(graph))
        graphs.append(planish.load(folder, graph))
        return api.Optimized(graph, {"outcome": "improved"}, folder, "module")

    monkeypatch.setattr(api, "optimize", search)
    torch._dynamo.reset()
    module, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8)
    compiled = torch.compile(module, backend=planish.backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), module(x))
        module[0].weight.mul_(2)
    assert len(graphs) == 1 and planish.status(graphs[0]).ran == planish.status(graphs[0]).calls == 3


@torch.no_grad()
def test_a_graph_that_gains_nothing_runs_as_it_is(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = nn.Linear(8, 8), torch.randn(4, 8)
    search.improved = False
    monkeypatch.setenv("PLANISH_BACKEND_BUDGET", "4s")
    torch.testing.assert_close(torch.compile(module, backend=planish.backend)(x), module(x))
    assert search.asked[0][1]["budget"] == "4s"


@torch.no_grad()
def test_a_search_that_fails_leaves_the_graph(search: Search, caplog: pytest.LogCaptureFixture) -> None:
    search.error = PlanishError("random_ops", "it is random", "")
    module, x = nn.Linear(8, 8), torch.randn(4, 8)
    torch.testing.assert_close(torch.compile(module, backend=planish.backend)(x), module(x))
    assert "it is random" in caplog.text


def test_gradients_and_sizes_are_left_alone(search: Search, caplog: pytest.LogCaptureFixture) -> None:
    module, x = nn.Linear(8, 8), torch.randn(4, 8)
    torch.compile(module, backend=planish.backend, dynamic=False)(x).sum().backward()
    assert module.weight.grad is not None and search.asked == [] and "gradients" in caplog.text
    with torch.no_grad():
        assert torch.compile(lambda x: x + x.shape[0], backend=planish.backend, dynamic=True)(x).shape == x.shape
    assert search.asked == [] and "dynamic=False" in caplog.text


def test_fake_tensors_are_drawn() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = [torch.empty(8, 4).T, torch.zeros(3, dtype=torch.int64)]
    real = [dynamo._real(t) for t in fake]
    assert real[0].stride() == (1, 4) and type(real[0]) is torch.Tensor and real[1].tolist() == [0, 0, 0]


def test_importing_planish_is_enough() -> None:
    """In a process of its own: torch's registry is not imported for it, and knows it once it is."""
    code = """
import sys, torch, planish
assert "torch._dynamo.backends.registry" not in sys.modules and "planish.api" not in sys.modules
from torch._dynamo.backends.registry import lookup_backend
assert lookup_backend("planish") is planish.backend
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    program = tmp_path / "planish"
    program.write_text('#!/bin/sh\necho "$PLANISH_PYTHON" "$@"\nexit 7\n')
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PLANISH_BIN": str(program)}
    environment.pop("PLANISH_PYTHON", None)
    done = subprocess.run([sys.executable, "-m", "planish", "doctor", "--json"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (7, f"{sys.executable} doctor --json\n")
    environment["PLANISH_BIN"] = str(tmp_path / "none")
    done = subprocess.run([sys.executable, "-m", "planish"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 3 and "error:" in done.stderr and "hint:" in done.stderr
