"""What code asks of the process around it, and what objects of the standard library hold: frozen where it can be, else named.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import abc
import ast
import builtins
import copyreg
import datetime
import decimal
import fractions
import functools
import gc
import io
import linecache
import multiprocessing
import operator
import os
import pathlib
import re
import threading
import types
import uuid
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
    **dict.fromkeys((threading.current_thread, threading.main_thread, threading.get_ident, threading.get_native_id), "which thread calls"),
    **dict.fromkeys((threading.active_count, multiprocessing.current_process, os.getpid), "who else runs"),
}
_VARIABLES = type(os.environ)
#: Classes of compiled code whose objects never change.
_NEVER_CHANGE: tuple[type, ...] = (
    *(decimal.Decimal, datetime.timedelta, datetime.date, datetime.time, datetime.tzinfo, re.Pattern, re.Match, BaseException),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller, functools.partial, pathlib.PurePath, fractions.Fraction, uuid.UUID),
)
_OF_FILES = frozenset("open read_text read_bytes exists is_file is_dir stat iterdir glob rglob".split())  # methods of paths
#: Methods whose result lies in the same memory.
_VIEWS = frozenset("view numpy detach reshape t unbind split chunk squeeze unsqueeze flatten transpose permute narrow select expand".split())
_LINK = "_lru_list_elem"  # of caches with a limit


class Question:
    """What a call asks in place of a function without arguments; `told` are its words."""

    def __init__(self, told: str, ask: Callable[[], Any]) -> None:
        self.told, self._ask = told, ask

    def __call__(self) -> Any:
        return self._ask()


def told(function: Any) -> str:
    """What is asked, in words."""
    return function.told if isinstance(function, Question) else f"{getattr(function, '__name__', 'torch')}()"


def _rounding(context: decimal.Context) -> tuple[Any, ...]:
    """Of a decimal context all but what it notes of calculations."""
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, *context.traps.values()


#: How decimal numbers are rounded, for whoever calls.
DECIMAL_CONTEXT = Question("decimal.getcontext()", lambda: _rounding(decimal.getcontext()))


class _Registered:
    """The classes that stand for an abstract one, or for one derived from it, without deriving from it themselves."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._when: object = None
        self._found: tuple[str, ...] = ()

    def __call__(self) -> tuple[str, ...]:
        if (now := abc.get_cache_token()) != self._when:  # which counts registrations
            self._when, self._found = now, tuple(sorted(self._of(self._cls)))
        return self._found

    def _of(self, cls: type) -> set[str]:
        dump = getattr(abc, "_get_dump", None)
        registry = dump(cls)[0] if dump is not None else ()
        found = {f"{known.__module__}.{known.__qualname__}" for ref in registry if (known := ref()) is not None}
        derived: list[type] = type.__subclasses__(cls)
        return found.union(*(self._of(inner) for inner in derived if isinstance(inner, abc.ABCMeta)))


def registered(cls: type) -> Question | None:
    """What asks for the classes that somebody registered with an abstract one."""
    return Question(f"for the classes registered with {cls.__name__}", _Registered(cls)) if isinstance(cls, abc.ABCMeta) else None


def compared(value: Any) -> Question | None:
    """What asks an object of compiled code of the standard library that may change (a decimal.Context) for what it is made of; None of those
    that never change."""
    return None if isinstance(value, _NEVER_CHANGE) else Question(f"what a {type(value).__name__} is made of", lambda: parts(value))


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


#: Methods by which a tensor's memory is written with no trace left in its version.
_SHARES_MEMORY = frozenset("numpy data_ptr untyped_storage __array__ from_numpy from_dlpack".split())


@functools.cache
def writes_unseen(file: str) -> str:
    """Where a file may write a tensor's memory past its version, through `.data` or NumPy, as `train.py:12`; empty where it does not, and where
    there is no such file. What only reads (`x.data.cpu()`) counts as well, unless it is one call that does not write in place."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    harmless: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.func.attr.endswith("_") and node.func.attr not in _VIEWS:
            harmless.add(node.func.value)  # x.data.clone()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node in harmless:
            continue
        of_package = isinstance(node.value, ast.Name | ast.Attribute) and ast.unparse(node.value).endswith("utils")  # torch.utils.data
        if node.attr in _SHARES_MEMORY or (node.attr == "data" and not of_package):
            return f"{os.path.basename(file)}:{node.lineno}"
    return ""


def span(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to its last."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size() if tensor.numel() else 0


def parts(value: Any) -> tuple[Any, ...] | None:
    """What an object of the standard library is made of, as its copies would be: a Decimal of its digits, an attrgetter of its names. None where
    that cannot be told."""
    if isinstance(value, decimal.Context):
        return _rounding(value)
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
