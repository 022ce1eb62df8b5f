"""A stand-in for the search of a piece: it ships the piece as it is, step by step, or with a fault, and notes what it was asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from planish import api
from planish.capture import capture
from planish.errors import PlanishError
from planish.ship import guards

sys.path.insert(0, str(Path(__file__).parents[1] / "ship"))

from shipping import aten_program, write


class Searches:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.error: PlanishError | None = None
        self.nothing = False
        self.faulty = False  #: ships a program that adds where the piece multiplies

    def __call__(self, module: torch.nn.Module, call: Any, **settings: Any) -> Any:
        self.asked.append(settings)
        if self.error is not None:
            raise self.error
        if self.nothing:
            result = {"outcome": "no_improvement", "reason": "eager is faster", "form": "baseline", "shipped_baseline": "eager"}
            return api.Optimized(module, result, None, "module")
        folder = Path(settings["out"]) / "shipped"
        (folder / "blobs").mkdir(parents=True)
        graph = capture(module, *call, folder / "blobs").graph
        program = aten_program(graph)
        if self.faulty:
            for step in program["steps"]:
                step["op"] = step["op"].replace("aten.tanh.", "aten.sin.")
        write(folder, folder.parent, program, graph, modules=guards.configuration(module))
        return api.Optimized(module, {"outcome": "improved", "speedup_best_baseline": 2.0, "shipped": str(folder)}, folder, "module")


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Searches:
    made = Searches()
    monkeypatch.setattr(api, "optimize", made)
    monkeypatch.setenv("PLANISH_DATA", str(tmp_path / "data"))
    torch._dynamo.reset()
    return made
