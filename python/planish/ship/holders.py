"""Objects that hold tensors and that torch takes for no nesting: caches of language models, plain objects, dataclasses, named tuples.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.

Such an object is a node of a tree like a tuple is: its children are the attributes that hold tensors or further objects, its context is its other
attributes, in words. It is put together again without its constructor. torch has one table of nodes for the whole process, which others read too:
what stands in it for us stands there while something is captured (`registered`), and in processes of our own.

What a call does to the objects that it is given is part of its answer: attributes that it sets anew, and lists and dictionaries that it changes
(`Watch`). Tensors that it writes in place are none of this: they are effects of the graph.
"""

from __future__ import annotations

import enum
import functools
import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from planish.ship import names, trees
else:
    names, trees = (importlib.import_module(__name__.removesuffix("holders") + part) for part in ("names", "trees"))

_PREFIX = "planish:"
Path = tuple[tuple[str, Any], ...]  # of steps from the pair of arguments and keyword arguments: ("item", key) or ("attribute", name)


class Unheld(ValueError):
    """An object that cannot be taken apart, in words."""


class Returned:
    """Stands in a result for what the caller gave and gets back."""

    def __init__(self, path: str) -> None:
        self.path = path  #: as JSON


class Answer:
    """A result, and what the call set anew in the objects that it was given."""

    def __init__(self, children: list[Any], places: str) -> None:
        self.children = children  #: the result, and each new value
        self.places = places  #: as JSON: [path, attribute or None for all that a list or dictionary holds, [the new value] or None for the next child]


# ---- objects as nodes ----


def is_holder(value: Any) -> bool:
    """Whether it is an object that is taken apart here. One that torch knows as a node stays that, where nothing is lost by it."""
    cls = type(value)
    known = pytree.SUPPORTED_NODES.get(cls)
    if known is not None and known.flatten_fn is flatten:
        return True
    if not _is_object(value):
        return False
    return known is None or (not hasattr(cls, "__dataclass_fields__") and not _keeps_all(value, known))


def _is_object(value: Any) -> bool:
    cls = type(value)
    if isinstance(value, torch.Tensor | torch.nn.Module | type | types.ModuleType | enum.Enum | BaseException | str | bytes | int | float | complex):
        return False
    if isinstance(value, dict | list | tuple | set | frozenset | types.FunctionType | types.MethodType | functools.partial):
        return False
    return names.whose_class(cls) in ("own", "installed") and attributes_of(value) is not None


def attributes_of(value: Any) -> dict[str, Any] | None:
    """All attributes of an object, as they are now; None where some are kept by compiled code."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        found = {}
        if not any("__slots__" in vars(base) for base in type(value).__mro__):
            return None
    cls: Any = type(value)
    members = slots(cls)
    if not members:
        return found if isinstance(found, dict) else None
    filled = {}
    for member in members:
        try:
            filled[member.__name__] = member.__get__(value, type(value))
        except AttributeError:
            continue
    return {**found, **filled}


@functools.cache
def slots(cls: Any) -> list[types.MemberDescriptorType]:
    return [m for base in cls.__mro__ for m in vars(base).values() if isinstance(m, types.MemberDescriptorType)]


def _keeps_all(value: Any, node: Any) -> bool:
    """Whether another's registration brings back the very object: all attributes, and the same tensors."""
    try:
        again = node.unflatten_fn(*node.flatten_fn(value))
        one, other = (_leaves_and_context(v) for v in (value, again))
    except Exception:  # whatever its code makes of such an object
        return False
    return one[1] == other[1] and len(one[0]) == len(other[0]) and all(a is b for a, b in zip(one[0], other[0], strict=True))


def _leaves_and_context(value: Any) -> tuple[list[Any], list[str]]:
    leaves: list[Any] = []
    contexts: list[str] = []

    def look(one: Any) -> None:
        if isinstance(one, list | tuple):
            contexts.append(f"{type(one).__name__} {len(one)}")
            for item in one:
                look(item)
        elif isinstance(one, dict):
            contexts.append(f"{type(one).__name__} {list(one)}")
            for item in one.values():
                look(item)
        elif _is_object(one):
            children, context = flatten(one)
            contexts.append(f"{type(one).__qualname__} {context}")
            for child in children:
                look(child)
        else:
            leaves.append(one)

    look(value)
    return leaves, contexts


