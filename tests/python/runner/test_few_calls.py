"""What a memory checker watches: a few calls of a module, and how one that fails is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.randn(4)]
"""
NEW = """from pathlib import Path
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        with Path(__file__).with_name("calls").open("a") as log:
            log.write(f"{float(x[0])}\\n")
        BODY
"""


ENDINGS = [
    ("return x + 1", ""),
    ("raise ValueError('no kernel')", "few_calls: ValueError: no kernel"),
    ("import sys; sys.exit(0)", "few_calls: SystemExit: 0"),
]


@pytest.mark.parametrize(("body", "failure"), ENDINGS)
def test_a_module_is_called_on_the_tasks_own_data(body: str, failure: str, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "new.py").write_text(NEW.replace("BODY", body))
    command = [sys.executable, "-m", "planish.runner.few_calls", "--task", "task.py", "--path", "new.py", "--calls", "3", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "python")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    values = (tmp_path / "calls").read_text().split()
    if failure:
        assert done.returncode == 1 and failure in done.stderr and len(values) == 1
    else:
        assert done.returncode == 0, done.stderr
        assert len(values) == len(set(values)) == 3, "fresh data each time"
