"""Equal calls are equal: arguments by position or by name, defaults given or left out.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

_NOTHING = inspect.Parameter.empty
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def same_scalar(given: Any, value: Any) -> bool:
    """Of one type and equal; zeros of one sign, and NaN is NaN."""
    if type(given) is not type(value):
        return False
    if isinstance(value, torch.Tensor):  # numbers that a program was made for
        return given.device.type == "cpu" and given.dtype is value.dtype and given.shape == value.shape and torch.equal(given, value)
    if isinstance(value, float):
        return (given == value and (given != 0 or str(given) == str(value))) or (given != given and value != value)
    return bool(given == value)


def short(value: Any) -> str:
    """For a sentence: a tensor's kind, or what a value looks like."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


@dataclass
class Form:
    """A call in the captured form, or why it has none. `simple`: only plain values were left out or put in, so that the same names and
    values in another call mean the same."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    why: str = ""
    simple: bool = True


class Signature:
    """How a captured call names its arguments, and what those are that it does not have."""

    def __init__(self, forward: Callable[..., Any], count: int, keywords: list[str], captured: dict[int | str, Any]) -> None:
        """`forward` with `self` first. The captured call has `count` positional arguments and these `keywords`; `captured` has, by place or name, those
        of them that hold no tensor. Raises ValueError or TypeError where forward cannot be asked, or takes the call otherwise."""
        parameters = list(inspect.signature(forward).parameters.values())[1:]
        self._forward = forward
        self._count, self._keywords = count, keywords
        self._places = [p.name for p in parameters if p.kind in _BY_POSITION]
        self._only_places = {p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY}
        self._defaults = {p.name: p.default for p in parameters if p.default is not _NOTHING}
        self._names = self._places + [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        self._extra = max(0, count - len(self._places))
        if self._extra and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
            raise ValueError("more arguments than forward takes")
        self._captured: dict[str, Any] = {(self.name(key) if isinstance(key, int) else key): value for key, value in captured.items()}

    def name(self, place: int) -> str:
        return self._places[place] if place < len(self._places) else f"argument {place}"

    def extras(self, names: Iterable[str]) -> list[str]:
        """Of keyword arguments those that only **kwargs takes, whose order forward can see."""
        return [name for name in names if name not in self._names]

    def form(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Form:
        """The call as the captured one was made, where it is equal to one that was."""
        given = {self.name(k): value for k, value in enumerate(args)}
        for name, value in kwargs.items():
            if name in given or name in self._only_places:
                return Form(why=f"the argument '{name}' is given twice")  # forward will say so
            given[name] = value
        wanted = [self.name(k) for k in range(self._count)]
        simple, found = True, {}
        for name in (*wanted, *self._keywords):
            if name in given:
                found[name] = given.pop(name)
            elif name not in self._defaults:
                return Form(why=f"the argument '{name}' is missing, and the program was made for a call with it")
            else:
                found[name] = self._defaults[name]
                if name not in self._captured or not _equal(self._captured[name], found[name]):
                    return Form(why=f"the argument '{name}' is {short(found[name])} by default, and the program was made for a call that gives another")
                simple = simple and _is_simple(found[name])
        for name, value in given.items():
            if name not in self._defaults:
                return Form(why=f"the argument '{name}' is {short(value)}, and the program was made for a call without it")
            if not _equal(self._defaults[name], value):
                usual = short(self._defaults[name])
                return Form(why=f"the argument '{name}' is {short(value)}, and the program was made for a call without it (which means {usual})")
            simple = simple and _is_simple(value)
        return Form(tuple(found[name] for name in wanted), {name: found[name] for name in self._keywords}, "", simple)

    def placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[int | None], dict[str, int | None]]:
        """For each argument of such a call its number among the captured ones (positional first, then by keyword); None for what is a default."""
        order = {name: k for k, name in enumerate([*(self.name(k) for k in range(self._count)), *self._keywords])}
        return [order.get(self.name(k)) for k in range(len(args))], {name: order.get(name) for name in kwargs}


def _is_simple(value: Any) -> bool:
    return type(value) in (bool, int, float, str, type(None))


def _equal(value: Any, other: Any) -> bool:
    """Whether two values that hold no tensor mean the same."""
    if value is other:
        return True
    if _is_simple(value) or _is_simple(other):
        return same_scalar(value, other)
    if type(value) is not type(other):
        return False
    if not isinstance(value, tuple | list | dict):
        return isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format) and value == other
    ours, spec = pytree.tree_flatten(value)
    theirs, their_spec = pytree.tree_flatten(other)
    return spec == their_spec and all(type(a) not in (tuple, list, dict) and _equal(a, b) for a, b in zip(ours, theirs, strict=True))
