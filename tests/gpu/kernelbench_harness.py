"""Imports the evaluation of a KernelBench checkout as it is.

The checkout's helpers also import clients of language models and progress bars, which evaluating needs none of: where such a package
is not installed, an empty stand-in takes its place. What evaluates is the checkout's own code.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any


class _Fields:
    """As much of pydantic's BaseModel as a result record uses."""

    def __init__(self, **given: Any) -> None:
        for cls in reversed(type(self).__mro__):
            for name in getattr(cls, "__annotations__", {}):
                if hasattr(cls, name):
                    setattr(self, name, copy.deepcopy(getattr(cls, name)))
        for name, value in given.items():
            setattr(self, name, value)


_STAND_INS: dict[str, dict[str, Any]] = {
    "openai": {"OpenAI": object},
    "litellm": {"completion": None},
    "tqdm": {"tqdm": lambda items, *args, **kwargs: items},
    "dotenv": {"load_dotenv": lambda *args, **kwargs: False},
    "requests": {},
    "pydantic": {"BaseModel": _Fields},
}


def load(checkout: Path) -> Any:
    """The module `kernelbench.eval` of the checkout. Raises FileNotFoundError where it is none, ImportError where it lacks more."""
    source = checkout / "src"
    if not (source / "kernelbench" / "eval.py").exists():
        raise FileNotFoundError(f"{checkout} is no checkout of KernelBench: it has no src/kernelbench/eval.py")
    for name, members in _STAND_INS.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            stand_in = types.ModuleType(name)
            vars(stand_in).update(members)
            sys.modules[name] = stand_in
    if str(source) not in sys.path:
        sys.path.insert(0, str(source))
    return importlib.import_module("kernelbench.eval")
