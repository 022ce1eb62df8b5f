"""Terms of a product that nothing beside them in the row is smaller than by fewer than 47 bits: what multiplies parts of 16 bits has lost them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from planish.oracle import layout, measure
from planish.oracle.gate import Accuracy, Pair
from planish.oracle.noise import SINGLE, Known, Noise, Steps
from planish.oracle.region import Region
from planish.oracle.task import Task


def spread(a: torch.Tensor, b: torch.Tensor, parts: bool) -> float:
    """Of the product's one element, over draws."""
    draws = []
    for seed in range(64):
        with Steps(Noise(torch.device("cpu"), seed), SINGLE, False, None, Known({}, ""), parts):
            draws.append(float(a @ b))
    return float(torch.tensor(draws, dtype=torch.float64).std())


def test_a_faint_term_may_be_lost_beside_a_large_factor() -> None:
    a, b = torch.tensor([[1.0, 1e-18]], dtype=torch.float64), torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    assert spread(a, b, parts=False) < 1e-24
    assert 2.0**-49 < spread(a, b, parts=True) < 2.0**-44
    assert 2.0**-49 < spread(b.T.flip(1), a.T.flip(0), parts=True) < 2.0**-44
    # Nothing that is larger stands beside it.
    assert spread(torch.tensor([[0.0, 1e-18]], dtype=torch.float64), b, parts=True) < 1e-24


TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, v):
        return x.softmax(-1) @ v
def get_inputs():
    return [torch.randn(64, 48), torch.randn(48, 32)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("gap", "part", "accepted"), [(40.0, 2.0**-47, True), (26.0, 2.0**-30, False)])
def test_what_a_choice_of_zeros_leaves_is_not_asked_of_such_products(tmp_path: Path, gap: float, part: float, accepted: bool) -> None:
    """Rows that choose a zero have results of other weights' size; a candidate that has dropped all weights below a part of the largest."""
    (tmp_path / "task.py").write_text(TASK)
    task = Task(str(tmp_path / "task.py"), torch.device("cpu"), str(tmp_path / "blobs"))
    region = Region(task, "task", range(len(task.graph["nodes"])), task.inputs, [o["value"] for o in task.graph["outputs"]], Accuracy("eager"))
    data = region.create(3, "normal")
    x, v = data.input_tensors().values()
    x.copy_(torch.randn(64, 48, generator=torch.Generator().manual_seed(1)))
    x[:, 0] = gap
    v[0] = 0.0
    region.forget()  # what it is of the data that were drawn
    expected = region.expected(data)
    weights = x.double().softmax(-1)
    found = torch.where(weights < part, 0.0, weights).float() @ v
    out = expected.outputs[0]
    flat = layout.flat(found, out.order)
    error = measure.compare(flat, out.ref, None)
    verdict = expected.judge(0, flat, Pair(error.fro, error.max), data.input_tensors(), "full")
    assert (verdict.ratio <= 1) is accepted, verdict
    data.free()
