"""Planish as the evaluator of OpenEvolve: programs are compiled, tested against PyTorch in float64 and timed by `planish try`.

    PLANISH_TASK=task.py planish serve &                  # keeps the task open: an evaluation takes about a second
    PLANISH_TASK=task.py openevolve-run initial.py evaluator.py --config config.yaml

What is evolved is what `planish try` takes (docs/formats/trial.md): a `ModelNew`, a function with Triton kernels, or kernels with
launch directives. PLANISH_TARGET is auto, cpu or cuda; PLANISH_BIN names the command where it is not on the path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

#: What one evaluation may take; OpenEvolve's own limit (evaluator.timeout) should be longer.
SECONDS = float(os.environ.get("PLANISH_TRY_SECONDS", "300"))
FAILED = {"combined_score": 0.0, "correct": 0.0, "speedup": 0.0, "roofline": 0.0}


def judge(program_path: str, quick: bool) -> tuple[dict[str, float], dict[str, str]]:
    """(metrics, artifacts) of one program. `combined_score` is how many times faster than PyTorch it is, 0 where it is not right."""
    task = os.environ.get("PLANISH_TASK", "")
    planish = os.environ.get("PLANISH_BIN") or shutil.which("planish")
    if not task or not planish:
        raise RuntimeError("set PLANISH_TASK to the task's file, and PLANISH_BIN where planish is not on the path")
    command = [planish, "try", task, program_path, "--json", "--target", os.environ.get("PLANISH_TARGET", "auto")]
    try:
        done = subprocess.run([*command, *(["--quick"] if quick else [])], capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return dict(FAILED), {"error": f"it was not judged within {SECONDS:g} s"}
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"planish try gave no document: {done.stderr.strip()[-500:]}") from None
    if "error" in said:
        error = said["error"]
        # A text that is no program is the program's fault; all else is ours or the task's, and no evolution mends it.
        if error["kind"] != "bad_source":
            raise RuntimeError(f"{error['kind']}: {error['message']} ({error['hint']})")
        return dict(FAILED), {"error": error["message"], "hint": error["hint"]}
    artifacts = {"outcome": said["outcome"], "verdict": json.dumps(said["verdict"])}
    if said["message"]:
        artifacts["error"] = said["message"]
    log = (said["evaluation"].get("compile") or {}).get("log", "")
    if log:
        artifacts["compiler"] = log[-4000:]
    if not said["ok"]:
        return dict(FAILED), artifacts
    roofline = (said["evaluation"].get("roofline") or {}).get("fraction", 0.0)
    speedup = float(said["speedup"] or 0.0)
    return {"combined_score": speedup, "correct": 1.0, "speedup": speedup, "median_ms": float(said["median_ms"]), "roofline": float(roofline)}, artifacts


def _result(program_path: str, quick: bool) -> Any:
    from openevolve.evaluation_result import EvaluationResult

    metrics, artifacts = judge(program_path, quick)
    return EvaluationResult(metrics=metrics, artifacts=artifacts)


def evaluate(program_path: str) -> Any:
    """What OpenEvolve calls without a cascade: five seeds and every kind of data."""
    return _result(program_path, quick=False)


def evaluate_stage1(program_path: str) -> Any:
    """With `cascade_evaluation`: one seed, which most wrong programs do not survive."""
    return _result(program_path, quick=True)


def evaluate_stage2(program_path: str) -> Any:
    return _result(program_path, quick=False)
