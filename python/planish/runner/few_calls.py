"""`python -m planish.runner.few_calls --task TASK [--path SOLUTION]`: a few calls of a module on its task's own data, for a tool that
looks at what kernels do with memory. Nothing is compared or timed. Without a solution the task's own Model is called."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from planish.capture import load_task
from planish.errors import PlanishError
from planish.runner.module import load_model
from planish.runner.own_tmp import advice
from planish.wire import die_with_parent

SEED = 0


def call(task_path: Path, path: Path | None, calls: int, device: torch.device) -> None:
    task = load_task(task_path)
    model = (task.model if path is None else load_model(path, task)).to(device)
    with torch.no_grad():
        for seed in range(SEED, SEED + calls):
            args, kwargs = task.make_inputs(seed, device)
            model(*args, **kwargs)
            if device.type == "cuda":
                torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m planish.runner.few_calls", description="A few calls of a module; started by planish.")
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    options = parser.parse_args()
    die_with_parent()
    try:
        call(options.task, options.path, options.calls, torch.device(options.device))
    except (Exception, SystemExit) as error:
        text = error.message if isinstance(error, PlanishError) else f"{type(error).__name__}: {error}{advice(error)}"
        first = (text.splitlines() or [""])[0]
        print(f"few_calls: {first}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
