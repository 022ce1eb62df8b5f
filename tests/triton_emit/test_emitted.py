"""The sample kernels in Triton, seeds and random genomes, under Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("PLANISH_BUILD", HERE.parents[1] / "build"))

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed (pip install triton)")


def test_samples_agree_with_torch(tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    with dump.open("wb") as file:
        subprocess.run([BUILD / "bin/planish-emit-dump", "--small", "--triton", "--random", "4"], stdout=file, check=True)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "check_emitted.py"), str(dump), "--variants", "2", "--points", "20000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    counts = re.search(r"(\d+) kernels, (\d+) runs, 0 failures", done.stdout)
    assert counts is not None and int(counts[1]) >= 35 and int(counts[2]) >= 60, done.stdout


def test_random_graphs_agree_with_the_oracle() -> None:
    build = {"PLANISH_BUILD": str(BUILD), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.random_graphs", "--target", "triton", "--cases", "8", "--programs", "1", "--steps", "6", "--no-shrink"]
    done = subprocess.run(command, cwd=HERE.parents[1], env={**os.environ, **build}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    ran = re.search(r"(\d+) programs run", done.stdout)
    assert ran is not None and int(ran[1]) >= 8, done.stdout
