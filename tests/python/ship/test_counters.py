"""Numbers that a call counts in the objects that it is given: one program for as many of them as compute the same, never for another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from live_program import attached
from planish import status
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:planish. ")


class Cache:
    """Of a window of rows; its length is a tensor, and a number of Python's."""

    def __init__(self, window: int = 6, rows: int = 1) -> None:
        self.rows = torch.zeros(window, 4)
        self.rows[:rows] = torch.randn(rows, 4)
        self.length = torch.tensor([rows])
        self.count, self.other, self.noted = rows, rows, 0
        self.window = window


class Step(nn.Module):
    """A layer that writes its rows in turn, then throws the first out; `also` is what else it does with the number."""

    def __init__(self, also: Callable[[torch.Tensor, Cache], Any] | None = None) -> None:
        super().__init__()
        self.part = nn.Linear(4, 4)
        self.also = also

    def forward(self, x: torch.Tensor, cache: Cache) -> Any:
        row = self.part(x)
        if cache.count >= cache.window:
            cache.rows.copy_(torch.cat([cache.rows[1:], row]))
        else:
            cache.rows.index_copy_(0, cache.length, row)
            cache.length.add_(1)
        y = row + cache.rows.sum(0)
        if self.also is not None:
            y = self.also(y, cache)
        cache.count += 1
        return y


def runs(folder: Path, module: nn.Module, cache: Cache, steps: int) -> int:
    """Calls that the program of one step answered, of so many in a row, which are all right."""
    twin, theirs, ours = module, cache, copy.deepcopy(cache)
    module = copy.deepcopy(module)
    with torch.no_grad():
        attached(module, folder, torch.randn(1, 4), copy.deepcopy(cache))
        for _ in range(steps):
            x = torch.randn(1, 4)
            mine, wanted = module(x, ours), twin(x, theirs)
            for a, b in zip(mine if isinstance(mine, tuple) else (mine,), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
                torch.testing.assert_close(a, b)
            torch.testing.assert_close(ours.rows, theirs.rows)
            assert {k: v for k, v in vars(ours).items() if type(v) is int} == {k: v for k, v in vars(theirs).items() if type(v) is int}
    assert status(module).calls == steps
    return status(module).ran


def test_one_program_answers_until_the_window_is_full(tmp_path: Path) -> None:
    assert runs(tmp_path, Step().eval(), Cache(window=6, rows=1), 9) == 5  # with 1 to 5 rows; a full window computes something else


def test_one_program_answers_ever_after(tmp_path: Path) -> None:
    assert runs(tmp_path, Step().eval(), Cache(window=6, rows=6), 9) == 9


def test_what_ends_it_is_said(tmp_path: Path) -> None:
    module, cache = Step().eval(), Cache(window=3, rows=2)
    with torch.no_grad():
        attached(module, tmp_path, torch.randn(1, 4), copy.deepcopy(cache))
        for _ in range(2):
            module(torch.randn(1, 4), cache)
    assert list(status(module).fell_back) == ["'argument 1.count' is 3, the program was made for a whole number to 2"]


def _adds(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    return y + cache.count


def _cuts(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    return y + cache.rows[: min(cache.count, 2)].sum(0)


def _returns(y: torch.Tensor, cache: Cache) -> Any:
    return y, torch.tensor(float(cache.count))


def _notes(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    cache.noted = cache.count * 2
    return y


def _alternates(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    return y if cache.count % 2 else -y


def _asks_its_kind(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    return y * 2 if isinstance(cache.count, int) and cache.count > 2 else y


def _looks_it_up(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    return y * {1: 3.0, 2: 5.0}.get(cache.count, 7.0)


def _by_another(y: torch.Tensor, cache: Cache) -> torch.Tensor:
    cache.other += 2
    return y if cache.other <= cache.count + 3 else -y


@pytest.mark.parametrize("also", [_adds, _returns, _notes, _alternates, _asks_its_kind, _looks_it_up, _by_another])
def test_what_the_call_does_with_the_number_otherwise_holds_for_that_number(tmp_path: Path, also: Any) -> None:
    assert runs(tmp_path, Step(also).eval(), Cache(window=9, rows=1), 4) == 1


def test_a_size_made_of_it_holds_as_far_as_it_is_the_same(tmp_path: Path) -> None:
    ran = runs(tmp_path, Step(_cuts).eval(), Cache(window=9, rows=3), 4)
    assert ran == 4  # two rows whichever number it is from 2 on
