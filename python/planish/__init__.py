"""Planish: a PyTorch program in, a faster and verified one out.

    import planish
    result = planish.optimize(module, (x,))    # searches, proves, attaches
    y = module(x)                              # runs the program
    planish.status(module)                     # in how many calls it did

The guide is docs/python.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from planish.errors import PlanishError as PlanishError
from planish.registration import announce as _announce

if TYPE_CHECKING:
    from planish.api import Optimized as Optimized
    from planish.api import Settings as Settings
    from planish.api import Status as Status
    from planish.api import detach as detach
    from planish.api import load as load
    from planish.api import optimize as optimize
    from planish.api import status as status
    from planish.dynamo import backend as backend
    from planish.functions import Function as Function
    from planish.recording import record as record
    from planish.ship.guards import FallbackWarning as FallbackWarning

__version__ = "0.1.0"

#: Where each public name lives.
_HOMES = dict.fromkeys(("Optimized", "Settings", "Status", "detach", "load", "optimize", "status"), "planish.api")
_HOMES |= {"Function": "planish.functions", "FallbackWarning": "planish.ship.guards", "backend": "planish.dynamo", "record": "planish.recording"}
__all__ = ["PlanishError", *_HOMES]


def __getattr__(name: str) -> Any:
    """Child processes import parts of this package in milliseconds; the public interface, which needs torch, loads on first use."""
    if name in _HOMES:
        import importlib

        try:
            return getattr(importlib.import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError("planish needs PyTorch 2.11 or newer, which is not installed here; a CPU build suffices (pip install torch)") from None
    raise AttributeError(f"module 'planish' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


_announce()
if _categories := os.environ.get("PLANISH_LOGS"):
    from planish.logs import show as _show

    _show(_categories)
