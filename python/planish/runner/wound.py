"""Counts and clocks of a solution, moved on as if it had been called for long.

A solution may be right for as many calls as a proof has, or for as long as one takes, and not later. Calling it a million times, or for a
year, costs too much. So the numbers that it keeps are read after calls, and those that grow by the same at each are moved on by very many
calls; the clocks that Python has are moved on by years. What it then answers is judged like any other answer, so that counting harms nobody
who only counts.
"""

from __future__ import annotations

import ctypes
import datetime
import itertools
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

_MOST_THINGS, _MOST_ITEMS, _MOST_LOOKS = 30_000, 512, 48
_LEAST_LOOKS, _LEAST_CALLS = 5, 12  # before a number counts as one that grows with each call
_FOREIGN = ("site-packages", "dist-packages")
_Put = Callable[[Any], None] | None

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


class Wound:
    """What `model`, a solution of `file`, keeps from call to call."""

    def __init__(self, model: nn.Module, file: Path) -> None:
        self._model, self._folder = model, file.resolve().parent
        self._seen: dict[str, list[tuple[int, float]]] = {}
        self._grows: dict[str, float] = {}
        self._looks, self._turned = 0, False
        self._put_back, self._owners, self._restored = 0, set[int](), set[str]()

    def put_back(self, owners: Iterable[dict[str, Any]]) -> None:
        """After a call behind which all that these hold is as before it: it counts for other places alone."""
        self._put_back += 1
        self._owners |= {id(owner) for owner in owners}

    def look(self, calls: int) -> None:
        """After so many calls."""
        if self._looks >= _MOST_LOOKS or self._turned:
            return
        self._looks += 1
        for where, value, put in self._slots():
            number = _number(value)
            if number is not None and (put is not None or isinstance(value, torch.Tensor | ctypes._SimpleCData)):
                known = self._seen.setdefault(where, [])
                counted = calls - self._put_back if where in self._restored else calls
                if not known or known[-1][0] < counted:
                    known.append((counted, number))

    def wind(self, calls: int) -> list[str]:
        """Moves counts on by so many calls, and clocks by years. In words, what was counted."""
        moved = []
        if not self._turned:
            slopes = {where: _slope(known) for where, known in self._seen.items()}
            self._grows = {where: slope for where, slope in slopes.items() if slope}
        for where, value, put in list(self._slots()):
            slope = self._grows.get(where, 0)
            if slope and _number(value) is not None:
                _move(value, put, slope * calls)
                moved.append(f"{where} (by {slope:g} a call)")
        if not self._turned:
            self._turn_clocks(random.uniform(1, 10) * 365 * 86400)
        self._turned = True
        return moved

    def _turn_clocks(self, seconds: float) -> None:
        turned: dict[int, Any] = {}
        for name in _CLOCKS:
            for full, scale in ((name, 1.0), (f"{name}_ns", 1e9)):
                original = getattr(time, full)
                turned[id(original)] = later(original, int(seconds * scale) if scale > 1 else seconds)
                setattr(time, full, turned[id(original)])
        turned[id(datetime.datetime)] = later_date(datetime.datetime, seconds)
        for _, value, put in list(self._slots()):  # imported by name
            if put is not None and id(value) in turned:
                put(turned[id(value)])
        datetime.datetime = turned[id(datetime.datetime)]  # type: ignore[misc]

    def _slots(self) -> Iterator[tuple[str, Any, _Put]]:
        """(where, what lies there, how to put something else there), of all that the solution's own code can keep."""
        seen: set[int] = set()
        ahead: deque[tuple[str, Any]] = deque([("self", self._model)])
        while ahead and len(seen) < _MOST_THINGS:
            at, thing = ahead.popleft()
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            for name, value, put in self._parts(thing):
                if id(thing) in self._owners:
                    self._restored.add(f"{at}{name}")
                yield f"{at}{name}", value, put
                if self._is_walked(value):
                    ahead.append((f"{at}{name}", value))

    def _is_walked(self, value: Any) -> bool:
        if isinstance(value, dict | list | tuple | deque | nn.Module | CellType | SimpleNamespace | MethodType):
            return True
        if isinstance(value, FunctionType):
            return self._is_own(value.__globals__.get("__file__"))
        if isinstance(value, type):
            return self._is_own_module(value.__module__)
        return hasattr(value, "__dict__") and not isinstance(value, ModuleType) and self._is_own_module(type(value).__module__)

    def _is_own_module(self, name: Any) -> bool:
        return self._is_own(getattr(sys.modules.get(name), "__file__", None)) if isinstance(name, str) else False

    def _is_own(self, file: Any) -> bool:
        if not isinstance(file, str) or any(part in file for part in _FOREIGN):
            return False
        return Path(file).resolve().is_relative_to(self._folder)

    def _parts(self, thing: Any) -> Iterator[tuple[str, Any, _Put]]:
        if isinstance(thing, dict):
            for key, value in list(thing.items())[:_MOST_ITEMS]:
                yield f"[{key!r}]"[:80], value, lambda new, key=key: thing.__setitem__(key, new)  # type: ignore[misc]
        elif isinstance(thing, list | deque):
            for position, value in enumerate(list(thing)[:_MOST_ITEMS]):
                yield f"[{position}]", value, lambda new, position=position: thing.__setitem__(position, new)  # type: ignore[misc]
        elif isinstance(thing, tuple):
            for position, value in enumerate(thing):
                yield f"[{position}]", value, None
        elif isinstance(thing, MethodType):
            yield "", thing.__self__, None
            yield "", thing.__func__, None
        elif isinstance(thing, CellType):
            try:
                yield "", thing.cell_contents, lambda new: setattr(thing, "cell_contents", new)
            except ValueError:  # empty
                return
        elif isinstance(thing, FunctionType):
            yield ".__dict__", vars(thing), None
            yield ".__defaults__", (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()), None
            for cell, name in zip(thing.__closure__ or (), thing.__code__.co_freevars, strict=True):
                yield f".<{name}>", cell, None
            for name, value in list(thing.__globals__.items()):
                if not name.startswith("__"):
                    yield f" global {name}", value, lambda new, name=name: thing.__globals__.__setitem__(name, new)  # type: ignore[misc]
        elif isinstance(thing, type):
            for name, value in list(vars(thing).items()):
                inner = getattr(value, "__func__", value) if isinstance(value, staticmethod | classmethod) else value
                yield f".{name}", inner, lambda new, name=name: setattr(thing, name, new)  # type: ignore[misc]
        else:
            for name, value in list(vars(thing).items()):
                yield f".{name}", value, lambda new, name=name: vars(thing).__setitem__(name, new)  # type: ignore[misc]
            for base in type(thing).__mro__:
                if self._is_walked(base):
                    yield "", base, None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, ctypes._SimpleCData):
        inner = value.value
        return inner if isinstance(inner, int | float) and not isinstance(inner, bool) else None
    if isinstance(value, itertools.count):
        words = repr(value)[6:-1].split(",")
        try:
            return float(words[0]) if "." in words[0] else int(words[0])
        except ValueError:
            return None
    if type(value) in (torch.Tensor, nn.Parameter) and value.numel() == 1 and not value.is_complex() and value.dtype is not torch.bool:
        return value.item()
    return None


