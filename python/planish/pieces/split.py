"""Cuts out of a graph what a program may not hold: operators of somebody's own, operators that take functions, draws from a generator of the caller's
own, and what needs a size that is only known when it runs. These steps stay as they are, and the graph between them becomes pieces."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.passes.split_module import split_module

#: What is entered and left: a cut between the two would leave it entered by one piece and left by another.
_CONTEXTS = ("_enter_", "_exit_", "_set_grad_enabled", "inference_mode")


def split(module: fx.GraphModule) -> tuple[fx.GraphModule, dict[str, fx.GraphModule], list[str]]:
    """The graph with a submodule for each piece, these by their names (none: the graph is one piece itself), and the steps that were cut out."""
    opaque = {node: why for node in module.graph.nodes if (why := _why_opaque(node))}
    if not opaque or any(word in str(node.target) for node in module.graph.nodes for word in _CONTEXTS):
        return module, {}, sorted(set(opaque.values()))
    first = {n for n in opaque if _is_number(n) and all(_is_number(i) for i in n.all_input_nodes)}  # numbers made of numbers that are given
    part_of: dict[fx.Node, int] = dict.fromkeys(first, 0)
    part, was_opaque, pieces = 1, False, set[int]()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output") or node in first:
            continue
        if (node in opaque) != was_opaque:
            part, was_opaque = part + 1, not was_opaque
        part_of[node] = part
        if not was_opaque:
            pieces.add(part)
    if not pieces:
        return module, {}, sorted(set(opaque.values()))
    whole = split_module(module, module, lambda node: part_of[node], keep_original_order=True)
    return whole, {f"submod_{k}": getattr(whole, f"submod_{k}") for k in sorted(pieces)}, sorted(set(opaque.values()))


def _why_opaque(node: fx.Node) -> str:
    """The name of a step that is to stay as it is; else nothing."""
    if node.op in ("placeholder", "get_attr", "output"):
        return ""
    if _is_number(node) or any(_is_number(i) for i in node.all_input_nodes):
        return "a number that is only known when it runs"
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"{name}, which takes functions"
    packet = getattr(target, "overloadpacket", target)
    space = getattr(packet, "_qualified_op_name", "").partition("::")[0]
    if space and space not in ("aten", "prims"):
        return str(packet._qualified_op_name).replace("::", ".")
    if node.kwargs.get("generator") is not None:
        return f"{name}, which draws from a generator of its own"
    return "" if space or node.op == "call_method" or _is_torchs(target) else name


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.SymInt | torch.SymFloat | torch.SymBool)


def _is_torchs(target: Any) -> bool:
    """Whether a function is torch's or Python's own: what else dynamo leaves in a graph is somebody's, whose code no key knows."""
    return (getattr(target, "__module__", None) or "torch").partition(".")[0] in ("torch", "_operator", "operator", "builtins", "math")
