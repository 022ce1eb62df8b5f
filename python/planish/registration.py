"""Makes `torch.compile(…, backend="planish")` known to torch without importing what it takes torch seconds to import.

An installed package is found through its entry point; this serves a checkout, and costs `import planish` nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAME = "planish"
_REGISTRY = "torch._dynamo.backends.registry"


class _Registrar(importlib.abc.MetaPathFinder):
    """Registers the backend when torch's registry is imported, which takes seconds and which `import planish` is not to wait for."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            _register(module)

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


def _register(registry: Any) -> None:
    if NAME not in registry._BACKENDS and NAME not in registry._COMPILER_FNS:
        from planish.dynamo import backend

        registry.register_backend(backend, name=NAME)


def announce() -> None:
    """Makes `backend="planish"` known to torch, now or when its registry is imported."""
    known = sys.modules.get(_REGISTRY)
    if known is not None:
        _register(known)
    elif not any(isinstance(finder, _Registrar) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Registrar())
