"""What a baseline process answers (docs/formats/wire.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from planish.baseline.early import Gate
from planish.baseline.table import Table
from planish.errors import PlanishError
from planish.runner.timing import Limits
from planish.ship.guards import COMPILE_OPTIONS
from planish.wire import report_stage


def _in_words(mode: str) -> str:
    return "default mode" if mode == "compile" else f"mode {mode}"


class Baseline:
    """The state of one baseline process: at most one table."""

    def __init__(self) -> None:
        self._table: Table | None = None
        self._compiled: tuple[str, float] | None = None  # the mode before, and the seconds that it took

    @property
    def table(self) -> Table:
        if self._table is None:
            raise PlanishError("bad_request", "open a task first")
        return self._table

    def hello(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        return {"torch": torch.__version__}

    def open(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        device = params.get("device", "cpu")
        if device == "cuda" and not torch.cuda.is_available():
            raise PlanishError("no_device", "torch sees no CUDA device", "run planish doctor")
        self._table = self._compiled = None
        self._table = Table(Path(params["task"]), torch.device("cuda:0" if device == "cuda" else device), str(params.get("accuracy", "eager")))
        return {"sets": self._table.set_count}

    def add(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        path = params.get("path")
        seconds = None if params.get("seconds") is None else float(params["seconds"])
        compiles = params["kind"] in COMPILE_OPTIONS
        report_stage(self._compiling(params["kind"], seconds) if compiles else f"making {params['name']} ready")
        gate = Gate(fds[0]) if fds else None
        try:
            added = self.table.add(params["name"], params["kind"], Path(path) if path else None, seconds, gate)
            if compiles:
                self._compiled = params["kind"], added["compile_seconds"]
            return added
        finally:
            if gate is not None:
                gate.close()

    def _compiling(self, mode: str, seconds: float | None) -> str:
        """What is done, with what is known of its length: the limit, and what the mode before it took. One mode takes a hundredth or ten times of what
        another does, so that this is no estimate."""
        known = [] if seconds is None else [f"at most {seconds:.0f} s"]
        if self._compiled is not None:
            known.append(f"{_in_words(self._compiled[0])} took {self._compiled[1]:.0f} s")
        return f"compiling in {_in_words(mode)}" + (": " + ", ".join(known) if known else "")

    def time(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        names, limits = list(params["names"]), Limits.of(params)
        report_stage(f"timing {len(names)} modules in turn", self.table.seconds_of(names, limits))
        return self.table.time(names, limits)
