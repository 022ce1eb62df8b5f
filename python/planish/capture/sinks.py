"""Attention with sinks: a score of each head, beside those of the keys, that takes weight and gives nothing (gpt-oss and others).

It is written as a softmax over the scores and one more column, whose weight is dropped. Here the largest and the sum of the scores, each with the
column's, weigh the scores where they lie: nothing is put together, so that kernels of attention can have them in their sums."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from planish.capture.splice import spliced

_aten = torch.ops.aten


def weigh_beside_sinks(graph: fx.Graph) -> None:
    """Replaces such softmaxes, of which nothing else is read. Sums are in 32 bits at least, as torch's are."""
    for kept in graph.find_nodes(op="call_function", target=_aten.slice.Tensor):
        chain: list[fx.Node] = [kept]
        parts = _parts(kept, chain)
        if parts is None:
            continue
        kept.replace_all_uses_with(spliced(graph, kept, _weights_as(kept.meta["val"].dtype, chain[1].meta["val"].dtype), parts))
        for node in chain:
            if not node.users:
                graph.erase_node(node)


def _weights_as(dtype: torch.dtype, within: torch.dtype) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def weights(scores: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
        wide = torch.float64 if torch.float64 in (scores.dtype, sink.dtype, within) else torch.float32
        scores, sink = scores.to(wide), sink.to(wide)
        top = torch.maximum(scores.amax(-1, keepdim=True), sink)
        own = torch.exp(scores - top)
        return (own / (own.sum(-1, keepdim=True) + torch.exp(sink - top))).to(dtype)

    return weights


def _parts(kept: Any, chain: list[fx.Node]) -> tuple[fx.Node, fx.Node] | None:
    """The scores and the column, where `kept` is all of a softmax over both but that column. `chain`: the nodes on the way there, each after its readers."""
    softmax = kept.args[0]
    if not _is(softmax, _aten._softmax.default) or len(softmax.users) != 1 or not _over_last(softmax, softmax) or not _over_last(kept, kept):
        return None
    if any(kept.args[k] != default for k, default in ((2, 0), (4, 1)) if len(kept.args) > k):
        return None
    chain.append(softmax)
    both = softmax.args[0]
    for _ in range(2):  # a cast on either side of what is taken off
        both = _uncast(both, chain)
        both = _unshifted(both, chain)
    if not _is(both, _aten.cat.default) or len(both.args[0]) != 2 or not _over_last(both, both):
        return None
    chain.append(both)
    scores, sink = both.args[0]
    of_scores, of_sink, result = (n.meta["val"] for n in (scores, sink, kept))
    if of_scores.shape != result.shape or of_scores.numel() == 0 or of_sink.shape[-1] != 1:
        return None
    if not all(t.is_floating_point() and t.dtype.itemsize >= 2 for t in (of_scores, of_sink, result)):
        return None
    return scores, sink


def _is(node: Any, target: Any) -> bool:
    return isinstance(node, fx.Node) and node.target is target


def _over_last(node: Any, of: Any) -> bool:
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    dim = dim[0] if isinstance(dim, list | tuple) and len(dim) == 1 else dim
    return isinstance(dim, int) and dim in (-1, of.meta["val"].dim() - 1)


def _uncast(node: Any, chain: list[fx.Node]) -> Any:
    """Before a cast between floats that loses nothing."""
    if not _is(node, _aten._to_copy.default):
        return node
    before, after = (n.meta["val"].dtype for n in (node.args[0], node))
    # torch promotes no floats of 8 bits.
    if not before.is_floating_point or min(before.itemsize, after.itemsize) < 2 or torch.promote_types(before, after) != after:
        return node
    chain.append(node)
    return node.args[0]


def _unshifted(node: Any, chain: list[fx.Node]) -> Any:
    """Without the largest of it, which a softmax takes off itself."""
    if not _is(node, _aten.sub.Tensor) or node.kwargs.get("alpha", 1) != 1:
        return node
    whole, largest = node.args
    one = largest.args[0] if _is(largest, operator.getitem) and largest.args[1] == 0 else largest
    targets = (_aten.max.dim, _aten.amax.default)
    if not any(_is(one, t) for t in targets) or one.args[0] is not whole or not _over_last(one, whole) or not (len(one.args) > 2 and one.args[2]):
        return node
    chain.extend(dict.fromkeys((node, largest, one)))
    return whole
