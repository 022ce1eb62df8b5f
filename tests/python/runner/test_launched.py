"""What a profiler is put in front of: a process that runs a program once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import planish
import pytest


def buffer(role: str, dtype: str, **source: object) -> dict[str, object]:
    out: dict[str, object] = {"role": role, "dtype": dtype, "shape": [2, 3], "strides": [3, 1]}
    return out | ({"source": source} if source else {})


def program(op: str) -> dict[str, object]:
    return {
        "schema": "planish.program/1",
        "target": "cpu",
        "arch": "x86-64",
        "buffers": [buffer("input", "f32", kind="user", index=0), buffer("input", "i64", kind="user", index=1), buffer("output", "f32")],
        "kernels": [],
        "steps": [{"kind": "aten", "op": op, "args": [{"name": "self", "buffer": 0}, {"name": "other", "buffer": 1}], "outs": [2]}],
        "outputs": [{"buffer": 2, "kind": "user"}],
    }


@pytest.mark.parametrize(("op", "code", "said"), [("aten.mul.Tensor", 0, ""), ("aten.no_such_operation.default", 1, "no_such_operation")])
def test_a_program_runs_once_or_says_why_not(tmp_path: Path, op: str, code: int, said: str) -> None:
    file = tmp_path / "launch.json"
    file.write_text(json.dumps({"program": program(op), "binaries": [], "blobs": str(tmp_path)}))
    env = os.environ | {"PYTHONPATH": str(Path(planish.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-m", "planish.runner.launched", str(file)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
