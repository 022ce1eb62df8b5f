"""What norms and softmaxes fold, as values that kernels may store, where the operator itself does not give it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

_aten = torch.ops.aten
_NARROW = (torch.float16, torch.bfloat16)
_BATCH_NORMS = {_aten._native_batch_norm_legit.default, _aten._native_batch_norm_legit.no_stats, _aten._native_batch_norm_legit_functional.default}
_SOFTMAXES = {_aten._softmax.default, _aten._log_softmax.default}


def add_statistics(graph: fx.Graph) -> None:
    """Behind each norm that gives its statistics in 16 bits, the same norm of its converted data, without weight and bias; behind each
    softmax of wider data, the maximum and the sum of exponentials of its rows. (An exponential and a quotient take longer than two bytes.)

    Nothing reads these nodes: neither eager nor an `aten` step runs them, and the operator stays what it was. A kernel has the numbers
    all the same; here they have a name and a definition, so that one kernel can store them, another load them, and the oracle judge them."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _SOFTMAXES:
            _behind_softmax(graph, node)
        elif (wide := _wide_norm(node)) is not None:
            target, rest = wide
            place = _Place(graph, node)
            place.call(target, place.call(_aten._to_copy.default, node.args[0], dtype=torch.float32), *rest)


class _Place:
    """Adds nodes behind one, each behind the last."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self.graph = graph
        self.last = node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        with self.graph.inserting_after(self.last):
            node = self.graph.call_function(target, args, kwargs)
        known = fx.map_arg(args, lambda n: n.meta["val"])
        mode = detect_fake_mode([a for a in known if isinstance(a, torch.Tensor)])
        assert mode is not None
        with mode, torch.no_grad():
            node.meta["val"] = target(*known, **kwargs)
        self.last = node
        return node


def _behind_softmax(graph: fx.Graph, node: fx.Node) -> None:
    data, dim, *_ = _arguments(node)
    val = data.meta["val"]
    if val.ndim == 0 or val.numel() == 0 or val.dtype not in (torch.float32, torch.float64):
        return
    place = _Place(graph, node)
    most = place.call(_aten.amax.default, data, [dim], True)
    place.call(_aten.sum.dim_IntList, place.call(_aten.exp.default, place.call(_aten.sub.Tensor, data, most)), [dim], True)


def _wide_norm(node: fx.Node) -> tuple[Any, tuple[Any, ...]] | None:
    """The operator and its arguments after the first; None for whatever is no norm with narrow statistics."""
    made = node.meta.get("val")
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