def flatten(value: Any) -> tuple[list[Any], str]:
    """The children of an object and its context. Raises Unheld for attributes that are neither."""
    attributes = attributes_of(value) or {}
    inside, plain = [], {}
    for name in sorted(attributes):
        try:
            plain[name] = encode(attributes[name])
        except Unheld:
            if not _holds(attributes[name]):
                kind = type(attributes[name])
                raise Unheld(f"the attribute '{name}' of a {type(value).__name__} is a {kind.__module__}.{kind.__qualname__}, "
                             "which is neither a tensor nor made of numbers and text") from None  # fmt: skip
            inside.append(name)
    return [attributes[name] for name in inside], json.dumps({"inside": inside, "plain": plain})


def _with_keys(value: Any) -> tuple[list[tuple[Any, Any]], str]:
    children, context = flatten(value)
    return [(pytree.GetAttrKey(name), child) for name, child in zip(json.loads(context)["inside"], children, strict=True)], context


def _unflatten_as(cls: type) -> Callable[[Any, str], Any]:
    def unflatten(children: Any, context: str) -> Any:
        return made(cls, children, context)

    return unflatten


def made(cls: type, children: Any, context: str) -> Any:
    """An object with these attributes, which no constructor saw."""
    inside, plain = read_context(context)
    value: Any = object.__new__(cls)
    for name, attribute in (*zip(inside, children, strict=True), *((n, decode(v)) for n, v in plain)):
        object.__setattr__(value, name, attribute)
    return value


@functools.lru_cache(4096)
def read_context(context: str) -> tuple[list[str], list[tuple[str, Any]]]:
    found = json.loads(context)
    return found["inside"], list(found["plain"].items())


def _holds(value: Any) -> bool:
    """Whether there are tensors or objects in it, or it is one."""
    if isinstance(value, torch.Tensor) or type(value) in pytree.SUPPORTED_NODES or is_named_tuple(value):
        return True
    return is_holder(value)


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and isinstance(getattr(type(value), "_fields", None), tuple)


def encode(value: Any) -> Any:
    """A value without tensors, as JSON holds it. Raises Unheld."""
    match value:
        case None | bool() | str():
            return value
        case enum.Enum():
            return ["enum", _name(type(value)), value.name]
        case int() if type(value) is int:
            return value
        case float() if type(value) is float:
            return ["float", value.hex()]
        case torch.dtype() | torch.layout() | torch.memory_format():
            return ["torch", str(value)]
        case torch.device():
            return ["device", str(value)]
        case type():
            return ["class", _name(value)]
        case torch.Size():
            return ["size", list(value)]
        case list() | tuple() if type(value) in (list, tuple):
            return [type(value).__name__, [encode(item) for item in value]]
        case dict() if type(value) is dict:
            return ["dict", [[encode(key), encode(item)] for key, item in value.items()]]
    raise Unheld(f"a {type(value).__name__}")


def decode(value: Any) -> Any:
    """What encode() was given."""
    if not isinstance(value, list):
        return value
    kind, *rest = value
    match kind:
        case "float":
            return float.fromhex(rest[0])
        case "torch":
            return getattr(torch, rest[0].removeprefix("torch."))
        case "device":
            return torch.device(rest[0])
        case "class":
            return _named(rest[0])
        case "enum":
            return _named(rest[0])[rest[1]]
        case "size":
            return torch.Size(rest[0])
        case "counted":  # (counting)
            return rest[0]
        case "dict":
            return {decode(key): decode(item) for key, item in rest[0]}
    items = [decode(item) for item in rest[0]]
    return items if kind == "list" else tuple(items)


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _named(name: str) -> Any:
    """The class of that name. Raises Unheld."""
    if name in _classes:
        return _classes[name]
    module, _, path = name.partition(":")
    if module.startswith("planish_task_") and module not in sys.modules:  # in a shipped folder the task's file is its neighbour
        module = __name__.removesuffix("holders") + "reference"
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise Unheld(f"the class {path} of {module} is not to be found: {error}") from error
    return found


