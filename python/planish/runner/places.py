"""Which parameters and buffers of a solution are the task's: by name, by order, or not one by one.

A solution that keeps the task's names takes whatever parameters it is given, and is tried with several. The public harness asks for
less: the same values from the same seed and order of construction. A solution that fuses or packs weights is judged so as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils import _pytree as pytree

from planish.ship import wrapped

_OWN_FIELDS = set(nn.Module().__dict__)


@dataclass
class Places:
    """`kind` as `load_module` answers it (docs/formats/wire.md); both maps go from the task's names to the solution's own."""

    kind: str = "by_name"
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)


def places(model: nn.Module, task: nn.Module) -> Places:
    """Both newly constructed from one seed, on one device."""
    mine = wrapped.parameters(model) | wrapped.buffers(model)
    theirs = wrapped.parameters(task) | wrapped.buffers(task)
    if all(name in theirs and _fit(tensor, theirs[name]) for name, tensor in mine.items()) and not _unregistered(model, task):
        return by_name(model)
    parameters = _in_order(dict(model.named_parameters()), dict(task.named_parameters()))
    buffers = _in_order(dict(model.named_buffers()), dict(task.named_buffers()))
    ordered = parameters is not None and buffers is not None and not _unregistered(model, task)
    own = dict(model.named_parameters())
    found = Places("by_order" if ordered else "own")
    found.buffers = _for_every_name(buffers, task.named_buffers(remove_duplicate=False)) if buffers is not None else by_name(model).buffers
    if ordered and parameters is not None:
        found.parameters = {theirs: own[mine] for theirs, mine in _for_every_name(parameters, task.named_parameters(remove_duplicate=False)).items()}
    return found


def by_name(model: nn.Module) -> Places:
    return Places("by_name", wrapped.parameters(model), {name: name for name in wrapped.buffers(model)})


def _in_order(mine: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> dict[str, str] | None:
    """The task's names to the solution's, if shapes, dtypes and first values agree in order."""
    if len(mine) != len(theirs):
        return None
    pairs = list(zip(theirs.items(), mine.items(), strict=True))
    if not all(_fit(a, b) and bool(((a == b) | ((a != a) & (b != b))).all()) for (_, a), (_, b) in pairs):
        return None
    return {a: b for (a, _), (b, _) in pairs}


def _for_every_name(found: dict[str, str], named: Any) -> dict[str, str]:
    """With the further names of what the task holds twice."""
    every = list(named)
    first = {id(tensor): found[name] for name, tensor in every if name in found}
    return {name: first[id(tensor)] for name, tensor in every if id(tensor) in first}


def _fit(a: torch.Tensor, b: torch.Tensor) -> bool:
    if isinstance(a, UninitializedTensorMixin) or isinstance(b, UninitializedTensorMixin):
        return False
    return a.shape == b.shape and a.dtype is b.dtype


def _unregistered(model: nn.Module, task: nn.Module) -> bool:
    """Whether the solution keeps tensors as plain attributes where the task's module of that name has none: weights, as likely as not."""
    twins = dict(task.named_modules())
    for path, module in model.named_modules():
        known = vars(twins[path]) if path in twins else {}
        for key, value in vars(module).items():
            if key not in _OWN_FIELDS and key not in known and any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
                return True
    return False
