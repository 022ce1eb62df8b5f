"""What code asks of the process around it, and what objects of the standard library hold: frozen where it can be, else named.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import gc
import io
import os
import pathlib
import types
from collections.abc import Callable
from typing import Any

import torch

#: A program was captured and proved under no_grad: what else these answer is another call.
CAPTURED_UNDER: dict[Any, Any] = {torch.is_grad_enabled: False, torch.is_inference_mode_enabled: False}
#: Settings that a call can ask for in no time; they are compared with what they were.
_SETTINGS: tuple[Any, ...] = (torch.get_num_threads, torch.get_num_interop_threads, torch.get_float32_matmul_precision, torch.get_default_device)
#: What answers by a state that nothing here can compare.
_UNSEEN: dict[Any, str] = {
    **dict.fromkeys((torch.initial_seed, torch.seed, torch.get_rng_state, torch.random.get_rng_state, torch.random.initial_seed), "random numbers"),
    **dict.fromkeys((builtins.open, io.open, os.open, torch.load), "a file"),
    builtins.input: "what somebody types",
}
_VARIABLES = type(os.environ)
_OF_FILES = frozenset("open read_text read_bytes exists is_file is_dir stat iterdir glob rglob".split())  # methods of paths
_LINK = "_lru_list_elem"  # of caches with a limit


def question(function: Any) -> tuple[bool, Any]:
    """Whether a function asks for a setting that can be compared at each call, and what it answered where the program was captured."""
    try:
        if function in CAPTURED_UNDER:
            return True, CAPTURED_UNDER[function]
        return (True, function()) if function in _SETTINGS else (False, None)
    except TypeError:  # it has no hash
        return False, None


def unseen(function: Any) -> str:
    """In words, what a function reads that nothing here can compare; empty where it does not."""
    try:
        return _UNSEEN.get(function, "")
    except TypeError:
        return ""


def reads_files(cls: type, spelled: frozenset[str]) -> bool:
    """Whether code that mentions these names may ask a path of this class for what lies there."""
    return issubclass(cls, pathlib.Path) and not spelled.isdisjoint(_OF_FILES)


def flag(module: types.ModuleType, key: str) -> Callable[[], Any] | None:
    """What asks for a setting that torch shows as an attribute of a module (torch.backends.mkldnn.enabled); None where it is none."""
    prop = next((vars(base)[key] for base in type(module).__mro__ if key in vars(base)), None) if type(module) is not types.ModuleType else None
    getter = getattr(prop, "getter", None)
    return getter if callable(getter) else None


def variables(thing: Any) -> dict[Any, Any] | None:
    """The dictionary behind os.environ, with its keys and values as the system has them; None of anything else."""
    return vars(thing)["_data"] if isinstance(thing, _VARIABLES) else None


def variable_key(name: str) -> Any:
    return vars(os.environ)["encodekey"](name)


def parts(value: Any) -> tuple[Any, ...] | None:
    """What an object of the standard library is made of, as its copies would be: a Decimal of its digits, an attrgetter of its names. None where
    that cannot be told."""
    try:
        reduced = copyreg.dispatch_table.get(type(value))
        made = reduced(value) if reduced is not None else value.__reduce_ex__(2)
    except Exception:
        return None
    return made[1:3] if isinstance(made, tuple) else None


def is_cache(value: Any) -> bool:
    return isinstance(value, functools._lru_cache_wrapper)


def cached(wrapper: Any) -> list[tuple[dict[Any, Any], Any, Any, Any]]:
    """What functools.lru_cache keeps: a dictionary, a key, what lies there, and the result."""
    found = gc.get_referents(wrapper)
    kept = next((thing for thing in found if type(thing) is dict and thing is not vars(wrapper)), {})
    if not any(type(link).__name__ == _LINK for link in kept.values()):
        return [(kept, key, result, result) for key, result in kept.items()]
    keys = {id(key) for key in kept}
    ends = [k for k in range(2, len(found)) if isinstance(found[k], type) and found[k].__name__ == _LINK]
    results = {id(found[k - 2]): found[k - 1] for k in ends if id(found[k - 2]) in keys}  # a link holds its key, its result, and its class
    return [(kept, key, link, results[id(key)]) for key, link in kept.items() if id(key) in results]
