"""Pickling a user's module for other processes of the same Python.

Classes and functions of a script, a notebook or another function have no name that another process could import: cloudpickle, where
it is installed, writes their code into the pickle. Without it they are refused, and the caller has another form of the module.
"""

from __future__ import annotations

import copyreg
import dataclasses
import marshal
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import parametrize

from planish.capture import weights

try:
    from cloudpickle import Pickler as _Base
except ImportError:
    from pickle import Pickler as _Base

#: What an attached program adds to a module's own dictionary (ship/live.py).
ATTACHED = "_planish"


class Pickler(_Base):  # type: ignore[misc,valid-type]
    """Writes modules that carry a program as the modules they were before."""

    def reducer_override(self, obj: Any) -> Any:
        original = getattr(type(obj), "_planish_original", None)
        if original is not None and isinstance(obj, torch.nn.Module):
            return copyreg.__newobj__, (original,), {k: v for k, v in vars(obj).items() if not k.startswith(ATTACHED)}  # type: ignore[attr-defined]
        if type(obj) is torch.Tensor and (large := weights.reduced(obj)) is not None:
            return large
        if isinstance(obj, torch.nn.Module) and parametrize.is_parametrized(obj):  # of a class that torch made for it alone, and refuses to pickle
            return _parametrized, (type(obj).__bases__[0], list(obj.parametrizations)), vars(obj)  # type: ignore[arg-type]
        # The marks inside a dataclass are compared by identity.
        if isinstance(obj, dataclasses._FIELD_BASE):  # type: ignore[attr-defined]
            return getattr, (dataclasses, obj.name)
        if obj is dataclasses.MISSING:
            return getattr, (dataclasses, "MISSING")
        # Newer cloudpickle (3.1.3) leaves the file out, without which no line of the user's can be named.
        if isinstance(obj, types.CodeType) and _Base is not pickle.Pickler:
            return marshal.loads, (marshal.dumps(obj),)
        more = getattr(super(), "reducer_override", None)
        return NotImplemented if more is None else more(obj)


def _parametrized(cls: type[torch.nn.Module], names: list[str]) -> torch.nn.Module:
    """A module of the class as torch.nn.utils.parametrize makes it, still without what it holds."""
    module = object.__new__(cls)
    parametrize._inject_new_class(module)
    for name in names:
        parametrize._inject_property(module, name)
    return module


Unpickler, load, loads, dump, dumps = pickle.Unpickler, pickle.load, pickle.loads, pickle.dump, pickle.dumps  # what torch.save asks of a pickle module


def save(thing: Any, path: Path, beside: Path | None = None) -> bool:
    """Whether `thing`, tensors and all, could be written to `path`, large ones of a GPU to `beside` (weights.py). What is half written is removed."""
    try:
        with weights.collected(beside):
            torch.save(thing, path, pickle_module=sys.modules[__name__])
    except Exception:  # whatever a class of the user's raises when asked for its state
        for half in filter(None, (path, beside)):
            half.unlink(missing_ok=True)
        return False
    return True
