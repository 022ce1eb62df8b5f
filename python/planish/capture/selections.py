"""`x[i]` with a tensor of one whole number for i: torch asks the tensor for a Python number, which no graph can hold, to take a row that one can."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

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
