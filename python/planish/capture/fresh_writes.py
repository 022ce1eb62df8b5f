"""Masks and counts that are written into a new tensor (`zeros.scatter(1, picked, 1)`, `zeros.scatter_add(1, picked, weights)`): each element asks the few
indices of its row whether one names it. So it is made where it is read, in no order of writes, and there is no tensor to be filled before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from planish.capture.splice import spliced

_aten = torch.ops.aten
_MOST_ASKED = 16  # indices of a row; more are written faster than asked
_MOST = 1 << 26  # questions in all
_FRESH = (_aten.full.default, _aten.full_like.default)


def ask_instead_of_writing(graph: fx.Graph) -> None:
    """Replaces such writes into a tensor of one number."""
    for target, made in ((_aten.scatter.value, _chosen), (_aten.scatter_add.default, _added)):
        for node in graph.find_nodes(op="call_function", target=target):
            args: Any = node.args
            fresh, dim, index, source = args[:4]
            if _is_fresh(fresh) and _is_cheap(fresh.meta["val"], index.meta["val"], dim) and _has_rows(source, index.meta["val"], dim):
                node.replace_all_uses_with(made(graph, node, fresh, dim, index, source))
                for done in (node, fresh):
                    if not done.users:
                        graph.erase_node(done)


def _is_fresh(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.target in _FRESH and not node.meta["val"].is_complex() and node.meta["val"].is_contiguous()


def _is_cheap(whole: torch.Tensor, index: torch.Tensor, dim: int) -> bool:
    """Few indices for each row, and one row of them for each of the whole's."""
    if whole.ndim == 0 or index.ndim != whole.ndim:
        return False
    dim %= whole.ndim
    others = all(index.shape[d] == whole.shape[d] for d in range(whole.ndim) if d != dim)
    return others and 0 < index.shape[dim] <= _MOST_ASKED and whole.numel() * index.shape[dim] <= _MOST


def _has_rows(source: Any, index: torch.Tensor, dim: int) -> bool:
    """A source may be larger than its index."""
    return not isinstance(source, fx.Node) or all(source.meta["val"].shape[d] == index.shape[d] for d in range(index.ndim) if d != dim % index.ndim)


def _named(index: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Of each element of the whole, in a dim behind the others, which of its row's indices name it."""
    dim %= index.ndim
    places = torch.arange(size, device=index.device, dtype=index.dtype).view(*[1] * dim, size, *[1] * (index.ndim - dim - 1), 1)
    return _behind(index, dim) == places


def _behind(rows: torch.Tensor, dim: int) -> torch.Tensor:
    order = [d for d in range(rows.ndim) if d != dim]
    return _aten.permute.default(rows, [*order, dim]).unsqueeze(dim)


def _chosen(graph: fx.Graph, node: fx.Node, fresh: fx.Node, dim: int, index: fx.Node, value: Any) -> Any:
    whole = fresh.meta["val"]

    def chosen(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.where(_named(at, dim, whole.shape[dim]).any(-1), torch.full((), value, dtype=whole.dtype, device=whole.device), x)

    return spliced(graph, node, _laid_as(whole, chosen), [fresh, index])


def _added(graph: fx.Graph, node: fx.Node, fresh: fx.Node, dim: int, index: fx.Node, source: fx.Node) -> Any:
    whole, count = fresh.meta["val"], index.meta["val"].shape[dim]

    def added(x: torch.Tensor, at: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        rows = _behind(_aten.slice.Tensor(more, dim, 0, count), dim % whole.ndim)
        own = torch.where(_named(at, dim, whole.shape[dim]), rows, torch.zeros((), dtype=whole.dtype, device=whole.device))
        return x + own.sum(-1, dtype=whole.dtype)

    return spliced(graph, node, _laid_as(whole, added), [fresh, index, source])


def _laid_as(whole: torch.Tensor, made: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """In memory as the write's result."""

    def laid(*given: torch.Tensor) -> torch.Tensor:
        found = made(*given)
        return found if found.stride() == whole.stride() else found.clone(memory_format=torch.contiguous_format)

    return laid
