"""`bincount` of numbers whose range is known: as many places as the call asks for at least, and none more.

How long its result is depends on the largest number; where the graph says that none can reach `minlength` (they are places in a row of so many, or
remainders, or clamped), it is a fixed number, and a comparison with each place and a sum are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._subclasses import fake_impls

from planish.capture.ranges import Ranges
from planish.capture.refusals import unsized
from planish.capture.splice import spliced

_BINCOUNT = torch.ops.aten.bincount.default
#: Comparisons that a count may take; beyond, counting in memory (`scatter_add`) is what one would write.
_MOST = 1 << 26


@contextmanager
def counts_of_fixed_size() -> Iterator[None]:
    """While this holds, torch traces `bincount` as if no number reached `minlength`, where there is one; `count_in_places` asks whether that is so."""
    known: dict[Any, Any] = fake_impls.op_implementations_dict
    theirs: Callable[..., Any] = known[_BINCOUNT]

    def shapes(mode: Any, func: Any, inputs: torch.Tensor, weights: torch.Tensor | None = None, minlength: Any = 0) -> Any:
        if not isinstance(minlength, int) or minlength <= 0 or inputs.ndim != 1:
            return theirs(mode, func, inputs, weights, minlength)
        return inputs.new_empty(minlength, dtype=_dtype(weights))

    known[_BINCOUNT] = shapes
    try:
        yield
    finally:
        known[_BINCOUNT] = theirs


def _dtype(weights: torch.Tensor | None) -> torch.dtype:
    return torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64


def count_in_places(graph: fx.Graph, ranges: Ranges, path: Path) -> None:
    """Replaces such counts. Raises PlanishError (data_dependent) for one whose size is not known."""
    for node in graph.find_nodes(op="call_function", target=_BINCOUNT):
        numbers = node.args[0]
        weights = node.args[1] if len(node.args) > 1 else node.kwargs.get("weights")
        places = node.meta["val"].shape[0]
        assert isinstance(numbers, fx.Node)
        low, high = ranges.of(numbers)
        if not isinstance(places, int) or low is None or high is None or low < 0 or high >= places:
            raise unsized(node, path)
        given = [numbers, *([weights] if isinstance(weights, fx.Node) else [])]
        counted = (_compared if numbers.meta["val"].shape[0] * places <= _MOST else _added)(places)
        node.replace_all_uses_with(spliced(graph, node, counted, given))
        graph.erase_node(node)


def _compared(places: int) -> Callable[..., torch.Tensor]:
    def counted(numbers: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        here = numbers.unsqueeze(0) == torch.arange(places, device=numbers.device, dtype=numbers.dtype).unsqueeze(1)
        return torch.where(here, weights[0].to(_dtype(weights[0])).unsqueeze(0), 0.0).sum(1) if weights else here.sum(1)

    return counted


def _added(places: int) -> Callable[..., torch.Tensor]:
    def counted(numbers: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        ones = weights[0].to(_dtype(weights[0])) if weights else torch.ones_like(numbers, dtype=torch.int64)
        return torch.zeros(places, dtype=ones.dtype, device=ones.device).scatter_add(0, numbers.long(), ones)

    return counted