_classes: dict[str, type] = {}  # that came by value, and that no import finds


# ---- in torch's tables ----


class _Tables:
    """What stands in torch's tables for us, and what stood there before."""

    def __init__(self) -> None:
        self._before: dict[type, tuple[Any, Any]] = {}

    def add(self, *values: Any) -> None:
        """Nodes for the classes of all objects in the values."""
        for cls in _classes_in(values):
            self._before.setdefault(cls, (pytree.SUPPORTED_NODES.get(cls), pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)))
            _remember(cls)
            with pytree._NODE_REGISTRY_LOCK:
                pytree.SUPPORTED_NODES[cls] = pytree.NodeDef(cls, flatten, _unflatten_as(cls), _with_keys)

    def take_back(self) -> None:
        with pytree._NODE_REGISTRY_LOCK:
            for cls, (node, _) in self._before.items():
                if node is None:
                    pytree.SUPPORTED_NODES.pop(cls, None)
                else:
                    pytree.SUPPORTED_NODES[cls] = node


def _remember(cls: type) -> None:
    """Classes that came to this process by value are not found by importing."""
    try:
        if _named(_name(cls)) is cls:
            return
    except Unheld:
        pass
    _classes[_name(cls)] = cls


_open = [_Tables()]


def register(*values: Any) -> None:
    """Objects in the values are nodes of trees from now on: as long as the innermost `registered` holds, and without one for good, which is for
    processes of our own. Raises Unheld."""
    _open[-1].add(*values)


@contextmanager
def registered(*values: Any) -> Iterator[None]:
    """While this holds, objects in the values are nodes. Afterwards torch's tables are as they were. Raises Unheld."""
    _open.append(_Tables())
    try:
        register(*values)
        yield
    finally:
        _open.pop().take_back()


def _classes_in(value: Any) -> list[type]:
    """Of the objects in a nesting, the innermost last. Raises Unheld where an object holds itself, or is there twice."""
    found: dict[type, None] = {}
    met: dict[int, Any] = {}

    def look(one: Any) -> None:
        if isinstance(one, torch.Tensor):
            return
        if is_holder(one):
            if id(one) in met:
                raise Unheld(f"a {type(one).__name__} is there twice, or holds itself")
            met[id(one)] = one
            found[type(one)] = None
            children = flatten(one)[0]
        elif isinstance(one, list | tuple):
            children = list(one)
        elif isinstance(one, dict):
            children = list(one.values())
        elif type(one) in pytree.SUPPORTED_NODES:
            children = list(pytree.SUPPORTED_NODES[type(one)].flatten_fn(one)[0])
        else:
            return
        for child in children:
            look(child)

    look(value)
    return list(found)


# ---- trees as documents ----


def dumps(spec: Any) -> str:
    """A tree's form as text. Raises NotImplementedError for types without a name."""
    trees.name_types()
    with _names_for({cls: _PREFIX + (f":{cls.__name__}" if cls in (Returned, Answer) else _name(cls)) for cls in _types_of(spec)}):
        return str(pytree.treespec_dumps(spec))


def loads(text: str) -> Any:
    """The form that dumps() wrote. Raises Unheld for classes that are not to be found here, and what torch raises for text that is none."""
    trees.name_types()
    found = {_class_of(name): name for name in _type_names(json.loads(text))}
    with _names_for(found):
        return pytree.treespec_loads(text)


def counting(text: str, numbers: Any) -> str:
    """The text of a call's tree in which some attributes of its objects are numbers that count: `numbers` have a path, name, value, step, first, last."""
    document = json.loads(text)
    for number in numbers:
        one = document[1]
        for _, key in number.path:
            one = one["children_spec"][_child(one, key)]
        context = json.loads(one["context"])
        context["plain"][number.name] = ["counted", number.value, number.step, number.first, number.last]
        one["context"] = json.dumps(context)
    return json.dumps(document)


