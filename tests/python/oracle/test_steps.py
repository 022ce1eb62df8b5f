"""A step of an optimizer gives nothing: what it does to its arguments is all that is judged."""

from __future__ import annotations

import pytest
from harness import Harness
from planish.errors import PlanishError

TASK = """import torch
class Model(torch.nn.Module):
    def forward(self, p, g, m):
        LINE
def get_inputs():
    return [torch.randn(8, 16) for _ in range(3)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("line", ["m.lerp_(g, 0.1); p.sub_(m)", "torch._foreach_add_([p, m], [g, g], alpha=-1e-3)"])
def test_what_is_done_to_arguments_is_judged(line: str) -> None:
    harness = Harness(TASK.replace("LINE", line))
    assert [o["kind"] for o in harness.graph["outputs"] if "value" in o] == ["mutate_input", "mutate_input"]
    harness.make(3)
    given, right = harness.inputs(), harness.eager()
    assert harness.judge(right)["ok"]
    names = [harness.graph["inputs"][o["target"]]["name"] for o in harness.graph["outputs"] if o["kind"] == "mutate_input"]
    assert not harness.judge([given[name] for name in names])["ok"], "nothing was done"


def test_who_gives_nothing_and_changes_nothing_is_no_task() -> None:
    with pytest.raises(PlanishError) as raised:
        Harness(TASK.replace("LINE", "torch.tanh(p)"))
    assert raised.value.kind == "not_tensors"
