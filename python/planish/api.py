"""The public Python interface: optimise a live module, put a shipped program on a module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from planish.capture.live import write_live
from planish.errors import PlanishError

#: `optimize` exit codes that come with a result document.
_FINISHED = (0, 1)


@dataclass
class Optimized:
    """What `optimize` found. `module` is ready to use: the given module with the shipped program attached where one won, else as it was.
    `result` is the result document (docs: `planish optimize --json`)."""

    module: torch.nn.Module
    result: dict[str, Any]
    folder: Path
    speedup: dict[str, float] = field(default_factory=dict)


def launcher() -> Path:
    """The `planish` command that belongs to this package: PLANISH_BIN, the checkout's build, a dist folder's, the one installed with
    this Python, then the path."""
    if named := os.environ.get("PLANISH_BIN"):
        return Path(named)
    root = Path(__file__).resolve().parents[2]
    for candidate in (root / "build" / "bin" / "planish", root / "bin" / "planish", Path(sys.executable).parent / "planish"):
        if candidate.exists():
            return candidate
    if found := shutil.which("planish"):
        return Path(found)
    raise PlanishError("not_built", "the planish command was not found", "run make build, or set PLANISH_BIN")


def optimize(
    module: torch.nn.Module,
    example_inputs: tuple[Any, ...] | list[Any] | torch.Tensor | dict[str, Any],
    *,
    target: str = "auto",
    budget: str = "60s",
    accuracy: str | float = "eager",
    out: str | Path | None = None,
    name: str | None = None,
    options: tuple[str, ...] = (),
) -> Optimized:
    """Searches for a faster form of `module` at these example inputs, in processes of its own, and returns it with its proof.

    `example_inputs` is one tensor, a sequence of positional arguments or a dict of keyword arguments. The module is left as it is; `.module` of the
    result is it, with a program attached to its forward where one was verified and faster. Raises PlanishError with the command's own error.
    """
    args, kwargs = _call(example_inputs)
    name = name or type(module).__name__
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="planish-"))
    task = folder / "task"
    write_live(task, name, module, args, kwargs)
    command = [str(launcher()), "optimize", str(task), "--json", "--target", target, "--budget", budget, "--accuracy", str(accuracy)]
    environment = {"PLANISH_PYTHON": sys.executable, **os.environ}
    done = subprocess.run([*command, "--out", str(folder / "shipped"), *options], capture_output=True, text=True, env=environment, check=False)
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise PlanishError("optimize_failed", f"planish optimize gave no result document (exit code {done.returncode})", done.stderr[-2000:]) from error
    if "error" in result or done.returncode not in _FINISHED:
        about = result.get("error", {})
        raise PlanishError(about.get("kind", "optimize_failed"), about.get("message", "planish optimize failed"), about.get("hint", ""))
    improved = result["outcome"] == "improved"
    optimized = load(result["shipped"], module) if improved else module
    return Optimized(optimized, result, folder, dict(result.get("speedup") or {}))


def load(path: str | Path, module: torch.nn.Module) -> torch.nn.Module:
    """Puts the shipped program at `path` on a live `module`; calls that its guards refuse run the module's own forward."""
    from planish.ship.live import load as attach

    return attach(path, module)


def _call(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, dict):
        return (), dict(example_inputs)
    if isinstance(example_inputs, list | tuple):
        return tuple(example_inputs), {}
    return (example_inputs,), {}
