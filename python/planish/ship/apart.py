"""A program's calls: taken apart into leaves where objects hold tensors, by code written here and by the C form, and results put together.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import enum
import functools
import importlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from planish.ship import holders, trees, watch
else:
    holders, trees, watch = (importlib.import_module(__name__.removesuffix("apart") + part) for part in ("holders", "trees", "watch"))


class Named:
    """An object's attributes, as a program was made for."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def otherwise(self, given: Any) -> str:
        """In words, of which attributes the object has more, or fewer."""
        has = frozenset(holders.attributes_of(given) or ())
        fewer, more = ([repr(name) for name in sorted(names)] for names in (self.names - has, has - self.names))
        said = [f"{word} {', '.join(names[:3])}{' and others' * (len(names) > 3)}" for word, names in (("lacks", fewer), ("also has", more)) if names]
        return f"{' and '.join(said)}, and the one that the program was made for {'had' if fewer else 'had not'}"


class Miss:
    """How a call is another than a program was made for: what differs, and the same in a sentence."""

    def __init__(self, path: holders.Path, given: Any, wanted: Any) -> None:
        place = holders.said(path) if len(path) > 1 else "the call"
        if isinstance(wanted, Named):
            self.what = f"{place} has other attributes"
            self.sentence = f"{place}, {_short(given)}, {wanted.otherwise(given)}"
        else:
            self.what = f"{place} is not {_short(wanted)}"
            self.sentence = f"{place} is {_short(given)}, the program was made for {_short(wanted)}"


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = f"a {type(value).__name__}" if holders.is_holder(value) else value if isinstance(value, str) and value.startswith("a ") else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def reader(spec: Any, apart: bool = False) -> Callable[[Any, Any], Any]:
    """What takes a call apart: a function of the arguments and keyword arguments that gives the leaves in their order, or a Miss that says how the call
    is another. It is written as code: a cache has some hundred attributes, each of which is compared. `apart`: no object may be there twice."""
    names_in: dict[str, Any] = {"attributes": holders.attributes_of, "why": Miss, "nodes": pytree.SUPPORTED_NODES, "same": _same_plain}
    objects: list[str] = []
    lines = ["def read(args, kwargs):", " leaves = []", " v0 = (args, kwargs)"]
    count = [0]

    def constant(value: Any) -> str:
        names_in[f"c{len(names_in)}"] = value
        return f"c{len(names_in) - 1}"

    def new(source: str) -> str:
        count[0] += 1
        lines.append(f" v{count[0]} = {source}")
        return f"v{count[0]}"

    def miss(condition: str, path: holders.Path, given: str, wanted: Any) -> None:
        lines.append(f" if {condition}: return why({constant(path)}, {given}, {constant(wanted)})")

    def walk(one: Any, place: str, path: holders.Path) -> None:
        children = trees.children(one)
        if one.type is None:
            lines.append(f" leaves.append({place})")
        elif one.type in (tuple, list):
            miss(f"type({place}) is not {constant(one.type)} or len({place}) != {len(children)}", path, place, f"a {one.type.__name__} of {len(children)}")
            for k, child in enumerate(children):
                walk(child, new(f"{place}[{k}]") if children else place, (*path, ("item", k)))
        elif one.type is dict:
            keys = constant(dict.fromkeys(one.context).keys())
            miss(f"type({place}) is not dict or {place}.keys() != {keys}", path, place, f"a dict with {', '.join(map(str, one.context))}")
            for key, child in zip(one.context, children, strict=True):
                walk(child, new(f"{place}[{constant(key)}]"), (*path, ("item", key)))
        elif holders.is_object(one):
            miss(f"type({place}) is not {constant(one.type)}", path, place, f"a {one.type.__name__}")
            objects.append(place)
            inside, plain = holders.read_context(one.context)
            held = new(f"attributes({place})" if holders.slots(one.type) else f"{place}.__dict__")
            miss(f"len({held}) != {len(inside) + len(plain)}", path, place, Named(frozenset(inside) | {name for name, _ in plain}))
            for name, value in plain:
                here, known = (*path, ("attribute", name)), holders.decode(value)
                got = new(f"{held}.get({name!r})")
                match _rule(value):
                    case "counted", first, last:
                        bounds = [f"{got} >= {first}"] * (first is not None) + [f"{got} <= {last}"] * (last is not None)
                        miss(f"type({got}) is not int" + (f" or not ({' and '.join(bounds)})" if bounds else ""), here, got, _range(first, last))
                    case "equal", _:
                        miss(f"type({got}) is not {constant(type(known))} or {got} != {constant(known)}", here, got, known)
                    case "same_object", _:
                        miss(f"{got} is not {constant(known)}", here, got, known)
                    case "asked", _:
                        miss(f"not same({got}, {constant(value)})", here, got, known)
                if known is None:
                    miss(f"{name!r} not in {held}", here, got, known)
            for name, child in zip(inside, children, strict=True):
                miss(f"{name!r} not in {held}", (*path, ("attribute", name)), place, "there")
                walk(child, new(f"{held}[{name!r}]"), (*path, ("attribute", name)))
        elif isinstance(one.context, type) and issubclass(one.context, tuple):
            miss(f"type({place}) is not {constant(one.context)}", path, place, f"a {one.context.__name__}")
            for k, child in enumerate(children):
                walk(child, new(f"{place}[{k}]"), (*path, ("item", k)))
        else:
            miss(f"type({place}) is not {constant(one.type)}", path, place, f"a {one.type.__name__}")
            parts = new(f"nodes[{constant(one.type)}].flatten_fn({place})")
            miss(f"{parts}[1] != {constant(one.context)} or len({parts}[0]) != {len(children)}", path, place, "a nesting with other contents")
            for k, child in enumerate(children):
                walk(child, new(f"{parts}[0][{k}]"), (*path, ("item", k)))

    walk(spec, "v0", ())
    if apart and len(objects) > 1:
        twice = f"len({{{', '.join(f'id({place})' for place in objects)}}}) != {len(objects)}"
        miss(twice, (), constant("a call with one object in two places"), "a call with each in one")
    lines.append(" return leaves")
    exec(compile("\n".join(lines), "<arguments>", "exec"), names_in)
    found: Callable[[Any, Any], Any] = names_in["read"]
    return found


