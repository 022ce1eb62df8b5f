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


class Baseline:
    """The state of one baseline process: at most one table."""

    def __init__(self) -> None:
        self._table: Table | None = None

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
        self._table = None
        self._table = Table(Path(params["task"]), torch.device("cuda:0" if device == "cuda" else device), str(params.get("accuracy", "eager")))
        return {"sets": self._table.set_count}

    def add(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        path = params.get("path")
        seconds = params.get("seconds")
        report_stage(f"compiling {params['name']}" if params["kind"] in COMPILE_OPTIONS else f"making {params['name']} ready")
        gate = Gate(fds[0]) if fds else None
        try:
            return self.table.add(params["name"], params["kind"], Path(path) if path else None, None if seconds is None else float(seconds), gate)
        finally:
            if gate is not None:
                gate.close()

    def time(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        names, limits = list(params["names"]), Limits.of(params)
        report_stage(f"timing {len(names)} modules in turn", self.table.seconds_of(names, limits))
        return self.table.time(names, limits)
