"""A reference in blocks of rows gives what the whole gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from harness import Harness
from planish.oracle import pieces, region
from planish.oracle.expected import Expected
from planish.oracle.gate import DELTA
from planish.oracle.interpret import Double, Mode

SOURCE = """
import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(48))
        self.square = torch.nn.Parameter(torch.randn(50, 48))
    def forward(self, x, y):
        return BODY
def get_inputs():
    return [torch.randn(50, 48), torch.rand(50, 48)]
def get_init_inputs():
    return []
"""
TOGETHER = {
    "huber": "F.smooth_l1_loss(x, y)",
    "mse sum": "F.mse_loss(x, y, reduction='sum')",
    "cross entropy of numbers": "F.binary_cross_entropy(y, y)",
    "kl": "F.kl_div(x, y, reduction='batchmean')",
    "hinge": "torch.mean(torch.clamp(1 - x * y, min=0))",
    "columns": "((x * self.weight).relu() + self.square).sum(0)",
    "what comes after": "torch.sqrt((x - y).square().mean((0, 1)) + 1) * self.weight.exp() + x.amax()",
    "extremes": "torch.stack([x.amax(), (x * y).amin()])",
    "rows then all": "(torch.softmax(x, 1) * y).sum(1).log().mean()",
    "counts": "(x > y).sum(), (x > y)",
}
APART = {
    "softmax": "torch.softmax(x, -1)",
    "running": "torch.cumsum(x * y, 1)",
    "norm": "x / (x.norm(dim=1, keepdim=True) + self.weight)",
    "both": "(x.half() * 2, x.std(1), y.sum())",
}
NEVER = {
    "needs all": "x / x.sum()",
    "mixes rows": "x.cumsum(0)",
    "product": "x @ y.t()",
    "turned": "x.t() + y.t()",
    "no row's own": "x + torch.arange(50)[:, None]",
    "across": "torch.softmax(x, 0)",
    "places": "x.argmax(0)",
}


def opened(body: str) -> Harness:
    harness = Harness(SOURCE.replace("BODY", body))
    harness.make(1)
    return harness


def in_pieces(harness: Harness) -> pieces.Pieces | None:
    region = harness.region
    return pieces.of(region.run, region.inputs, [v for _, v in region.outputs])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BLOCK", 9000)


def runs(harness: Harness, by: Any, mode: Mode) -> list[torch.Tensor]:
    wanted: Sequence[int] = [v for _, v in harness.region.outputs]
    found = by.run(harness.data.input_tensors(), wanted, mode)
    return [found[v] for v in wanted]


@pytest.mark.parametrize("body", [*TOGETHER.values(), *APART.values()], ids=[*TOGETHER, *APART])
def test_pieces_are_the_whole(body: str) -> None:
    harness = opened(body)
    by = in_pieces(harness)
    assert by is not None and 1 <= by._rows < 25
    for whole, found in zip(runs(harness, harness.region.run, Double()), runs(harness, by, Double()), strict=True):
        assert found.dtype is whole.dtype and found.shape == whole.shape
        torch.testing.assert_close(found, whole, rtol=1e-13, atol=1e-13)
        assert found.untyped_storage().nbytes() <= whole.numel() * 8
    for whole, found in zip(runs(harness, harness.region.run, Mode()), runs(harness, by, Mode()), strict=True):
        assert torch.equal(found, whole), "eager is never cut"


@pytest.mark.parametrize("body", NEVER.values(), ids=NEVER)
def test_what_mixes_rows_is_not_cut(body: str) -> None:
    assert in_pieces(opened(body)) is None


@pytest.mark.parametrize("body", [TOGETHER["huber"], TOGETHER["columns"], TOGETHER["what comes after"], APART["softmax"]])
def test_the_response_is_alike(body: str) -> None:
    harness = opened(body)
    by = in_pieces(harness)
    exact = runs(harness, harness.region.run, Double())[0]
    largest = []
    for one in (harness.region.run, by):
        moved = [runs(harness, one, Double(delta=DELTA, generator=torch.Generator().manual_seed(s)))[0] for s in range(8)]
        largest.append(max(float((m - exact).norm() / exact.norm()) for m in moved))
    assert largest[0] / 4 < largest[1] < 4 * largest[0]


def test_parameters_move_alike_in_all_blocks() -> None:
    harness = opened("x * 0 + self.weight")
    (found,) = runs(harness, in_pieces(harness), Double(step=lambda t, dtype: t * (1 + torch.rand(()).double())))
    ratio = found / runs(harness, harness.region.run, Double())[0]
    assert float(ratio.std(dim=1).max()) < 1e-12


@pytest.mark.parametrize("exhausted", [False, True], ids=["seen", "failed"])
@pytest.mark.parametrize("body", [TOGETHER["huber"], APART["softmax"]], ids=["huber", "softmax"])
def test_a_task_without_the_memory_is_judged_in_pieces(body: str, exhausted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = opened(body)
    whole = harness.judge(harness.eager())
    tried = harness.service.mutation_check({})
    monkeypatch.setattr(pieces, "BLOCK", 2000)
    monkeypatch.setattr(region.measure, "compare_bytes", lambda count, device: 0)
    harness.region.forget()
    if exhausted:
        real = Expected.compute.__func__  # type: ignore[attr-defined]

        def compute(cls: type[Expected], run: Any, *args: Any) -> Expected:
            if run is harness.region.run:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB")
            found: Expected = real(cls, run, *args)
            return found

        monkeypatch.setattr(Expected, "compute", classmethod(compute))
    else:
        there = int(0.8 * harness.region._peak())
        monkeypatch.setattr(region.memory, "usable", lambda device: there)
        monkeypatch.setattr(region.memory, "wait_for", lambda need, free, seconds: 0.0 if need == harness.region._data_bytes() else pytest.fail("it waits"))
    found = harness.judge(harness.eager())
    assert found["ok"] and found["reference"] == "fp64" and isinstance(harness.region._exact, pieces.Pieces)
    for a, b in zip(found["outputs"], whole["outputs"], strict=True):
        assert a["fro"] == pytest.approx(b["fro"], rel=1e-6, abs=1e-15)
    assert not harness.judge([out + 1 for out in harness.eager()])["ok"]
    assert harness.service.mutation_check({}) == tried