def _slope(known: list[tuple[int, float]]) -> float:
    """By how much the number grew at each call; 0 where it did not, or not by the same each time."""
    if len(known) < _LEAST_LOOKS or known[-1][0] - known[0][0] < _LEAST_CALLS:
        return 0
    (first_calls, first), (last_calls, last) = known[0], known[-1]
    if last == first or any((value - first) * (last_calls - first_calls) != (last - first) * (calls - first_calls) for calls, value in known):
        return 0
    slope = (last - first) / (last_calls - first_calls)
    return int(slope) if slope == int(slope) else slope


def _move(value: Any, put: _Put, by: float) -> None:
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            value.add_(by)
    elif isinstance(value, ctypes._SimpleCData):
        value.value = type(value.value)(value.value + by)
    elif put is not None and isinstance(value, itertools.count):
        put(itertools.count((_number(value) or 0) + int(by)))
    elif put is not None:
        put(type(value)(value + by))


def later(original: Any, by: float) -> Callable[[], Any]:
    """A clock of `time` that answers so much later, in its own unit."""
    assert isinstance(original, BuiltinFunctionType | FunctionType | staticmethod)
    return staticmethod(lambda: original() + by)  # as an attribute of a class it is no method, which `time.time` is not either


def later_date(original: Any, seconds: float) -> Any:
    """datetime.date or datetime.datetime, whose present is so many seconds later."""
    by = datetime.timedelta(seconds=seconds)

    class Meta(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, original)

    class Later(original, metaclass=Meta):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return original.now(tz) + by

        @classmethod
        def utcnow(cls) -> Any:
            return original.utcnow() + by

        @classmethod
        def today(cls) -> Any:
            return original.today() + by

    Later.__name__ = Later.__qualname__ = original.__name__
    return Later
