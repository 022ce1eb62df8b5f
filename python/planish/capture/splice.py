"""Functions of tensors as nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree


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


def copied(module: fx.GraphModule, function: fx.Node, operands: Sequence[Any]) -> list[Any]:
    """The nodes of a function that the graph holds, with `operands` for its arguments, where the graph inserts now; its results."""
    inner = getattr(module, str(function.target))
    known: dict[fx.Node, Any] = {}
    given = iter(operands)
    for one in inner.graph.nodes:
        if one.op == "placeholder":
            known[one] = next(given)
        elif one.op == "output":
            found = one.args[0]
            return [known[r] if isinstance(r, fx.Node) else r for r in (found if isinstance(found, tuple | list) else (found,))]
        elif one.op == "get_attr":  # a function inside this one
            name = f"{function.target}_{one.target}"
            setattr(module, name, getattr(inner, one.target))
            known[one] = module.graph.get_attr(name)
        else:
            known[one] = module.graph.node_copy(one, lambda n: known[n])
            if "val" in one.meta:  # of its own: what traces nodes tells them apart by these
                with torch.no_grad():
                    known[one].meta["val"] = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, one.meta["val"])
    return []
