"""Inputs that a call changes: given back their contents between calls, so that each module is timed, and compared, on the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from planish.ship.watch import Watch

Leaves = list[torch.Tensor]


def tensors(tree: Any) -> Leaves:
    """The tensors of a nesting, in order."""
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


class InPlace:
    """Which of the inputs calls change, and their contents in each set as they were made. Empty until a call changed one."""

    def __init__(self) -> None:
        self.places: set[int] = set()
        self._kept: dict[int, Leaves] = {}
        self._objects: dict[int, Watch] = {}

    def watched(self, inputs: Any, call: Callable[[], Any], remade: Callable[[], Any]) -> Any:
        """The result of a call on set 0, whose `inputs` get their contents back (of `remade()`, the same set anew) where it changed some that no call
        changed before."""
        leaves = tensors(inputs)
        before = [t._version for t in leaves]
        objects = Watch(*inputs)
        result = call()
        objects.restore()
        changed = {k for k, t in enumerate(leaves) if t._version != before[k]}
        if not changed <= self.places:
            self.places |= changed
            self._kept = {}
            result = pytree.tree_map_only(torch.Tensor, torch.clone, result)
            for old, new in zip(leaves, tensors(remade()), strict=True):
                old.copy_(new)
        return result

    def restore(self, k: int, inputs: Any) -> None:
        """Before a call on set `k`. The first time its contents are kept: no call has changed them yet."""
        if k in self._objects:
            self._objects[k].restore()
        else:
            self._objects[k] = Watch(*inputs)
        if not self.places:
            return
        leaves = tensors(inputs)
        kept = self._kept.get(k)
        if kept is None:
            self._kept[k] = [leaves[place].clone() for place in sorted(self.places)]
            return
        for place, contents in zip(sorted(self.places), kept, strict=True):
            leaves[place].copy_(contents)

    def outcome(self, inputs: Any, result: Any) -> list[Any]:
        """What a call returned and what it left in the inputs that it changes, as leaves that later calls do not change."""
        if not self.places:
            return list(pytree.tree_leaves(result))
        leaves = tensors(inputs)
        made = [t.clone() if isinstance(t, torch.Tensor) else t for t in pytree.tree_leaves(result)]
        return made + [leaves[place].clone() for place in sorted(self.places)]
