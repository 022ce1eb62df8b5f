"""fp32 statistics of norms whose own are 16 bits wide, as values that kernels may store."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

_aten = torch.ops.aten
_NARROW = (torch.float16, torch.bfloat16)
_BATCH_NORMS = {_aten._native_batch_norm_legit.default, _aten._native_batch_norm_legit.no_stats, _aten._native_batch_norm_legit_functional.default}


def add_wide_statistics(graph: fx.Graph) -> None:
    """Behind each norm that gives its statistics in 16 bits, the same norm of its converted data, without weight and bias.

    Nothing reads it: neither eager nor an `aten` step runs it, and the norm itself stays what it was. A kernel has the statistics in fp32
    all the same; here they have a name and a definition, so that one kernel can store them, another load them, and the oracle judge them."""
    for norm in list(graph.nodes):
        wide = _wide_call(norm)
        if wide is None:
            continue
        target, rest = wide
        with graph.inserting_after(norm):
            data = _call(graph, _aten._to_copy.default, (norm.args[0],), {"dtype": torch.float32})
        with graph.inserting_after(data):
            _call(graph, target, (data, *rest), {})


def _wide_call(node: fx.Node) -> tuple[Any, tuple[Any, ...]] | None:
    """The operator and its arguments after the first; None for whatever is no norm with narrow statistics."""
    made = node.meta.get("val") if node.op == "call_function" else None
    if not isinstance(made, (tuple, list)) or len(made) < 3 or not isinstance(made[1], torch.Tensor) or made[1].dtype not in _NARROW:
        return None
    match node.target:
        case _aten.native_layer_norm.default:
            _, shape, _, _, eps = _arguments(node)
            return node.target, (shape, None, None, eps)
        case _aten.native_group_norm.default:
            _, _, _, batch, channels, plane, groups, eps = _arguments(node)
            return node.target, (None, None, batch, channels, plane, groups, eps)
    if node.target not in _BATCH_NORMS:
        return None
    *_, training, momentum, eps = _arguments(node)
    return (_aten._native_batch_norm_legit.no_stats, (None, None, True, momentum, eps)) if training else None


def _arguments(node: fx.Node) -> list[Any]:
    """Every argument of the schema, in its order."""
    given = dict(node.kwargs)
    for argument, value in zip(node.target._schema.arguments, node.args, strict=False):  # type: ignore[union-attr]
        given[argument.name] = value
    return [given.get(a.name, a.default_value) for a in node.target._schema.arguments]  # type: ignore[union-attr]


def _call(graph: fx.Graph, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    node = graph.call_function(target, args, kwargs)
    known = fx.map_arg(args, lambda n: n.meta["val"])
    mode = detect_fake_mode([a for a in known if isinstance(a, torch.Tensor)])
    assert mode is not None
    with mode, torch.no_grad():
        node.meta["val"] = target(*known, **kwargs)
    return node
