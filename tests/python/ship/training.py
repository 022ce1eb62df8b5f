"""A task in training mode, whose call changes five buffers, as a hand-written program of one kernel."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "executor"))

from programs import buffer, kernel, launch, param, program, state, user

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("gain", torch.full((8,), 2.0))
        self.register_buffer("last", torch.zeros(8))

    def forward(self, x):
        y = self.norm(x) * self.gain.clone()
        self.gain.mul_(0.5).add_(1.0)
        self.last.copy_(x[0])
        return y

def get_inputs():
    return [torch.randn(4, 8)]
"""

KERNEL = kernel(
    "k",
    """
  auto in = [&](int i) { return (const float*)args[i]; };
  auto out = [&](int i) { return (float*)args[i]; };
  *(int64_t*)args[11] = *(const int64_t*)args[5] + 1;
  for (int c = 0; c < 8; ++c) {
    double mean = 0, squares = 0;
    for (int i = 0; i < 4; ++i) mean += in(0)[i * 8 + c] / 4.0;
    for (int i = 0; i < 4; ++i) squares += (in(0)[i * 8 + c] - mean) * (in(0)[i * 8 + c] - mean);
    const double scale = in(1)[c] / __builtin_sqrt(squares / 4 + 1e-5);
    for (int i = 0; i < 4; ++i) out(8)[i * 8 + c] = ((in(0)[i * 8 + c] - mean) * scale + in(2)[c]) * in(6)[c];
    out(9)[c] = 0.9 * in(3)[c] + 0.1 * mean;
    out(10)[c] = 0.9 * in(4)[c] + 0.1 * squares / 3;
    out(12)[c] = in(6)[c] * 0.5f + 1.0f;
    out(7)[c] = in(0)[c];
  }
""",
)
STATES = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "gain"]
DOCUMENT = program(
    [
        buffer("input", [4, 8], user(0)),
        *[buffer("param", [8], param(f"norm.{name}")) for name in ("weight", "bias")],
        *[buffer("state", [8], state(name)) for name in STATES[:2]],
        buffer("state", [], state(STATES[2]), "i64"),
        buffer("state", [8], state("gain")),
        buffer("output", [8]),
        buffer("output", [4, 8]),
        *[buffer("output", [8]) for _ in range(2)],
        buffer("output", [], None, "i64"),
        buffer("output", [8]),
    ],
    [launch(0, *[{"buffer": i} for i in range(13)])],
    [
        {"buffer": 8, "kind": "user"},
        *[{"buffer": 9 + i, "kind": "mutate_buffer", "target": name} for i, name in enumerate(STATES)],
        {"buffer": 7, "kind": "mutate_buffer", "target": "last"},
    ],
    [KERNEL],
)
