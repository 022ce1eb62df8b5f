"""Parameters and buffers of a class that holds other tensors (quantised weights: codes, scales), by torch's own protocol `__tensor_flatten__`.

A program reads the tensors inside, under names like `0.weight.scale`: where the module keeps the outer one, and the attributes that lead inwards.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

Tensor = torch.Tensor
_PLAIN = (Tensor, nn.Parameter)


def holds_others(tensor: Any) -> bool:
    """Whether a tensor is of a class that holds others, and says so."""
    return type(tensor) not in _PLAIN and isinstance(tensor, Tensor) and is_traceable_wrapper_subclass(tensor)


def inside(tensor: Tensor, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The plain tensors that a tensor is made of, in torch's order, by the attributes that lead to them from `name`. A plain one is its own."""
    if not holds_others(tensor):
        yield name, tensor
        return
    for key in tensor.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
        yield from inside(getattr(tensor, key), f"{name}.{key}" if name else key)


def plain(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in which these lie."""
    return [one for tensor in tensors for _, one in inside(tensor)]


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """All plain tensors that a module's parameters are made of, by name, twice where two names have one tensor."""
    return {path: one for name, tensor in module.named_parameters(remove_duplicate=False) for path, one in inside(tensor, name)}


def buffers(module: nn.Module) -> dict[str, Tensor]:
    """The same of its buffers."""
    return {path: one for name, tensor in module.named_buffers(remove_duplicate=False) for path, one in inside(tensor, name)}


def state(module: nn.Module) -> list[Tensor]:
    """All plain tensors that a module's parameters and buffers are made of."""
    return plain((*module.parameters(), *module.buffers()))


def are_in(module: nn.Module) -> bool:
    """Whether a parameter or buffer holds others."""
    return any(holds_others(tensor) for tensor in (*module.parameters(), *module.buffers()))


def place(modules: dict[str, nn.Module], name: str) -> tuple[dict[str, Any], str] | None:
    """The dictionary that has the tensor of this name, and its key there; None where no dictionary of a module, or of a tensor, has."""
    path = name.split(".")
    at = next((n for n in range(len(path) - 1, -1, -1) if ".".join(path[:n]) in modules), None)
    if at is None:
        return None
    owner, (key, *inwards) = modules[".".join(path[:at])], path[at:]
    store: dict[str, Any] = owner._parameters if key in owner._parameters else owner._buffers
    for attribute in inwards:
        if not holds_others(outer := store.get(key)):
            return None
        store, key = vars(outer), attribute
    return (store, key) if key in store else None
