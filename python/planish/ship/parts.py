"""What a module consists of, in words that travel with a program (ship.json), and how another one differs.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import importlib
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from planish.ship import names, reach
else:
    names, reach = (importlib.import_module(__name__.removesuffix("parts") + part) for part in ("names", "reach"))


def configuration(module: nn.Module) -> dict[str, Any]:
    """What a module is, as it travels in the manifest of a live one: class and mode of each part, and under the empty name what its forward can
    reach (reach.py), the sources of the functions among that, and the code of those of installed packages."""
    found: dict[str, Any] = {name: {"type": type(child).__name__, "training": child.training} for name, child in module.named_modules()}
    state = reach.reach(module)
    sources = {path: names.source_digest(function) for path, function in state.functions.items()}
    packages = {path: names.digest(function.__code__, function.__doc__) for path, function in state.packaged.items()}
    found[""] |= {"python": sys.implementation.cache_tag, "reached": state.tokens, "sources": sources, "packages": packages}
    return found


def unlike(captured: dict[str, Any], found: dict[str, Any]) -> str:
    """How a module's configuration differs from a captured one but for its mode, in one sentence; empty if it does not."""
    for name in sorted(captured.keys() | found.keys()):
        what = f"the module's part '{name}'" if name else "the module"
        then, now = captured.get(name), found.get(name)
        if then is None or now is None:
            return f"{what} was not there when it was captured" if then is None else f"{what} is gone since it was captured"
        if then["type"] != now["type"]:
            return f"{what} is a {now['type']}, captured was a {then['type']}"
    then, now = captured[""], found[""]
    if "reached" not in then:
        return "what it was captured with was not written down by the earlier version that made this folder"
    if then["python"] == now["python"]:
        return reach.unlike(then["reached"], now["reached"]) or _unlike_packages(then["packages"], now["packages"])
    # Bytecode of another version of Python says nothing; the sources do.
    functions = sorted(then["sources"].keys() | now["sources"].keys())
    for path in functions:
        was, given = then["sources"].get(path, ""), now["sources"].get(path, "")
        if not was or not given:
            return f"the code of '{path}' cannot be compared: it was captured under {then['python']}, this is {now['python']}, and one of them had no source"
        if was != given:
            return f"the code of '{path}' is another than was captured"
    return reach.unlike(*({k: v for k, v in side["reached"].items() if k not in functions} for side in (then, now)))


def _unlike_packages(then: dict[str, str], now: dict[str, str]) -> str:
    """Of functions that both found: registries of a package may hold others in another process."""
    for path in sorted(then.keys() & now.keys()):
        if then[path] != now[path]:
            return f"the code of '{path}' is another than was captured: its package has another version"
    return ""


_reads_mode: dict[type, bool] = {}


def reads_mode(cls: type) -> bool:
    """Whether the code of a module's class asks for its `training` flag anywhere; if not, train() and eval() change nothing.
    Functions that it calls by a global name count, unless they are torch's own (these get the flag as an argument)."""
    if cls not in _reads_mode:
        plain = not issubclass(cls, torch.jit.ScriptModule)
        ours = [base for base in cls.__mro__ if names.own_of_planish(base)]
        functions = [f for base in cls.__mro__ if base not in (nn.Module, object, *ours) for f in vars(base).values()]
        _reads_mode[cls] = not plain or "training" in _names_in([names.plain_function(f) for f in functions])
    return _reads_mode[cls]


_SETUP = {"__init__", "__setstate__", "__repr__", "extra_repr", "reset_parameters", "_load_from_state_dict"}  # never part of a call


def _names_in(functions: list[Any]) -> set[str]:
    """Names and strings in the code of functions, and of those that they call by a global name but for torch's own."""
    found: set[str] = set()
    seen: set[CodeType] = set()
    todo = [(f.__code__, f.__globals__) for f in functions if f is not None]
    while todo:
        code, known = todo.pop()
        if code in seen:
            continue
        seen.add(code)
        found.update(code.co_names, (c for c in code.co_consts if isinstance(c, str)))
        todo += [(c, known) for c in code.co_consts if isinstance(c, CodeType)]
        called = [names.plain_function(known.get(name)) for name in code.co_names]
        todo += [(f.__code__, f.__globals__) for f in called if f is not None and not f.__module__.startswith("torch.")]
    return found


def tied(module: nn.Module) -> list[list[str]]:
    """Groups of names under which a module keeps one and the same tensor."""
    names: dict[int, list[str]] = {}
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        names.setdefault(id(tensor), []).append(name)
    return [group for group in names.values() if len(group) > 1]
