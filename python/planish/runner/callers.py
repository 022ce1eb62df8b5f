"""Callers that have torch in another state than the one in which modules are proved and timed (`no_grad`): a module's answer is not theirs to change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

#: What a `run` request names. `recorded`: gradients are recorded, the inputs ask for none. `differentiated`: the inputs do.
#: `inference`: inference mode, with inputs that were made in it.
CALLERS = ("recorded", "differentiated", "inference")
_COPIED = 1 << 30  # bytes of an input up to which it is made anew for inference


def state_of(caller: str) -> contextlib.AbstractContextManager[Any]:
    return torch.inference_mode() if caller == "inference" else torch.enable_grad()


def inputs_of(caller: str, leaves: list[Any], kept: Iterable[int]) -> list[Any]:
    """The leaves of a call as that caller would have them; those at `kept`, which the call changes, as they are."""
    as_they_are = set(kept)
    return [leaf if position in as_they_are else _as_given(caller, leaf) for position, leaf in enumerate(leaves)]


def _as_given(caller: str, leaf: Any) -> Any:
    if type(leaf) is not torch.Tensor or leaf.layout is not torch.strided:
        return leaf
    if caller == "differentiated" and (leaf.is_floating_point() or leaf.is_complex()):
        return leaf.detach().requires_grad_()
    if caller == "inference" and leaf.untyped_storage().nbytes() <= _COPIED:
        with torch.inference_mode():
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device).copy_(leaf)
    return leaf
