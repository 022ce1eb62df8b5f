"""What a caller sees of a call beside the values that it returns: memory that results share, and settings of the process that are left changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from planish.ship import wrapped

_INPUT, _STATE = "shares memory with an input", "shares memory with a parameter or buffer"
_ITSELF, GRADIENTS = "has elements that share one place in memory", "requires gradients"
_OTHER = "shares memory with another output"
ALL = frozenset({_INPUT, _STATE, _ITSELF, _OTHER, GRADIENTS})

#: Smaller than the least normal number of f32.
_DENORMAL = torch.tensor(1e-40)


def _modes() -> list[str]:
    """Of torch's functions and operators, the modes that answer in their place."""
    stacks = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
    return [type(mode).__name__ for mode in stacks]


_SETTINGS: dict[str, Callable[[], Any]] = {
    "the default dtype": torch.get_default_dtype,
    "the default device": torch.get_default_device,
    "the mode for deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "autocast": torch.is_autocast_enabled,
    "autocast on the CPU": lambda: torch.is_autocast_enabled("cpu"),
    "inference mode": torch.is_inference_mode_enabled,
    "torch's number of threads": torch.get_num_threads,
    "the flushing of denormal numbers": lambda: not bool(_DENORMAL * 1 != 0),
    "modes of torch": _modes,
}


def bonds(result: Any, inputs: Iterable[Any], model: nn.Module) -> frozenset[str]:
    """What a result has to do with what was there before the call. In words; a result that is a parameter requires gradients by right."""
    if not isinstance(result, torch.Tensor) or result.layout is not torch.strided or not result.numel():
        return frozenset()
    found = set()
    memory = result.untyped_storage().data_ptr()
    if any(isinstance(t, torch.Tensor) and t.layout is torch.strided and t.untyped_storage().data_ptr() == memory for t in inputs):
        found.add(_INPUT)
    if any(t.untyped_storage().data_ptr() == memory for t in wrapped.state(model)):
        found.add(_STATE)
    if any(size > 1 and stride == 0 for size, stride in zip(result.shape, result.stride(), strict=True)):
        found.add(_ITSELF)
    if result.requires_grad:
        found.add(GRADIENTS)
    return frozenset(found)


def bonds_between(results: dict[int, Any]) -> dict[int, frozenset[str]]:
    """Of results by their places, those that have an element in common with an earlier one: who writes into one of them changes both."""
    held: dict[int, list[tuple[int, torch.Tensor]]] = {}
    for place, result in results.items():
        if isinstance(result, torch.Tensor) and result.layout is torch.strided and result.numel():
            held.setdefault(result.untyped_storage().data_ptr(), []).append((place, result))
    found = {}
    for some in (some for some in held.values() if len(some) > 1):
        taken = torch.zeros(some[0][1].untyped_storage().nbytes(), dtype=torch.bool, device=some[0][1].device)
        for place, result in some:
            size = result.element_size()
            strides = [stride * size for stride in result.stride()]
            own = torch.as_strided(taken, (*result.shape, size), (*strides, 1), result.storage_offset() * size)
            if bool(own.any()):
                found[place] = frozenset({_OTHER})
            own.fill_(True)
    return found


def settings() -> dict[str, Any]:
    return {name: ask() for name, ask in _SETTINGS.items()}


def changed(before: dict[str, Any]) -> str | None:
    """In words, a setting of the process that is not what it was."""
    if torch.is_grad_enabled():  # no call here is made so
        return "the recording of gradients on"
    for name, ask in _SETTINGS.items():
        if (now := ask()) != before[name]:
            return f"{name} at {now}"
    return None
