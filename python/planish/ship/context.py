"""Where a call is made: whether anything around it is such that the original code must run.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import torch
from torch import nn

FALLBACK = object()  #: what a program answers to a call that it was not made for

_autocast = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_mode = torch._C._is_torch_function_mode_enabled
_transforms = torch._C._functorch.peek_interpreter_stack
_tracing = torch._C._get_tracing_state
_deterministic = torch._C._get_deterministic_algorithms
_module_globals = nn.modules.module
_forward_ad = torch.autograd.forward_ad

QUESTIONS = (_autocast, _transforms, _dispatch_modes, _tracing, _deterministic, _function_mode)  #: as the C form asks them: all must be false
HOOKS = tuple(vars(_module_globals)[f"_global_{kind}"] for kind in ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks"))  #: all empty
OWN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")  #: the same of one module, by name
FORWARD_AD = vars(_forward_ad)


class FallbackWarning(UserWarning):
    """A call ran the module's own code where a program is attached. Given once for each reason."""


def context_is_plain(device: str = "") -> bool:
    """False under autocast, vmap and other transforms, tracing, dispatch modes, forward-mode AD, or where a user asked for
    deterministic algorithms: there the original code runs. `device`: the kind that a program is for."""
    return not (
        _autocast()
        or _transforms() is not None
        or _dispatch_modes()
        or _tracing() is not None
        or _deterministic()
        or _forward_ad._current_level >= 0
        or _module_globals._global_forward_hooks
        or _module_globals._global_forward_pre_hooks
        or (_function_mode() and not _only_device_modes(device))
    )


def has_hooks(module: nn.Module) -> bool:
    """Whether the module has hooks of its own, which its `__call__` runs around `forward`."""
    known = vars(module)
    return any(known.get(name) for name in OWN_HOOKS)


def describe() -> str:
    """What about the context is not plain, in words."""
    found = {
        "autocast is on": _autocast(),
        "a transform such as vmap or grad is active": _transforms() is not None,
        "the call is being traced": _tracing() is not None,
        "a dispatch or function mode is active": _dispatch_modes() or _function_mode(),
        "deterministic algorithms were asked for": _deterministic(),
        "forward-mode AD is active": _forward_ad._current_level >= 0,
    }
    return next((text for text, there in found.items() if there), "global module hooks are registered")


def _only_device_modes(device: str) -> bool:
    """`torch.set_default_device` and `with torch.device(…)` are function modes too, and change nothing where they name the program's own kind."""
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._device import DeviceContext

    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return all(isinstance(mode, DeviceContext) and device in ("", torch.device(mode.device).type) for mode in modes)
