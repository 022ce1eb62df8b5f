"""`torch.compile(…, backend="planish")`, with a stand-in for the search of each graph."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from planish import dynamo, registration
from planish.errors import PlanishError
from planish.pieces.runner import Runner
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "pieces"))

from found import Searches
from found import searches as searches

PACKAGE = Path(planish.__file__).parent
X = torch.randn(4, 8)


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh()).eval()


@torch.no_grad()
def test_the_first_call_watches_and_the_second_searches(searches: Searches, capsys: pytest.CaptureFixture[str]) -> None:
    registration.announce()
    module = model()
    compiled = torch.compile(module, backend="planish", options={"budget": "3s", "baselines": "none", "name": "Net"})
    torch.testing.assert_close(compiled(X), module(X))
    assert searches.asked == [] and "Net: its graphs run as they are in this call" in capsys.readouterr().err
    for _ in range(3):
        torch.testing.assert_close(compiled(X), module(X))
        module[0].weight.mul_(2)
    (settings,) = searches.asked
    assert settings["budget"] == 3.0 and settings["baselines"] == "none" and settings["name"] == "Net, piece 1 of 1" and settings["pieces"] is False
    assert "piece 1 of 1: a program" in capsys.readouterr().err


@torch.no_grad()
def test_graphs_share_the_budget_and_equal_ones_are_searched_once(searches: Searches) -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(model() for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.parts[0](x)
            torch._dynamo.graph_break()
            x = self.parts[1](x)
            torch._dynamo.graph_break()
            return (x @ x.T).exp()

    module = Broken().eval()
    compiled = torch.compile(module, backend=planish.backend, options={"budget": 8, "progress": False})
    for _ in range(3):
        torch.testing.assert_close(compiled(X), module(X))
    assert len(searches.asked) == 2 and 8.0 <= sum(a["budget"] for a in searches.asked) <= 10.0
    torch._dynamo.reset()
    again = torch.compile(module, backend=planish.backend, options={"budget": 8, "progress": False})
    for _ in range(3):
        torch.testing.assert_close(again(X), module(X))
    assert len(searches.asked) == 2, "what lies in the store is not searched again"


@torch.no_grad()
def test_the_call_that_searches_draws_what_the_model_draws(searches: Searches) -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return torch.dropout(x.tanh(), 0.5, True)  # manual_seed ends a graph: what follows is searched behind it

    compiled = torch.compile(dropped, backend="planish", options={"budget": "3s", "baselines": "none"})
    wanted = dropped(X)
    for _ in range(3):
        assert torch.equal(compiled(X), wanted)
    assert searches.asked


@torch.no_grad()
def test_another_model_with_the_same_options_is_measured_by_itself(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"budget": "3s", "baselines": "none"}
    for milliseconds in (1000.0, 1.0):  # a hundredth of the first one's would be left as it is
        monkeypatch.setattr(Runner, "milliseconds", lambda self, given=milliseconds: given)
        module = nn.Sequential(model(), nn.Softmax(-1)) if milliseconds == 1.0 else model()
        compiled = torch.compile(module, backend="planish", options=options)
        for _ in range(3):
            compiled(X)
    assert len(searches.asked) == 2


@torch.no_grad()
def test_modes_choose_budget_and_baselines(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, budget, baselines in (("default", 10.0, "eager,compile"), ("max-autotune", 60.0, None)):
        torch._dynamo.reset()
        compiled = torch.compile(nn.Linear(8, 8), backend="planish", mode=mode)
        compiled(X), compiled(X)
        assert searches.asked[-1]["budget"] == budget and searches.asked[-1]["baselines"] == baselines
    monkeypatch.setenv("PLANISH_BACKEND_BUDGET", "4s")
    torch._dynamo.reset()
    compiled = torch.compile(nn.Linear(8, 9), backend="planish", mode="reduce-overhead")
    dynamo._compiled.clear()
    compiled(X), compiled(X)
    assert searches.asked[-1]["budget"] == 4.0
    with pytest.raises(PlanishError, match="no mode 'fast'"):
        planish.backend(None, [], mode="fast")
    with pytest.raises(PlanishError, match="no option 'bugdet'"):
        planish.backend(None, [], options={"bugdet": 3})


@torch.no_grad()
def test_a_graph_that_gains_nothing_runs_as_it_is(searches: Searches) -> None:
    module = model()
    for searches.nothing, searches.error in ((True, None), (False, PlanishError("random_ops", "it is random", ""))):
        torch._dynamo.reset()
        compiled = torch.compile(module, backend=planish.backend, options={"accuracy": "tf32" if searches.nothing else "eager"})
        for _ in range(3):
            torch.testing.assert_close(compiled(X), module(X))
    assert len(searches.asked) == 2


@torch.no_grad()
def test_each_shape_has_a_graph_without_dynamic(searches: Searches) -> None:
    module = model()
    compiled = torch.compile(module, backend=planish.backend, dynamic=False, options={"progress": False})
    for _ in range(3):
        for x in (X, torch.randn(6, 8)):
            torch.testing.assert_close(compiled(x), module(x))
    assert len(searches.asked) == 2


def test_gradients_and_sizes_are_left_alone(searches: Searches, caplog: pytest.LogCaptureFixture) -> None:
    module = nn.Linear(8, 8)
    torch.compile(module, backend=planish.backend, dynamic=False)(X).sum().backward()
    assert module.weight.grad is not None and searches.asked == [] and "gradients" in caplog.text
    with torch.no_grad():
        compiled = torch.compile(lambda x: x + x.shape[0], backend=planish.backend, dynamic=True)
        for x in (X, X, torch.randn(6, 8)):
            torch.testing.assert_close(compiled(x), x + len(x))
    assert searches.asked == []


def test_under_inference_mode(searches: Searches) -> None:
    module = model()
    with torch.inference_mode():
        compiled = torch.compile(module, backend=planish.backend, options={"progress": False})
        for _ in range(3):
            torch.testing.assert_close(compiled(X), module(X))
    assert len(searches.asked) == 1


def test_a_full_graph_is_asked_of_torch(searches: Searches) -> None:
    def broken(x: Any) -> Any:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(Exception, match="graph_break"):
        torch.compile(broken, backend="planish", fullgraph=True)(X)


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


def test_torch_finds_it_by_its_name_in_a_checkout_as_where_it_is_installed() -> None:
    declared = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    beside = importlib.metadata.PathDistribution(PACKAGE.parent / "planish.egg-info")
    assert {point.name: point.value for point in beside.entry_points if point.group == "torch_dynamo_backends"} == declared
    assert "planish" in importlib.metadata.entry_points(group="torch_dynamo_backends").names
