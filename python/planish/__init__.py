"""Planish: a PyTorch program in, a faster and verified one out.

    import planish
    faster = planish.optimize(module, (x,)).module
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planish.api import Optimized as Optimized
    from planish.api import load as load
    from planish.api import optimize as optimize

__version__ = "0.1.0"
__all__ = ["Optimized", "load", "optimize"]


def __getattr__(name: str) -> Any:
    """Child processes import parts of this package in milliseconds; the public interface, which needs torch, loads on first use."""
    if name in __all__:
        from planish import api

        return getattr(api, name)
    raise AttributeError(f"module 'planish' has no attribute {name!r}")
