"""What an operation takes beside its operands and results."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from planish.capture.opaque import Module

_KNOWN = "planish_temporaries"
_OF_MODULE = 4  # times the largest of what a module without a graph takes and gives: nobody can tell what it makes in between
_MOST_STEPS = 64  # of a composed operation that are followed


class _TooManyError(Exception):
    """The operation has more steps than are followed."""


class _Live(TorchDispatchMode):
    """Counts the bytes of tensors that are made in its body and alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self._now = self._steps = 0
        self._storages: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooManyError
        made = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(made):
            memory = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
            if memory is not None and memory._cdata not in self._storages:
                self._storages.add(memory._cdata)
                self._now += memory.nbytes()
                weakref.finalize(memory, self._gone, memory._cdata, memory.nbytes())
        self.most = max(self.most, self._now)
        return made

    def _gone(self, name: int, size: int) -> None:
        self._storages.discard(name)
        self._now -= size


def temporaries(node: torch.fx.Node, largest: int, results: int, operand: Callable[[torch.fx.Node], Any]) -> int:
    """Bytes. `largest` has the largest of its operands and results, `results` all results together. `operand` gives a meta tensor for an
    operand, in the types of the run."""
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        return 0
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return largest
    if isinstance(node.target, Module):
        return _OF_MODULE * largest
    if (largest, results) not in node.meta.setdefault(_KNOWN, {}):
        # A loss makes those of all elements, and its result as large before it shrinks it. Of others it is not known.
        found = 2 * largest if any(argument.name == "reduction" for argument in schema.arguments) else largest
        node.meta[_KNOWN][largest, results] = max(found, _composed(node, operand) - results)
    return int(node.meta[_KNOWN][largest, results])


def _composed(node: torch.fx.Node, operand: Callable[[torch.fx.Node], Any]) -> int:
    """The most bytes that an operation which is composed of others makes at once, results included; 0 where it is none, or long."""
    target: Any = node.target
    if target is torch.ops.aten.scaled_dot_product_attention.default and _on_host(node):
        return 0  # one kernel there in double as well; on a GPU what it is composed of
    if not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd"):
        return 0
    try:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), operand)  # type: ignore[misc]
        with torch.no_grad(), _Live() as live:
            target(*args, **kwargs)
    except Exception:  # what has no form for meta tensors, or looks at values
        return 0
    return live.most


def _on_host(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"