def _child(one: Any, key: Any) -> int:
    """Which child of a node of a tree's text lies under a key."""
    if str(one["type"]).startswith(_PREFIX):
        return int(json.loads(one["context"])["inside"].index(key))
    return int(json.loads(one["context"]).index(key)) if one["type"] == "builtins.dict" else int(key)


def counted(value: Any) -> tuple[int, int | None, int | None] | None:
    """Of an attribute in a context that counts: its step, and the first and last number for which the call is the same."""
    return tuple(value[2:]) if isinstance(value, list) and value[0] == "counted" else None  # type: ignore[return-value]


def _class_of(name: str) -> type:
    match name.removeprefix(_PREFIX):
        case ":Returned":
            return Returned
        case ":Answer":
            return Answer
        case known:
            return _named(known)  # type: ignore[no-any-return]


def _type_names(document: Any) -> set[str]:
    """Of our naming, in the text of a tree."""
    found: set[str] = set()
    todo = [document]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if str(one.get("type")).startswith(_PREFIX):
                found.add(one["type"])
            elif str(one.get("context")).startswith(_PREFIX):  # a named tuple's
                found.add(one["context"])
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return found


def _types_of(spec: Any) -> Iterator[type]:
    node = pytree.SUPPORTED_NODES.get(spec.type)
    if spec.type in (Returned, Answer) or (node is not None and node.flatten_fn is flatten):
        yield spec.type
    elif isinstance(spec.context, type) and issubclass(spec.context, tuple) and spec.context not in pytree.SUPPORTED_SERIALIZED_TYPES:
        _remember(spec.context)
        yield spec.context
    for child in trees.children(spec):
        yield from _types_of(child)


@contextmanager
def _names_for(found: dict[type, str]) -> Iterator[None]:
    """While this holds, torch has names for these classes."""
    kind = type(next(iter(pytree.SUPPORTED_SERIALIZED_TYPES.values())))
    before = {cls: pytree.SUPPORTED_SERIALIZED_TYPES.get(cls) for cls in found}
    for cls, name in found.items():
        pytree.SUPPORTED_SERIALIZED_TYPES[cls] = kind(cls, name, _same, _same)
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls
    try:
        yield
    finally:
        for cls, was in before.items():
            pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(found[cls], None)
            if was is None:
                pytree.SUPPORTED_SERIALIZED_TYPES.pop(cls, None)
            else:
                pytree.SUPPORTED_SERIALIZED_TYPES[cls] = was


def _same(text: Any) -> Any:
    return text


pytree.SUPPORTED_NODES[Returned] = pytree.NodeDef(Returned, lambda r: ([], r.path), lambda _, path: Returned(path), lambda r: ([], r.path))
pytree.SUPPORTED_NODES[Answer] = pytree.NodeDef(
    Answer,
    lambda a: (a.children, a.places),
    lambda children, places: Answer(list(children), places),
    lambda a: ([(pytree.SequenceKey(k), child) for k, child in enumerate(a.children)], a.places),
)


def has_objects(spec: Any) -> bool:
    """Whether a form that loads() read has anything of this file's in it."""
    return is_object(spec) or any(map(has_objects, trees.children(spec)))


def is_object(spec: Any) -> bool:
    return spec.type in (Returned, Answer) or (isinstance(spec.context, str) and spec.context.startswith('{"inside": '))


# ---- places in a call ----


def at(path: Any, args: Any, kwargs: Any) -> Any:
    """What lies at a path of a call."""
    value: Any = (args, kwargs)
    for kind, key in path:
        value = value[key] if kind == "item" else getattr(value, key)
    return value


def said(path: Any) -> str:
    """A path in words."""
    (_, side), *rest = path
    text = "".join(f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in rest[1:])
    return f"'{rest[0][1]}{text}'" if side == 1 else f"'argument {rest[0][1]}{text}'" if rest else "the call"
