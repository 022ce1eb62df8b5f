"""Loads what was shipped: a folder as a module of its own, or a program onto a live module.

`load(folder)` gives a `ModelNew` as the folder's own module.py would. `load(folder, module)` puts the program in front of the
forward of a module that the caller already has (the form that `planish.optimize(module, inputs)` ships).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from planish import executor
from planish.errors import PlanishError
from planish.ship import guards


def load_module_file(path: Path, prefix: str = "planish_shipped") -> ModuleType:
    """Imports a Python file under a name that depends on its path only, so that what it defines can be pickled.

    Raises whatever the file raises."""
    name = f"{prefix}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PlanishError("not_python", f"{path}: cannot be imported as Python", "give a .py file or a shipped folder")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def load(path: str | Path, module: nn.Module | None = None) -> nn.Module:
    """The shipped model at `path`; with a `module`, that same module with the program attached (changed in place).

    Raises PlanishError: not_shipped, already_attached."""
    folder = Path(path).resolve()
    if not (folder / "ship.json").exists():
        raise PlanishError("not_shipped", f"{folder}: no shipped folder (it has no ship.json)", "give the folder that `planish optimize --out` wrote")
    if module is not None:
        return attach(folder, module)
    if not (folder / "reference.py").exists():
        raise PlanishError("not_shipped", f"{folder}: made from a live module", "call planish.load(folder, module) with that module")
    loaded: nn.Module = load_module_file(folder / "module.py").load()
    return loaded


def attach(folder: Path, module: nn.Module) -> nn.Module:
    """Gives `module` a class that asks the program first. The class keeps the original's name; copies and pickles work."""
    if hasattr(type(module), "_planish_folder"):
        raise PlanishError("already_attached", f"{type(module).__name__} already has a program", "call planish.detach(module) first")
    try:
        shipped = guards.Shipped(guards.Folder(folder), executor)
    except (OSError, ValueError, KeyError) as error:
        raise PlanishError("not_shipped", f"{folder}: {error}", "ship it again") from error
    original = type(module)
    module.__dict__["_planish"] = guards.attach(shipped, module, original)
    module.__class__ = _attached_class(original, str(folder))
    return module


def detach(module: nn.Module) -> nn.Module:
    """Takes the program off again."""
    original = getattr(type(module), "_planish_original", None)
    if original is not None:
        module.__class__ = original
        module.__dict__.pop("_planish", None)
    return module


_classes: dict[tuple[type, str], type] = {}


def _attached_class(original: type[nn.Module], folder: str) -> type[nn.Module]:
    key = (original, folder)
    if key in _classes:
        return _classes[key]

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            fast = getattr(self.__dict__.get("_planish"), "fast", None)
            if fast is not None:
                result = fast(self, args, kwargs)
                if result is not guards.FALLBACK:
                    return result
        return original.__call__(self, *args, **kwargs)

    @functools.wraps(original.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            planish = self.__dict__.get("_planish")
            if planish is not None:
                result = planish(self, args, kwargs)
                if result is not guards.FALLBACK:
                    return result
        return original.forward(self, *args, **kwargs)

    def set_attribute(self: nn.Module, name: str, value: Any) -> None:
        planish = self.__dict__.get("_planish")
        if planish is not None and name != "training":
            planish.changed(self, name, value)
        original.__setattr__(self, name, value)

    def reduce(self: nn.Module, protocol: Any) -> Any:
        return _unpickle, (original, folder), dict(vars(self))

    body = {"__call__": call, "forward": forward, "__setattr__": set_attribute, "__reduce_ex__": reduce, "_planish_folder": folder,
            "_planish_original": original, "__module__": original.__module__, "__qualname__": original.__qualname__,
            "__doc__": original.__doc__}  # fmt: skip
    made = type(original.__name__, (original,), body)
    _classes[key] = made
    return made


def _unpickle(original: type[nn.Module], folder: str) -> nn.Module:
    """An empty module of the attached class; its state follows. A folder that is gone leaves the original code running."""
    if folder not in guards.shipped and (Path(folder) / "ship.json").exists():
        guards.Shipped(guards.Folder(Path(folder)), executor)
    attached = _attached_class(original, folder)
    module: nn.Module = attached.__new__(attached)
    return module
