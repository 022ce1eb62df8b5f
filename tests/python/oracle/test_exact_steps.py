"""What no rounding moves is held to what it is: edges of bins that few bits hold, positions of inputs."""

from __future__ import annotations

import pytest
import torch
from harness import Harness

_TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        edges = torch.linspace(-2, 2, {count}, dtype=x.dtype, device=x.device)
        return {operator}
def get_inputs():
    return [torch.randn(64, 100, dtype=torch.{dtype})]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("operator", "other"), [
    ("torch.searchsorted(edges, x)", lambda x, edges: torch.searchsorted(edges, x, right=True)),
    ("torch.bucketize(x, edges, right=True)", lambda x, edges: torch.bucketize(x, edges)),
])  # fmt: skip
def test_who_lies_on_an_edge_is_in_its_own_bin(tmp_path, dtype, operator, other):
    harness = Harness(_TASK.format(count=33, operator=operator, dtype=dtype), tmp_path)
    for seed in range(6):  # by chance none of the replays may reach all that lie on edges, so that one draw proves little
        harness.make(seed)
        right = harness.eager()
        assert harness.judge(right)["ok"]
        (x,) = harness.inputs().values()
        wrong = other(x, torch.linspace(-2, 2, 33, dtype=x.dtype))
        assert (wrong != right[0]).any()
        result = harness.judge([wrong])
        assert result["problem"] == "mismatch", result
        assert result["outputs"][0]["gate_max"] == 0


def test_edges_that_are_rounded_may_lie_on_either_side(tmp_path):
    """A third in 16 bits is where eager rounded it to; one rounding of the step further is as good."""
    harness = Harness(_TASK.format(count=31, operator="torch.searchsorted(edges, x)", dtype="bfloat16"), tmp_path)
    harness.make(3)
    (x,) = harness.inputs().values()
    edges = torch.linspace(-2, 2, 31, dtype=torch.float64).to(x.dtype)
    outputs = [torch.searchsorted(edges, x)]
    assert harness.judge(outputs)["ok"]
