"""What code asks of the process around it, and what objects of the standard library hold: frozen where it can be, else named.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import abc
import ast
import builtins
import contextvars
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
#: Methods of tensors whose result may lie in the same memory.
_VIEWS = frozenset(
    """view view_as numpy detach reshape reshape_as t unbind split tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split unsafe_chunk chunk
    squeeze unsqueeze flatten unflatten ravel transpose permute movedim moveaxis swapaxes swapdims adjoint narrow select expand expand_as as_strided
    broadcast_to sum_to_size diagonal unfold view_as_real view_as_complex to cuda xpu to_dense type type_as float double half bfloat16 long int short
    char byte bool cfloat cdouble contiguous conj conj_physical resolve_conj resolve_neg positive pin_memory as_subclass rename refine_names align_to
    unsafe_split_with_sizes dequantize""".split()
)
_SAME_ON_CPU = frozenset(("cpu",))  # which copies from another device
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


def context_variables(function: types.FunctionType) -> list[contextvars.ContextVar[Any]]:
    """Those that a function loads by a global name, or that an object under such a name keeps."""
    loaded = [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
    kept = [value for thing in loaded if not isinstance(thing, types.ModuleType | type) for value in getattr(thing, "__dict__", {}).values()]
    return [value for value in (*loaded, *kept) if isinstance(value, contextvars.ContextVar)]


def whether_set(variable: contextvars.ContextVar[Any]) -> Question:
    """What asks whether a variable of the context holds something: a caller further out that records what hooks see."""
    return Question(f"whether the context variable {variable.name!r} is set", lambda: variable.get(None) is not None)


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


#: Names by which a tensor's memory is written, on whatever device, with no trace left in its version.
_SHARE_MEMORY = frozenset("data_ptr untyped_storage from_dlpack to_dlpack __dlpack__".split())
#: The same of tensors on the CPU alone: of others NumPy makes nothing, or copies.
_SHARE_ON_CPU = frozenset("numpy __array__ from_numpy asarray".split())
#: What has memory of its own wherever it is called, of tensors and of arrays.
_COPIES = frozenset("clone copy tolist item sum mean argmax argmin stack cat".split())
_OF_TENSORS = frozenset(dir(torch.Tensor))
_NAMESPACES = frozenset(("parse_args", "parse_known_args"))  # what they return holds no tensors' `.data`


@functools.cache
def writes_unseen(file: str, on_cpu: bool) -> str:
    """Where a file may write the memory of a tensor on the CPU, or on another device, past its version, through `.data`, DLPack or NumPy, as
    `train.py:12`; empty where it does not, and where there is no such file. What is read by one call alone (`x.data.norm()`), copied
    (`x.clone().numpy()`), compared, or computed with does not count, nor does what another name's `.data` hands on (`args.data`, of a name with
    attributes that no tensor has)."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    words = _SHARE_MEMORY | _SHARE_ON_CPU if on_cpu else _SHARE_MEMORY
    harmless, others = _harmless(tree, on_cpu), _no_tensors(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name in words for alias in node.names):
            return f"{os.path.basename(file)}:{node.lineno}"
        if not isinstance(node, ast.Attribute) or node in harmless:
            continue
        of_package = isinstance(node.value, ast.Name | ast.Attribute) and ast.unparse(node.value).endswith("utils")  # torch.utils.data
        handed_on = isinstance(node.value, ast.Name) and node.value.id in others
        if node.attr in words or (node.attr == "data" and not of_package and not handed_on):
            return f"{os.path.basename(file)}:{node.lineno}"
    return ""


def _harmless(tree: ast.AST, on_cpu: bool) -> set[ast.AST]:
    """Attributes that are only read, or have memory of their own."""
    found: set[ast.AST] = set()
    same = _VIEWS | _SAME_ON_CPU if on_cpu else _VIEWS
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method, of = node.func.attr, node.func.value
            if not method.endswith("_") and method not in same:
                found.add(of)  # x.data.norm()
            if method in _COPIES and isinstance(of, ast.Call):
                found.add(of.func)  # x.numpy().mean()
            if method == "numpy" and any(_is_copy(inner) for inner in _chain(of)):
                found.add(node.func)
        elif isinstance(node, ast.BinOp | ast.Compare):
            found |= {node.left, *(node.comparators if isinstance(node, ast.Compare) else (node.right,))}
        elif isinstance(node, ast.FormattedValue):
            found.add(node.value)
        elif isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            found.add(node.test)
    return found


def _chain(node: ast.AST) -> list[ast.AST]:
    """The calls of x.detach().clone(), the last one first."""
    found: list[ast.AST] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        found.append(node)
        node = node.func.value
    return found


def _is_copy(call: Any) -> bool:
    return call.func.attr in _COPIES and not any(word.arg in ("out", None) for word in call.keywords)


def _no_tensors(tree: ast.AST) -> set[str]:
    """Names whose `.data` is no tensor's: arguments that were parsed, and what has attributes that tensors have not, and whose `.data` is neither
    set, nor indexed, nor changed in place."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr not in _OF_TENSORS:
            found.add(node.value.id)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") in _NAMESPACES:
            found |= {target.id for target in ast.walk(node) if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)}
    for node in ast.walk(tree):
        of: Any = node.value if isinstance(node, ast.Subscript) else node.value if isinstance(node, ast.Attribute) and node.attr.endswith("_") else node
        written = of is not node or (isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load))
        if written and isinstance(of, ast.Attribute) and of.attr == "data" and isinstance(of.value, ast.Name):
            found.discard(of.value.id)
    return found


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
