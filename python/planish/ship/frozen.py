"""What was found that a module's forward can reach: comparisons that a call makes, the same by value, and how another state differs.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import collections
import ctypes
import hashlib
import importlib
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

names, outside = (importlib.import_module(__name__.removesuffix("frozen") + part) for part in ("names", "outside"))

Tensor = torch.Tensor
_ABSENT = object()
CACHED = "[cached "  # in paths of results that functools.lru_cache keeps
COMPARED = 4096  # bytes of a tensor on the CPU that are compared, the first ones: `.data` and NumPy leave no version behind

#: Things that never change, and are known by their value.
VALUES = (
    *(bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
)

_get = dict.get  # classes of dictionaries may have a way of their own, which the C form does not ask either


_CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset)


def length(container: Any) -> int:
    """As its kind counts it, whatever a class of the user's says."""
    for kind in _CONTAINERS:
        if isinstance(container, kind):
            return int(kind.__len__(container))
    raise TypeError(f"{type(container).__name__} has no length of its own")


#: A dictionary, a key, and what lies there; None in the dictionary's place is the root module's own.
Place = tuple[dict[Any, Any] | None, Any, Any]


class Reached:
    """What was found. The lists are read by the C form as well (python/planish/_call.cpp); None in a dictionary's place is the root module's
    own, of which no reference is kept."""

    def __init__(self) -> None:
        self.items: list[tuple[dict[Any, Any] | None, Any, Any]] = []  #: dictionary, key, value
        self.absent: list[tuple[dict[Any, Any] | None, Any]] = []
        self.sizes: list[tuple[Any, int]] = []  #: of a dictionary, list or set
        self.elements: list[tuple[list[Any], int, Any]] = []
        self.members: list[tuple[Any, Any]] = []  #: of a set
        self.fields: list[tuple[Any, str, Any]] = []  #: object, attribute, value
        self.types: list[tuple[Any, type, dict[str, Any] | None]] = []  #: object, class, dictionary
        self.versions: list[tuple[Tensor, int]] = []
        self.wrappers: list[Tensor] = []  #: parameters and buffers that hold other tensors
        self.contents: list[tuple[Tensor, bytes]] = []  #: of tensors on the CPU: their first bytes
        self.orders: list[tuple[dict[Any, Any], tuple[Any, ...], Any]] = []  #: dictionary, its keys, and what iterates over it (None: any)
        self.answers: list[tuple[Any, Any]] = []  #: of functions without arguments
        self.asks_mode = False  #: whether code beside torch's asks for a module's `training`
        self.asks_tensors = False  #: whether the user's code asks tensors for more than their contents and layout: gradients, being one object
        self.asks_attributes: frozenset[str] | None = frozenset()  #: that the user's code asks of a tensor and that it may not have; None: any
        self.functions: dict[str, types.FunctionType] = {}  #: of the user's, by path
        self.packaged: dict[str, types.FunctionType] = {}  #: of installed packages
        self.tokens: dict[str, str] = {}  #: by path: what was there
        self.soft: dict[str, str] = {}  #: the same inside installed packages, which hold for this process alone
        self.problem = ""
        self.hooks: list[dict[int, Any]] = []  #: that run before the modules' forwards; compared where modules are
        self.places: dict[str, Place] = {}  #: of plain values in dictionaries, by path
        self.owners: dict[int, Place | None] = {}  #: by id of a dictionary: the place of what it belongs to; None of the module itself and of classes

    def plan(self) -> dict[str, Any]:
        """As the C form reads it. Raises where it is not for that."""
        return {
            "items": self.items,
            "absent": self.absent,
            "sizes": [(thing, count, 1 if isinstance(thing, list) else 2 if isinstance(thing, set) else 0) for thing, count in self.sizes],
            "elements": self.elements,
            "members": self.members,
            "fields": self.fields,
            "types": self.types,
            "versions": [*self.versions, *((tensor, -1) for tensor in self.wrappers)],
            "contents": self.contents,
            "orders": self.orders,
            "answers": [(function, None, answer) for function, answer in self.answers],
        }

    def count(self) -> int:
        """How many comparisons a call makes."""
        return sum(len(rows) for rows in self.plan().values())

    def fits(self, root: nn.Module, grad: bool) -> bool:
        """Whether all is as it was. With `grad`, tensors that require gradients do not fit: the program gives none for them."""
        own = vars(root)
        for found, key, value in self.items:
            if _get(own if found is None else found, key, _ABSENT) is not value:
                return False
        for found, key in self.absent:
            if _get(own if found is None else found, key, _ABSENT) is not _ABSENT:
                return False
        for thing, count in self.sizes:
            if length(own if thing is None else thing) != count:
                return False
        for sequence, index, value in self.elements:
            if list.__getitem__(sequence, index) is not value:  # its length was asked before
                return False
        for group, value in self.members:
            if not set.__contains__(group, value):
                return False
        for thing, name, value in self.fields:
            try:
                if getattr(thing, name) is not value:
                    return False
            except (AttributeError, ValueError):  # a slot or a closure's cell that was emptied
                return False
        for thing, cls, attributes in self.types:
            if type(thing) is not cls or (attributes is not None and object.__getattribute__(thing, "__dict__") is not attributes):
                return False
        for tensor, version in self.versions:
            if tensor._version != version or (grad and tensor.requires_grad):
                return False
        if grad and any(tensor.requires_grad for tensor in self.wrappers):
            return False
        for thing, keys, iterate in self.orders:
            if any(a is not b for a, b in zip((iterate or dict.__iter__)(thing), keys, strict=False)):
                return False
        if any(first_bytes(tensor, len(kept) or COMPARED) != kept for tensor, kept in self.contents):
            return False
        return all(function() == then for function, then in self.answers)

    def asks_for_gradients(self) -> bool:
        """Whether the user's code asks whether gradients are recorded: then no call that records them gets the program's answer."""
        return self.asks_tensors or any(function in outside.CAPTURED_UNDER for function, _ in self.answers)

    def answered_otherwise(self) -> str:
        """In one sentence, a question of the code's that the process answers otherwise than it did; empty where there is none."""
        for function, then in self.answers:
            if (now := function()) != then:
                return f"forward asks {outside.told(function)}, which is {now}, captured was {then}"
        return ""

    def differs(self, tokens: dict[str, str], soft: dict[str, str]) -> Difference | None:
        """How this is another state than one of these tokens; None if it is the same by value."""
        if self.problem:
            return Difference(self, self.problem, [])
        if found := unlike(tokens, self.tokens):
            return Difference(self, found, self._links(_differing(tokens, self.tokens)))
        if gone := next((path for path in sorted(soft) if CACHED in path and path not in self.soft), None):
            # The module's own code computes it anew, and may find another value than the one that was captured.
            return Difference(self, f"'{gone}' is no longer kept", [], passes=True)
        found = unlike({k: v for k, v in soft.items() if k in self.soft}, {k: v for k, v in self.soft.items() if k in soft})
        return Difference(self, found, []) if found else None

    def _links(self, path: str) -> list[Place]:
        """The places through which the module holds a plain value, that of the value first; nothing where one of them is in no dictionary."""
        found: list[Place] = []
        place = self.places.get(path)
        while place is not None and len(found) < 20:
            found.append(place)
            if place[0] is None:
                return found
            if id(place[0]) not in self.owners:
                return []
            place = self.owners[id(place[0])]
        return found if place is None else []


