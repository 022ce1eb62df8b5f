"""Data that is drawn of a call keeps places that the module writes apart, and no other integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture.export import capture
from planish.capture.live import load_live, write_live
from planish.capture.written_places import leaves_of_places
from planish.oracle.task import Task
from torch import nn
from torch.utils import _pytree as pytree

SLOTS = torch.tensor([[9, 2, 4], [7, 0, 11]])
ROWS = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))


class Cache(nn.Module):
    """New rows go to their places in pages, and some of another list are added up."""

    def forward(self, pages: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor, counted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pages[slots // 4, slots % 4] = rows.view(2, 3, 5)
        return pages * 2, torch.zeros(8, 5).index_add(0, counted, rows)


class Copied(nn.Module):
    def forward(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return table.index_copy(0, places + 1, rows)


class Scattered(nn.Module):
    def forward(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return table.scatter(0, places[:, None].expand(6, 5), rows)


class Added(nn.Module):
    def forward(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return table.scatter_add(0, places[:, None].expand(6, 5), rows)


class AddedByIndex(nn.Module):
    def forward(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return table.index_put((places,), rows, accumulate=True)


class Filled(nn.Module):
    def forward(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return table.index_put((places,), torch.tensor(1.0)) + rows.sum()


class Read(nn.Module):
    def forward(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return table[places] + rows


@pytest.mark.parametrize(("made", "wanted"), [(Copied, [1]), (Scattered, [1]), (Added, []), (AddedByIndex, []), (Filled, []), (Read, [])])
def test_integers_that_say_where_are_found(tmp_path: Path, made: type[nn.Module], wanted: list[int]) -> None:
    graph = capture(made(), (torch.zeros(12, 5), torch.tensor([5, 0, 7, 2, 9, 4]), ROWS), {}, tmp_path, Path("t.py")).graph
    assert leaves_of_places(graph) == wanted


def _opened(tmp_path: Path, call: tuple[Any, ...]) -> Path:
    folder, blobs = tmp_path / "task", tmp_path / "blobs"
    blobs.mkdir()
    write_live(folder, "Cache", Cache(), call, {})
    Task(str(folder), torch.device("cpu"), str(blobs))
    return folder


def test_a_live_call_keeps_them_apart(tmp_path: Path) -> None:
    counted = torch.tensor([1, 3, 5, 7, 2, 0])  # each once by chance: rows are added up there
    folder = _opened(tmp_path, (torch.zeros(3, 4, 5), SLOTS, ROWS, counted))
    drawn = [pytree.tree_leaves(load_live(folder).make_inputs(seed, "cpu")) for seed in range(8)]
    assert all(call[1].unique().numel() == 6 and call[1].shape == (2, 3) and set(call[1].flatten().tolist()) == set(SLOTS.flatten().tolist()) for call in drawn)
    assert any(not torch.equal(call[1], SLOTS) for call in drawn)
    assert any(call[3].unique().numel() < 6 for call in drawn)


def test_places_that_are_twice_in_the_call_may_be_so_again(tmp_path: Path) -> None:
    folder = _opened(tmp_path, (torch.zeros(3, 4, 5), torch.tensor([[9, 2, 4], [7, 0, 0]]), ROWS.new_ones(6, 5), torch.arange(6)))
    assert any(load_live(folder).make_inputs(seed, "cpu")[0][1].unique().numel() < 5 for seed in range(8))


def test_another_call_of_the_folder_forgets_them(tmp_path: Path) -> None:
    folder = _opened(tmp_path, (torch.zeros(3, 4, 5), SLOTS, ROWS, torch.arange(6)))
    assert (folder / "distinct.json").exists()
    write_live(folder, "Read", Read(), (torch.zeros(12, 5), SLOTS.flatten(), ROWS), {})
    assert any(load_live(folder).make_inputs(seed, "cpu")[0][1].unique().numel() < 6 for seed in range(8))
