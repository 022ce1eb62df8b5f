"""One optimised task, shared by the tests that look at what it left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import BINARY, Home

#: Several operations that fuse, at a size where one call takes microseconds.
SMALL = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))
    def forward(self, x):
        return torch.sigmoid(torch.tanh(x) * self.scale + x * x) * x

def get_inputs():
    return [torch.randn(64, 96)]

def get_init_inputs():
    return [96]
"""


@dataclass
class Optimised:
    """A finished run: the command's home, its exit code and its result document."""

    home: Home
    code: int
    result: dict[str, Any]
    stderr: str

    @property
    def shipped(self) -> Path:
        return Path(self.result["shipped"])


@pytest.fixture(scope="session")
def optimised(tmp_path_factory: pytest.TempPathFactory) -> Optimised:
    if not BINARY.exists():
        pytest.skip("make build first")
    home = Home(tmp_path_factory.mktemp("optimised"))
    task = home.task(SMALL, "small.py")
    done = home.run("optimize", task, "--target", "cpu", "--budget", "10s", "--evals", "3", "--seed", "1", "--baselines", "none", "--out", "out", "--json")
    assert done.returncode in (0, 1), done.stderr
    return Optimised(home, done.returncode, json.loads(done.stdout), done.stderr)
