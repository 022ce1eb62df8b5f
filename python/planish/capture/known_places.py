"""Elements that are taken from places known at capture, where these are views: the order in which AWQ packs its nibbles, a scale's group for each row.

Such places are computed by the module of nothing but its own numbers (`arange`, lists), so that they are the same at each call. Where they run in
steps (`i // 64`, `i % 8`, even ones before odd ones) the elements are a slice, a reshape and a permutation of the tensor, which kernels read in place; as
an index they would be loaded, and nothing could be known of where a row's next element lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from planish.capture.known_values import KnownValues
from planish.capture.splice import spliced

_aten = torch.ops.aten
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MOST_DIGITS = 6


@dataclass(frozen=True)
class Steps:
    """Places as numbers written in digits: `first` + Σ digit · step, the last digit runs fastest. Each is an (extent, step)."""

    first: int
    digits: tuple[tuple[int, int], ...]

    @staticmethod
    def of(places: torch.Tensor) -> Steps | None:
        """None where they do not run in steps, or in too many kinds of them."""
        rest = places.flatten().tolist()
        first, found = rest[0], list[tuple[int, int]]()
        while len(rest) > 1:
            step = rest[1] - rest[0]
            run = next((i for i in range(1, len(rest)) if rest[i] - rest[i - 1] != step), len(rest))
            run = math.gcd(run, len(rest))
            if run == 1 or len(found) == _MOST_DIGITS or not _in_steps(rest, run, step):
                return None
            found.append((run, step))
            rest = rest[::run]
        return Steps(first, tuple(reversed(found)))

    def view(self, size: int) -> Callable[[torch.Tensor, int], torch.Tensor] | None:
        """What takes these places of a dim of `size` without an index; None where the places are no view of it."""
        moving = sorted((step, extent, at) for at, (extent, step) in enumerate(self.digits) if step)
        unit = moving[0][0] if moving else 1
        reach = unit
        for step, extent, _ in moving:
            if step != reach or step < 0:  # places that are left out between two steps, that overlap, or that fall
                return None
            reach = step * extent
        count = reach // unit
        if self.first + (count - 1) * unit >= size:
            return None
        extents = [extent for _, extent, _ in reversed(moving)]
        order = sorted(range(len(moving)), key=lambda i: list(reversed(moving))[i][2])
        wanted = [extent for extent, _ in self.digits]

        def take(x: torch.Tensor, dim: int) -> torch.Tensor:
            before, after = list(x.shape[:dim]), list(x.shape[dim + 1 :])
            end = self.first + (count - 1) * unit + 1
            if self.first != 0 or end != size or unit != 1:
                x = _aten.slice.Tensor(x, dim, self.first, end, unit)
            x = _contiguous(x).view([*before, *extents, *after])
            k = len(before)
            x = x.permute([*range(k), *(k + i for i in order), *range(k + len(extents), x.ndim)])
            repeated = [at for at, (_, step) in enumerate(self.digits) if step == 0]
            for at in repeated:
                x = x.unsqueeze(k + at)
            return _contiguous(x.expand([*before, *wanted, *after]) if repeated else x)

        return take


def _contiguous(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_contiguous() else _aten.clone.default(x, memory_format=torch.contiguous_format)


def _in_steps(places: Sequence[int], run: int, step: int) -> bool:
    return all(places[i] - places[i - 1] == step for i in range(1, len(places)) if i % run)


def count_constants(graph: fx.Graph, known: KnownValues) -> None:
    """Constants of whole numbers in equal steps (by how much each code of a word is shifted) are counted where they are read: nothing is loaded, and who reads
    them knows them."""
    before = next(n for n in graph.nodes if n.op != "placeholder")
    for node in [n for n in graph.nodes if n.op == "placeholder"]:
        value = known.value(node)
        if value is None or value.dtype not in _INTEGERS or value.numel() < 2:
            continue
        steps = Steps.of(value)
        if steps is None or len(steps.digits) != 1 or steps.digits[0][1] == 0:
            continue
        node.replace_all_uses_with(spliced(graph, before, _counted(steps, value, node.meta["val"].device), []))


def _counted(steps: Steps, like: torch.Tensor, device: torch.device) -> Callable[[], torch.Tensor]:
    ((extent, step),) = steps.digits
    end = steps.first + extent * step
    return lambda: _aten.arange.start_step(steps.first, end, step, dtype=like.dtype, device=device).view(like.shape)


def take_known_places(graph: fx.Graph, known: KnownValues) -> None:
    """Replaces what takes elements from such places by the views that give the same."""
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target in (_aten.index.Tensor, _aten.index_select.default)]:
        found = _dim_and_places(node)
        if found is None or not node.meta["val"].is_contiguous():  # what reads it may count on how it lies
            continue
        dim, index = found
        places = known.value(index)
        if places is None or places.numel() == 0 or places.dtype not in _INTEGERS:
            continue
        size = node.args[0].meta["val"].shape[dim]
        places = torch.where(places < 0, places.long() + size, places.long())
        if int(places.min()) < 0 or int(places.max()) >= size:
            continue
        steps = Steps.of(places)
        take = steps.view(size) if steps is not None else None
        if take is not None:
            _replace(graph, node, take, dim, list(places.shape))


def _replace(graph: fx.Graph, node: fx.Node, take: Callable[[torch.Tensor, int], torch.Tensor], dim: int, shape: list[int]) -> None:
    source = node.args[0]
    assert isinstance(source, fx.Node)

    def taken(x: torch.Tensor) -> torch.Tensor:
        return take(x, dim).view([*x.shape[:dim], *shape, *x.shape[dim + 1 :]])

    node.replace_all_uses_with(spliced(graph, node, taken, [source]))
    graph.erase_node(node)


def _dim_and_places(node: fx.Node) -> tuple[int, fx.Node] | None:
    source = node.args[0]
    if node.target is _aten.index_select.default:
        dim, index = node.args[1], node.args[2]
        assert isinstance(dim, int) and isinstance(source, fx.Node)
        return (dim % source.meta["val"].ndim, index) if isinstance(index, fx.Node) and index.meta["val"].ndim == 1 and source.meta["val"].ndim else None
    given = [(dim, index) for dim, index in enumerate(node.args[1]) if index is not None]  # type: ignore[arg-type]
    return given[0] if len(given) == 1 and isinstance(given[0][1], fx.Node) else None
