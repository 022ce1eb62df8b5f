"""A live module as a task on disk: written by `planish.optimize(module, inputs)`, read by the oracle and the baseline.

The folder holds the exported program (which needs no class definition to load), the example inputs, and a manifest. Fresh inputs are made
by drawing elements of the examples with replacement, so that they stay in the domain and keep the distribution of what the user gave.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from planish.capture.task import Inputs, LoadedTask, move
from planish.errors import PlanishError

PROGRAM = "program.pt2"
INPUTS = "inputs.pt"
MANIFEST = "task.json"


def write_live(folder: Path, name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Exports the module with its example inputs into `folder` (created). Raises PlanishError (not_exportable)."""
    from planish.capture.export import export_program
    from planish.ship.guards import configuration

    folder.mkdir(parents=True, exist_ok=True)
    program = export_program(module, args, kwargs, Path(name))
    torch.export.save(program, str(folder / PROGRAM))
    torch.save(move((args, kwargs), "cpu"), folder / INPUTS)
    digest = hashlib.sha256((folder / PROGRAM).read_bytes()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps({"name": name, "training": module.training, "modules": configuration(module), "source_sha256": digest}))


def load_live(folder: Path) -> LoadedTask:
    """The task that write_live() left in `folder`. Raises PlanishError (not_a_task)."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        raise PlanishError("not_a_task", f"{folder}: a folder without {MANIFEST}", "give a task file, or use planish suite for a folder of tasks")
    about = json.loads(manifest.read_text())
    examples: Inputs = torch.load(folder / INPUTS, weights_only=False)

    def rebuild() -> torch.nn.Module:
        return torch.export.load(str(folder / PROGRAM)).module()

    def make_inputs(seed: int, device: torch.device | str) -> Inputs:
        generator = torch.Generator().manual_seed(seed)

        def redraw(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.numel() < 2:
                return x
            picks = torch.randint(x.numel(), (x.numel(),), generator=generator)
            fresh = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
            return fresh.copy_(x.reshape(-1)[picks].reshape(x.shape))

        return move(pytree.tree_map(redraw, examples), device)

    return LoadedTask(about["name"], folder, about["source_sha256"], rebuild(), make_inputs, rebuild, live=True)
