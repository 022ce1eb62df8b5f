"""Keys and values that are repeated for the heads that share them (`repeat_kv` of transformers): attention has a word for it, `enable_gqa`, and reads each
once."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_aten = torch.ops.aten
_VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)


def share_repeated_heads(graph: fx.Graph) -> None:
    """Takes the repetition away in front of attention, where keys and values have the same."""
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target is _aten.scaled_dot_product_attention.default]:
        if node.kwargs.get("enable_gqa"):
            continue
        key, value = (_repeated(n) for n in node.args[1:3])
        if key is None or value is None or _heads(key) != _heads(value):
            continue
        query, given = node.args[0], node.args[1:3]
        node.args = (query, key, value, *node.args[3:])
        node.kwargs = node.kwargs | {"enable_gqa": True}
        for unread in given:
            _erase(graph, unread)


def _heads(node: fx.Node) -> int:
    return int(node.meta["val"].shape[1])


def _repeated(node: Any) -> fx.Node | None:
    """x [batch, heads, places, features] of a node that is [batch, heads · n, places, features] and has each head n times, one after the other."""
    if not isinstance(node, fx.Node) or node.target not in _VIEWS or node.meta["val"].dim() != 4:
        return None
    wide: Any = node.args[0]
    if isinstance(wide, fx.Node) and wide.target is _aten.clone.default:
        wide = wide.args[0]
    if not isinstance(wide, fx.Node) or wide.target is not _aten.expand.default:
        return None
    single: Any = wide.args[0]
    if not isinstance(single, fx.Node) or single.target is not _aten.unsqueeze.default or single.args[1] != 2:
        return None
    x: Any = single.args[0]
    batch, heads, places, features = x.meta["val"].shape if x.meta["val"].dim() == 4 else (0, 0, 0, 0)
    several = wide.meta["val"].shape
    same = tuple(several) == (batch, heads, several[2], places, features) if len(several) == 5 else False
    return x if same and tuple(node.meta["val"].shape) == (batch, heads * several[2], places, features) else None


def _erase(graph: fx.Graph, node: Any) -> None:
    while isinstance(node, fx.Node) and not node.users and node.op == "call_function":
        before = node.args[0]
        graph.erase_node(node)
        node = before
