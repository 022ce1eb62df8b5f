"""Hooks that are part of what a module is, and not somebody's who watches it: torch's own, which compute a weight anew before each call, and those
that a model's own package registers.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from planish.ship import names
else:
    names = importlib.import_module(__name__.removesuffix("hooks") + "names")


def weight_hooks(module: nn.Module) -> dict[str, Any]:
    """Hooks of torch's own that compute an attribute anew before each call, by its name: what they do is part of what was captured."""
    from torch.nn.utils.prune import BasePruningMethod
    from torch.nn.utils.spectral_norm import SpectralNorm
    from torch.nn.utils.weight_norm import WeightNorm

    hooks = [h for h in module._forward_pre_hooks.values() if isinstance(h, SpectralNorm | WeightNorm | BasePruningMethod)]
    return {vars(hook).get("name") or vars(hook)["_tensor_name"]: hook for hook in hooks}


def package_hooks(module: nn.Module) -> tuple[Any, ...]:
    """Hooks behind a module's forward that its class's own package registered, as transformers does where hidden states are asked for: code of
    the package that a call runs, like its modules' forwards."""
    home = type(module).__module__.partition(".")[0]
    return tuple(h for h in module._forward_hooks.values() if isinstance(h, types.FunctionType) and _is_of(h, home))


def _is_of(function: types.FunctionType, package: str) -> bool:
    return (function.__module__ or "").partition(".")[0] == package and names.whose(function.__code__.co_filename) == "installed"