def _rule(value: Any) -> tuple[Any, ...]:
    """How an attribute without tensors is compared, from what a context has of it: its kind, and what it is compared with."""
    if (counted := holders.counted(value)) is not None:
        return ("counted", *counted[1:])
    known = holders.decode(value)
    if isinstance(known, str | int | torch.device) and not isinstance(known, bool | enum.Enum):
        return ("equal", known)
    if known is None or isinstance(known, bool | type | torch.dtype | torch.layout | torch.memory_format | enum.Enum):
        return ("same_object", known)
    return ("asked", value)


_WORD = (-(1 << 63), (1 << 63) - 1)


def nest(spec: Any, leaves: Iterator[int], scalars: dict[int, Any]) -> Any:
    """A tree as the C form reads it (python/planish/_call_nest.h), with the numbers of its tensor leaves. Raises KeyError for a class that torch has
    forgotten."""
    inner = trees.children(spec)
    if spec.type is None:
        leaf = next(leaves)
        return ("scalar", scalars[leaf]) if leaf in scalars else ("tensor", leaf)
    items = [nest(child, leaves, scalars) for child in inner]
    if spec.type is dict:
        return ("dict", items, list(spec.context))
    if spec.type is list:
        return ("list", items)
    if isinstance(spec.context, type) and issubclass(spec.context, tuple):
        return ("tuple", items, spec.context)
    if spec.type is tuple:
        return ("tuple", items, tuple)
    if not holders.is_object(spec):
        return ("node", items, spec.context, spec.type, pytree.SUPPORTED_NODES[spec.type].flatten_fn)
    inside, plain = holders.read_context(spec.context)
    rows: list[tuple[Any, ...]] = []
    for name, value in plain:
        match _rule(value):
            case "counted", first, last:
                rows.append((name, "counted", _WORD[0] if first is None else first, _WORD[1] if last is None else last))
            case "asked", known:
                rows.append((name, "asked", functools.partial(_same_plain, known=known)))
            case kind, known:
                rows.append((name, kind, known))
    return ("object", items, inside, spec.type, rows, holders.attributes_of if holders.slots(spec.type) else None)


