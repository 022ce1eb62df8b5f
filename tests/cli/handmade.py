"""A shipped program made by hand, for tests that must have one whatever a search finds on a busy machine."""

from __future__ import annotations

import sys
from pathlib import Path

from command import Home

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / "python" / neighbour))

import training  # noqa: E402, F401
from programs import buffer, build, kernel, launch, param, program, user  # noqa: E402
from shipping import with_kernels  # noqa: E402

TASK = '''import torch
from torch import nn

class Model(nn.Module):
    """A docstring with a \\\\ backslash."""
    def __init__(self, width, shift=0.5):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, width))
        self.shift = shift

    def forward(self, x):
        return torch.relu(x) * self.weight + self.shift

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return [8]
'''
KERNEL = kernel(
    "relu_scale",
    "auto* x = (const float*)args[0]; auto* w = (const float*)args[1]; auto* out = (float*)args[2]; auto n = *(const int64_t*)args[3];"
    "auto shift = *(const float*)args[4]; for (int64_t i = 0; i < n; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * w[i % 8] + shift;",
)
DOCUMENT = program(
    [buffer("input", [4, 8], user(0)), buffer("param", [8], param("weight")), buffer("output", [4, 8])],
    [launch(0, {"buffer": 0}, {"buffer": 1}, {"buffer": 2}, {"i64": 32}, {"f32": "0x1p-1"})],
    [{"buffer": 2, "kind": "user"}],
    [KERNEL],
)


def shipped_by_hand(folder: Path) -> Home:
    """A home with out/shipped, and its task.py."""
    made = Home(folder)
    (made.path / "kernels").mkdir()
    shipped = with_kernels(made.path / "out", TASK, DOCUMENT, build([KERNEL], made.path / "kernels"))
    assert shipped == made.path / "out" / "shipped"
    made.task(TASK)
    return made
