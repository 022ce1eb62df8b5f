"""KernelBench's own rule for a solution, reproduced: its seeds, its casts, its tolerances.

Seed 42 before the constructor arguments and before each constructor, five trials whose seeds come from manual_seed(42), all
tensor inputs (integers too) cast to the precision, both models fed the same tensors in one process, one tensor compared by
shape and allclose with atol = rtol. Weaker than Planish's contract, and printed beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from planish.capture import load_task
from planish.errors import PlanishError
from planish.runner.module import load_model

TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}
_SEED = 42


def judge(task_path: Path, path: Path, device: torch.device, trials: int = 5, precision: torch.dtype = torch.float32) -> dict[str, Any]:
    """{correct, trials, max_abs_error, message}. `trials` counts those run. What the solution raises makes it incorrect; errors of
    the task itself are raised."""
    task = load_task(task_path)
    reference = task.model.to(device=device, dtype=precision)
    verdict: dict[str, Any] = {"correct": False, "trials": 0, "max_abs_error": None, "message": ""}
    try:
        solution: nn.Module = load_model(path, task).to(device=device, dtype=precision)
    except PlanishError as error:
        return {**verdict, "message": error.message}
    torch.manual_seed(_SEED)
    seeds = [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(trials)]
    worst = 0.0
    for done, seed in enumerate(seeds, 1):
        args, kwargs = task.make_inputs(seed, "cpu")
        args = tuple(_cast(a, device, precision) for a in args)
        kwargs = {k: _cast(v, device, precision) for k, v in kwargs.items()}
        verdict["trials"] = done
        with torch.no_grad():
            torch.manual_seed(seed)
            expected = reference(*args, **kwargs)
            try:
                torch.manual_seed(seed)
                actual = solution(*args, **kwargs)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
            except (Exception, SystemExit) as error:
                return {**verdict, "message": f"trial {done}: forward raised {type(error).__name__}: {error}"}
        if not isinstance(expected, torch.Tensor):
            return {**verdict, "message": "the rule compares a single tensor, the task returns something else"}
        if not isinstance(actual, torch.Tensor) or actual.shape != expected.shape:
            shape = list(actual.shape) if isinstance(actual, torch.Tensor) else type(actual).__name__
            return {**verdict, "message": f"trial {done}: output is {shape}, expected {list(expected.shape)}"}
        error_now = float((actual.double() - expected.double()).abs().max().item()) if expected.numel() else 0.0
        worst = error_now if error_now != error_now else max(worst, error_now)
        verdict["max_abs_error"] = worst if worst == worst and worst != float("inf") else None
        tolerance = TOLERANCE[precision]
        if not torch.allclose(expected, actual, atol=tolerance, rtol=tolerance):
            return {**verdict, "message": f"trial {done}: differs by up to {error_now:.3g}, tolerance {tolerance:g}"}
    return {**verdict, "correct": True, "message": f"passed {trials} trials at {TOLERANCE[precision]:g}"}


def _cast(value: Any, device: torch.device, precision: torch.dtype) -> Any:
    return value.to(device=device, dtype=precision) if isinstance(value, torch.Tensor) else value
