"""Functions of tensors as nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx


def spliced(graph: fx.Graph, before: fx.Node, function: Callable[..., Any], given: Sequence[fx.Node]) -> Any:
    """What `function` computes of these nodes, as nodes right before that one; the node, or tuple of nodes, that is its result."""
    with torch.no_grad():
        traced = make_fx(function)(*(n.meta["val"] for n in given))
    known: dict[fx.Node, fx.Node] = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), given, strict=True))
    about = {k: v for k, v in before.meta.items() if k != "val"}
    with graph.inserting_before(before):
        for one in traced.graph.nodes:
            if one.op == "call_function":
                known[one] = graph.node_copy(one, lambda n: known[n])
                known[one].meta = about | {"val": one.meta["val"]}
    return fx.node.map_arg(traced.graph.output_node().args[0], lambda n: known[n])
