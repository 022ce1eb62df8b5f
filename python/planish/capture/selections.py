"""`x[i]` and `x[i] = y` with a tensor of one whole number for i: torch asks the tensor for a Python number, which no graph can hold, to take or write a row
that one can."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode

from planish.capture.splice import spliced

_aten = torch.ops.aten


def select_by_tensors(graph: fx.Graph) -> None:
    """Replaces what takes a row by such a number by an index, which is the same for numbers from either end."""
    for number in graph.find_nodes(op="call_function", target=_aten._local_scalar_dense.default):
        place: Any = number.args[0]
        value = place.meta["val"]
        if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
            continue
        for node in list(number.users):
            if node.target is _aten.select.int and node.args[2] is number and node.args[0] is not number:
                _replace(graph, node, place)
        if not number.users:
            graph.erase_node(number)


def _replace(graph: fx.Graph, node: fx.Node, place: fx.Node) -> None:
    source: Any = node.args[0]
    dim: Any = node.args[1]
    before = [None] * (dim % source.meta["val"].ndim)

    def taken(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return _aten.index.Tensor(x, [*before, at.reshape(()).long()])

    node.replace_all_uses_with(spliced(graph, node, taken, [source, place]))
    graph.erase_node(node)


class RowsByTensors(TorchFunctionMode):
    """While this holds, writes to a row that such a number names are writes to places of a tensor; torch cannot trace the number's row."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__setitem__ and (found := _by_places(*args)) is not None:
            args = (args[0], *found)
        return func(*args, **(kwargs or {}))


def _by_places(x: torch.Tensor, index: Any, value: Any) -> tuple[Any, Any] | None:
    """The index with one place in a tensor, and the value with a dim for it; None where there is no such number, or another tensor beside it."""
    entries = list(index) if isinstance(index, tuple) else [index]
    numbers = [at for at, e in enumerate(entries) if _is_number(e)]
    plain = all(e is None or e is Ellipsis or isinstance(e, int | slice) for at, e in enumerate(entries) if at not in numbers)
    if len(numbers) != 1 or not plain or any(isinstance(e, bool) for e in entries):
        return None
    (at,) = numbers
    if isinstance(value, torch.Tensor):
        value = value.to(x)  # which a write to a row does, and one to places does not
    if isinstance(value, torch.Tensor) and value.ndim:
        row = x[tuple(0 if k == at else e for k, e in enumerate(entries))]
        while value.ndim > row.ndim and value.shape[0] == 1:
            value = value[0]
        value = value.expand(row.shape).unsqueeze(_dims_before(x, entries, at))
    entries[at] = entries[at].reshape(1)
    return tuple(entries), value


def _dims_before(x: torch.Tensor, entries: list[Any], at: int) -> int:
    """How many dims of what is indexed come before the entry's."""
    if any(e is Ellipsis for e in entries[:at]):
        whole = x[tuple(slice(None) if k == at else e for k, e in enumerate(entries))]
        return whole.ndim - 1 - _kept(entries[at + 1 :])
    return _kept(entries[:at])


def _kept(entries: list[Any]) -> int:
    return sum(e is None or isinstance(e, slice) for e in entries)


def _is_number(entry: Any) -> bool:
    integer = isinstance(entry, torch.Tensor) and not entry.is_floating_point() and not entry.is_complex()
    return integer and entry.ndim == 0 and entry.dtype not in (torch.bool, torch.uint8)
