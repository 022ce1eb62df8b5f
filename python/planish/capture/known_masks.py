"""Masks of attention that are the same at each call. Libraries make them of `arange` while they are captured, where eager would have left them out: an
encoder's hides nothing, a decoder's prompt hides what comes later, and perhaps what lies behind a window. Attention that knows this skips tiles of keys and
reads no mask. Other masks stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from planish.capture.known_values import KnownValues
from planish.capture.splice import spliced

_aten = torch.ops.aten


def take_known_masks(graph: fx.Graph, known: KnownValues) -> None:
    """Says of attention what its mask says: nothing, `is_causal`, or by how much a key's place exceeds a query's."""
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target is _aten.scaled_dot_product_attention.default]:
        given = {argument.name: value for argument, value in zip(node.target._schema.arguments, node.args, strict=False)} | node.kwargs
        mask = given.get("attn_mask")
        value = known.value(mask)
        if value is None or value.dtype != torch.bool or given.get("is_causal") or value.ndim < 2:
            continue
        queries, keys = (node.args[i].meta["val"].shape[-2] for i in (0, 1))
        band = _band(value, queries, keys)
        if band is None:
            continue
        least, most = band
        if least <= 1 - queries and most >= keys - 1:
            _give(node, None, causal=False)
        elif least <= 1 - queries and most == 0:
            _give(node, None, causal=True)
        else:
            _give(node, spliced(graph, node, _within(least, most, queries, keys, value.device), []), causal=False)


def _give(node: fx.Node, mask: fx.Node | None, causal: bool) -> None:
    query, key, value, _, *rest = (*node.args, None) if len(node.args) == 3 else node.args
    dropout = rest[0] if rest else node.kwargs.get("dropout_p", 0.0)
    node.args, node.kwargs = (
        (query, key, value, mask, dropout, causal),
        {k: v for k, v in node.kwargs.items() if k not in ("attn_mask", "is_causal", "dropout_p")},
    )


def _band(mask: torch.Tensor, queries: int, keys: int) -> tuple[int, int] | None:
    """Least and most of key's place less query's place where the mask is true, if it is true nowhere else and everywhere between, for all heads alike."""
    plane = mask[(0,) * (mask.ndim - 2)]
    own = [stride and size > 1 for stride, size in zip(mask.stride()[:-2], mask.shape[:-2], strict=True)]
    if (any(own) and not torch.equal(mask, plane.expand_as(mask))) or not bool(plane.any()):
        return None
    plane = plane.broadcast_to((queries, keys))
    ahead = _ahead(queries, keys, mask.device)
    least, most = int(ahead[plane].min()), int(ahead[plane].max())
    return (least, most) if torch.equal(plane, (ahead >= least) & (ahead <= most)) else None


def _ahead(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    return torch.arange(keys, dtype=torch.int32, device=device)[None, :] - torch.arange(queries, dtype=torch.int32, device=device)[:, None]


def _within(least: int, most: int, queries: int, keys: int, device: torch.device) -> Callable[[], torch.Tensor]:
    def mask() -> torch.Tensor:
        place = torch.arange(keys, device=device)[None, :]
        query = torch.arange(queries, device=device)[:, None]
        tests = [place <= query + most] if most < keys - 1 else []
        tests += [place >= query + least] if least > 1 - queries else []
        return tests[0] & tests[1] if len(tests) == 2 else tests[0]

    return mask