class Difference:
    """A state that is not the captured one, and how it is other, in one sentence."""

    def __init__(self, state: Reached, why: str, links: list[Place], passes: bool = False) -> None:
        """`links`: where a plain value that differs is held, and its holders. `passes`: the next call will find it otherwise."""
        self._state, self.why, self._links, self._passes = state, why, links, passes
        self._hooks = [(hooks, tuple(hooks.values())) for hooks in state.hooks]

    def holds(self, root: nn.Module) -> bool:
        """Whether the module is still in that state, or at least not in the captured one: one plain value that differs is enough to know it."""
        if self._passes:
            return False
        if not self._links:
            return self._state.fits(root, False) and all(tuple(hooks.values()) == then for hooks, then in self._hooks)
        own = vars(root)
        return all(_get(own if holder is None else holder, key, _ABSENT) is value for holder, key, value in self._links)


def _differing(then: dict[str, str], now: dict[str, str]) -> str:
    """The first path whose tokens differ, among the shortest."""
    return min((p for p in then.keys() | now.keys() if then.get(p) != now.get(p)), key=lambda p: (p.count("."), p))


def unlike(then: dict[str, str], now: dict[str, str]) -> str:
    """In one sentence, the first difference between tokens; empty where there is none."""
    if then == now:
        return ""
    path = _differing(then, now)
    return f"'{path}' is {now.get(path, 'absent')}, captured was {then.get(path, 'absent')}"


def first_bytes(tensor: Tensor, most: int = COMPARED) -> bytes:
    """The first bytes of the memory that a tensor lies in."""
    if not tensor.numel() or not tensor.data_ptr():
        return b""
    return ctypes.string_at(tensor.data_ptr(), min(most, outside.span(tensor)))


def tensor_digest(tensor: Tensor) -> str:
    with torch.no_grad():
        whole = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return hashlib.sha256(first_bytes(whole, whole.numel() * whole.element_size())).hexdigest()[:16]


def as_text(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 60 else f"{told[:40]}… ({hashlib.sha256(told.encode()).hexdigest()[:12]})"


def in_order(value: dict[Any, Any]) -> Iterator[Any]:
    return collections.OrderedDict.__iter__(value) if isinstance(value, collections.OrderedDict) else dict.__iter__(value)


def as_keys(value: dict[Any, Any]) -> str:
    return ", ".join(short_key(key) for key in in_order(value))[:200] + f" ({length(value)})"


def short_key(key: Any) -> str:
    return as_text(key) if type(key) in VALUES else names.short_name(key) if isinstance(key, type) or callable(key) else type(key).__name__
