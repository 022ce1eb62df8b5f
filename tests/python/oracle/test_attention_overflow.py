"""Attention whose products overflow before they are scaled: neither of torch's forms is the task's."""

from __future__ import annotations

import pytest
import torch
from planish.capture.live import write_live
from planish.oracle import attention_overflow
from planish.oracle.attention_overflow import overflowing_rows
from planish.oracle.region import WHOLE, Region
from planish.oracle.service import Service

LARGEST = torch.finfo(torch.float32).max
SCALE = 0.25


class Attention(torch.nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=SCALE)


def answered(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, before: bool) -> torch.Tensor:
    """The definition in the factors' type, with the scale taken to the factors or to their products."""
    root = SCALE**0.5
    scores = (query * root) @ (key * root).transpose(-1, -2) if before else (query @ key.transpose(-1, -2)) * root * root
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights @ value / weights.sum(-1, keepdim=True)


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Region:
    folder = tmp_path_factory.mktemp("attention")
    # Of data of kind `large` some products are beyond the largest number, and not once they are scaled.
    call = (torch.randn(64, 1, 8, 1), torch.randn(64, 1, 2, 1), torch.randn(64, 1, 2, 4))
    (folder / "blobs").mkdir()
    write_live(folder / "task", "attention", Attention(), call, {})
    service = Service()
    service.hello({"device": "cpu"})
    service.open({"task": str(folder / "task"), "blobs": str(folder / "blobs")})
    region = service.regions[WHOLE]
    assert "large" in region.regimes()[0], region.skipped
    return region


@pytest.mark.parametrize("before", [False, True])
def test_both_forms_are_right(region: Region, before: bool) -> None:
    data = region.create(90001, "large")
    query, key, value = (slot.view for slot in data.inputs)
    found = answered(query, key, value, before)
    other = answered(query, key, value, not before)
    assert bool((found.isfinite() != other.isfinite()).any()), "the data do not tell the forms apart"
    data.outputs[0].view.copy_(found)
    said = region.check(data, "full")
    data.free()
    assert said["ok"], said["message"]


def test_rows_below_are_judged(region: Region) -> None:
    data = region.create(90001, "large")
    query, key, value = (slot.view for slot in data.inputs)
    rows = overflowing_rows(query.double(), key.double(), LARGEST)
    assert rows is not None and not bool(rows.all())
    found = answered(query, key, value, True)
    found[~rows] *= 1.01
    data.outputs[0].view.copy_(found)
    said = region.check(data, "full")
    data.free()
    assert not said["ok"]


def test_which_rows() -> None:
    query = torch.ones(2, 4, 3, 8, dtype=torch.float64)
    query[1, 2, 1, 0] = 2e38
    key = torch.ones(2, 2, 5, 8, dtype=torch.float64)
    assert overflowing_rows(query, key, LARGEST) is None
    key[1, 1, 4, 0] = -3.0  # heads 2 and 3 of the queries read it
    found = overflowing_rows(query, key, LARGEST)
    assert found is not None
    assert found.nonzero().tolist() == [[1, 2, 1]]
    query[1, 2, 1, 1] = torch.inf  # what is not finite from the beginning is for others to leave open
    assert overflowing_rows(query, key, LARGEST) is None


def test_rows_are_those_of_one_head_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(3, 4, 70, 16, dtype=torch.float64, generator=generator) * 1e19
    key = torch.randn(3, 2, 90, 16, dtype=torch.float64, generator=generator) * 1e19
    query[2, 1, 5, 3], key[0, 1, 7, 2] = torch.nan, -torch.inf
    together = overflowing_rows(query, key, LARGEST)
    monkeypatch.setattr(attention_overflow, "_PRODUCTS", 1)
    alone = overflowing_rows(query, key, LARGEST)
    assert together is not None and alone is not None and torch.equal(together, alone)
    products = query @ key.repeat_interleave(2, -3).transpose(-2, -1)
    assert torch.equal(together, (products.abs() > LARGEST).any(-1) & products.isfinite().all(-1))


def test_nothing_is_multiplied_for_what_is_not_finite_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 5, 8, dtype=torch.float64)
    query[0, 1, 2], key[1, 3, 4] = torch.inf, torch.nan
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda *_: pytest.fail("products of numbers that cannot overflow"))
    assert overflowing_rows(query, key, LARGEST) is None
