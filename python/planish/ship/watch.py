"""What a call does to the objects that it is given: attributes that it sets anew, lists and dictionaries that it changes, and what it returns of them.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from planish.ship import holders
else:
    holders = importlib.import_module(__name__.removesuffix("watch") + "holders")

_CONTAINERS = (list, dict)
_MISSING = object()


class Watch:
    """The objects among a call's arguments, as they are before it."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._objects: dict[int, tuple[holders.Path, Any, dict[str, Any]]] = {}
        self._contents: dict[int, tuple[holders.Path, Any, Any]] = {}
        self._tensors: dict[int, tuple[holders.Path, torch.Tensor]] = {}  # held by objects
        for key, value in enumerate(args):
            self._look(value, (("item", 0), ("item", key)), False)
        for name, value in kwargs.items():
            self._look(value, (("item", 1), ("item", name)), False)

    def __bool__(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._objects)

    def _look(self, value: Any, path: holders.Path, held: bool) -> None:
        if isinstance(value, torch.Tensor):
            if held:
                self._tensors.setdefault(id(value), (path, value))
        elif id(value) in self._objects or id(value) in self._contents:
            return
        elif holders.is_holder(value):
            attributes = dict(holders.attributes_of(value) or {})
            self._objects[id(value)] = path, value, attributes
            for name, attribute in attributes.items():
                self._look(attribute, (*path, ("attribute", name)), True)
        elif isinstance(value, list | tuple | dict):
            if held and isinstance(value, _CONTAINERS) and type(value) in _CONTAINERS:
                self._contents[id(value)] = path, value, value.copy()
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                self._look(item, (*path, ("item", key)), held)

    def restore(self) -> None:
        """Attributes, lists and dictionaries as they were before."""
        for _, value, attributes in self._objects.values():
            now = holders.attributes_of(value) or {}
            for name in now.keys() - attributes.keys():
                object.__delattr__(value, name)
            for name, attribute in attributes.items():
                if now.get(name, _MISSING) is not attribute:
                    object.__setattr__(value, name, attribute)
        for _, value, contents in self._contents.values():
            if not _same_contents(value, contents):
                fill(value, contents)

    def answer(self, result: Any) -> Any:
        """The result with all that the call did to the objects; the result alone where that is nothing and none is in it. Raises holders.Unheld for what
        cannot be done again."""
        if not self or isinstance(result, holders.Answer):
            return result
        changes = list(self._changes())
        given = self._given(result)
        if not changes:
            return given
        plain = [_encoded(value) for *_, value in changes]
        places = json.dumps([[_as_json(path), name, known] for (path, name, _), known in zip(changes, plain, strict=True)])
        return holders.Answer([given, *(self._given(value) for (*_, value), known in zip(changes, plain, strict=True) if known is None)], places)

    def _changes(self) -> Iterator[tuple[holders.Path, str | None, Any]]:
        for path, value, attributes in self._objects.values():
            now = holders.attributes_of(value) or {}
            if gone := attributes.keys() - now.keys():
                raise holders.Unheld(f"forward deletes the attribute '{min(gone)}' of {holders.said(path)}")
            for name, attribute in now.items():
                if not _unchanged(attributes.get(name, _MISSING), attribute):
                    yield path, name, attribute
        for path, value, contents in self._contents.values():
            if not _same_contents(value, contents):
                yield path, None, value.copy()

    def _given(self, value: Any) -> Any:
        """The value with marks in place of what is the caller's own."""
        known = self._objects.get(id(value)) or self._contents.get(id(value)) or self._tensors.get(id(value))
        if known is not None:
            return holders.Returned(json.dumps(_as_json(known[0])))
        if not self._inside(value):
            return value
        node = pytree.SUPPORTED_NODES.get(type(value))
        if (node is not None and node.flatten_fn is holders.flatten) or holders.is_holder(value):
            children, context = holders.flatten(value)
            return holders.made(type(value), [self._given(child) for child in children], context)
        if holders.is_named_tuple(value):
            return type(value)(*map(self._given, value))
        if node is None:
            return value
        children, context = node.flatten_fn(value)
        return node.unflatten_fn([self._given(child) for child in children], context)

    def _inside(self, value: Any) -> bool:
        """Whether something of the caller's is in it."""
        if id(value) in self._objects or id(value) in self._contents or id(value) in self._tensors:
            return True
        if isinstance(value, torch.Tensor):
            return False
        node = pytree.SUPPORTED_NODES.get(type(value))
        if node is None and (holders.is_named_tuple(value) or holders.is_holder(value)):
            return any(map(self._inside, value if isinstance(value, tuple) else holders.flatten(value)[0]))
        return node is not None and any(map(self._inside, node.flatten_fn(value)[0]))


def _encoded(value: Any) -> list[Any] | None:
    """The value in a list, as JSON holds it; None where tensors or objects are in it."""
    try:
        return [holders.encode(value)]
    except holders.Unheld:
        return None


def _unchanged(then: Any, now: Any) -> bool:
    return now is then or (type(now) is type(then) and isinstance(now, bool | int | float | str | torch.dtype | torch.device) and now == then)


def _same_contents(value: Any, then: Any) -> bool:
    if len(value) != len(then):
        return False
    if isinstance(value, dict):
        return list(value) == list(then) and all(_unchanged(then[k], value[k]) for k in value)
    return all(map(_unchanged, then, value))


def fill(target: Any, contents: Any) -> None:
    target.clear()
    target.update(contents) if isinstance(target, dict) else target.extend(contents)


def _as_json(path: holders.Path) -> list[list[Any]]:
    if not all(isinstance(key, str | int) for _, key in path):
        raise holders.Unheld(f"{holders.said(path)} lies under a key that is neither text nor a whole number")
    return [list(step) for step in path]