def is_plain(spec: Any) -> bool:
    """Whether a tree is of tuples, lists and dictionaries alone."""
    known = spec.type in (None, dict, list) or (spec.type is tuple and spec.context is None)
    return known and all(map(is_plain, trees.children(spec)))


def placed(nest: Any, places: dict[int, int]) -> Any:
    """The same with a tensor's place among the inputs in place of its number."""
    if nest[0] == "scalar":
        return nest
    if nest[0] == "tensor":
        return ("tensor", places[nest[1]])
    return (nest[0], [placed(item, places) for item in nest[1]], *nest[2:])


def _range(first: int | None, last: int | None) -> str:
    ends = [f"from {first}"] * (first is not None) + [f"to {last}"] * (last is not None)
    return " ".join(["a whole number", *ends])


def _counters(spec: Any, path: holders.Path = ()) -> Iterator[tuple[tuple[str, str], int]]:
    """Of attributes that count: path (as JSON) and name, and by how much."""
    children = trees.children(spec)
    keys: list[tuple[str, Any]] = [("item", k) for k in range(len(children))]
    if spec.type is dict:
        keys = [("item", key) for key in spec.context]
    elif holders.is_object(spec) and spec.type not in (holders.Returned, holders.Answer):
        inside, plain = holders.read_context(spec.context)
        keys = [("attribute", name) for name in inside]
        for name, value in plain:
            if (rule := holders.counted(value)) is not None:
                yield (json.dumps(path), name), rule[0]
    for key, child in zip(keys, children, strict=True):
        yield from _counters(child, (*path, key))


def _same_plain(value: Any, known: Any) -> bool:
    try:
        return bool(holders.encode(value) == known)
    except holders.Unheld:
        return False


_Builds = Callable[[Iterator[Any], Any, Any], Any]


def builder(spec: Any, call: Any) -> Callable[[Any, Any, Any], Any]:
    """What puts a result together: a function of its leaves and the call's arguments and keyword arguments. What the call set anew in the caller's
    objects is set then; what it returns of theirs is theirs. `call`: the form of the call, with the numbers that it counts."""
    whole = _builds(spec, dict(_counters(call)))
    return lambda leaves, args, kwargs: whole(iter(leaves), args, kwargs)


def _builds(one: Any, steps: dict[tuple[str, str], int]) -> _Builds:
    if one.type is None:
        return lambda leaves, args, kwargs: next(leaves)
    if one.type is holders.Returned:
        path = json.loads(one.context)
        return lambda leaves, args, kwargs: holders.at(path, args, kwargs)
    inner = [_builds(child, steps) for child in trees.children(one)]
    if one.type is holders.Answer:
        return _sets_anew(inner, [(path, name, known, steps.get((json.dumps(path), name))) for path, name, known in json.loads(one.context)])
    make: Callable[[list[Any]], Any]
    if holders.is_object(one):
        make = functools.partial(_made, one.type, one.context)
    elif isinstance(one.context, type) and issubclass(one.context, tuple):
        make = functools.partial(_named_tuple, one.context)
    else:
        make = functools.partial(_node, pytree.SUPPORTED_NODES[one.type].unflatten_fn, one.context)
    return lambda leaves, args, kwargs: make([build(leaves, args, kwargs) for build in inner])


def _sets_anew(inner: list[_Builds], places: list[tuple[Any, Any, Any, Any]]) -> _Builds:
    """`places`: path, attribute (None for all that a list or dictionary holds), [the new value] or None for the next child, and by how much it counts."""

    def build(leaves: Iterator[Any], args: Any, kwargs: Any) -> Any:
        children = [one(leaves, args, kwargs) for one in inner]
        # Found before anything is set: a path may lead through what is.
        targets = [holders.at(path, args, kwargs) for path, *_ in places]
        new = iter(children[1:])
        for target, (_, name, known, step) in zip(targets, places, strict=True):
            value = next(new) if known is None else holders.decode(known[0]) if step is None else getattr(target, name) + step
            if name is None:
                watch.fill(target, value)
            else:
                object.__setattr__(target, name, value)
        return children[0]

    return build


def _made(cls: type, context: str, children: list[Any]) -> Any:
    return holders.made(cls, children, context)


def _named_tuple(cls: Any, children: list[Any]) -> Any:
    return cls(*children)


def _node(unflatten: Any, context: Any, children: list[Any]) -> Any:
    return unflatten(children, context)
