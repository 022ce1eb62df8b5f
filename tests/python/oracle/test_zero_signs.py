"""Zeros that are right but for their sign are counted in a proof; they refuse nothing."""

from __future__ import annotations

import pytest
import torch
from harness import Harness

TASK = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return 0.0 - x\n"
    "def get_inputs():\n    return [torch.randn(16, 24)]\ndef get_init_inputs():\n    return []\n"
)


@pytest.mark.parametrize("regime", ["sparse", "rows"])
def test_other_signs_are_counted(regime: str) -> None:
    harness = Harness(TASK)
    harness.make(3, regime)
    x = harness.inputs()["x"]
    other, same = harness.judge([-x], "full"), harness.judge([0.0 - x], "full")
    assert other["ok"] and other["outputs"][0]["zero_signs"] == int(((x == 0) & ~torch.signbit(x)).sum()) > 0
    assert same["ok"] and "zero_signs" not in same["outputs"][0]
    assert "zero_signs" not in harness.judge([-x], "screen")["outputs"][0], "a search asks for less"
