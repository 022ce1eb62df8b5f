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
_CONTAINERS = (list, dict)
_MISSING = object()
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
    return names.whose_class(cls) in ("own", "installed") and _attributes(value) is not None


def _attributes(value: Any) -> dict[str, Any] | None:
    """All attributes of an object, as they are now; None where some are kept by compiled code."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        found = {}
        if not any("__slots__" in vars(base) for base in type(value).__mro__):
            return None
    slots = _slots(type(value))
    if not slots:
        return found if isinstance(found, dict) else None
    filled = {}
    for member in slots:
        try:
            filled[member.__name__] = member.__get__(value, type(value))
        except AttributeError:
            continue
    return {**found, **filled}


@functools.cache
def _slots(cls: type) -> list[types.MemberDescriptorType]:
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
    attributes = _attributes(value) or {}
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
    inside, plain = _read(context)
    value = object.__new__(cls)
    for name, attribute in (*zip(inside, children, strict=True), *((n, decode(v)) for n, v in plain)):
        object.__setattr__(value, name, attribute)
    return value


@functools.lru_cache(4096)
def _read(context: str) -> tuple[list[str], list[tuple[str, Any]]]:
    found = json.loads(context)
    return found["inside"], list(found["plain"].items())


def _holds(value: Any) -> bool:
    """Whether there are tensors or objects in it, or it is one."""
    if isinstance(value, torch.Tensor) or type(value) in pytree.SUPPORTED_NODES or pytree._is_namedtuple_instance(value):
        return True
    return is_holder(value)


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
    with _names_for({*_types_of(spec)}):
        return str(pytree.treespec_dumps(spec))


def loads(text: str) -> Any:
    """The form that dumps() wrote. Raises Unheld for classes that are not to be found here, and what torch raises for text that is none."""
    trees.name_types()
    found = {_class_of(name) for name in _type_names(json.loads(text))}
    with _names_for(found):
        return pytree.treespec_loads(text)


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
            elif str(one.get("context")).startswith(f'"{_PREFIX}'):  # a named tuple's
                found.add(json.loads(one["context"]))
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
def _names_for(found: set[type]) -> Iterator[None]:
    """While this holds, torch has names for these classes."""
    kind = type(next(iter(pytree.SUPPORTED_SERIALIZED_TYPES.values())))
    before = {cls: pytree.SUPPORTED_SERIALIZED_TYPES.get(cls) for cls in found}
    known = {}
    for cls in found:
        known[cls] = _PREFIX + (f":{cls.__name__}" if cls in (Returned, Answer) else _name(cls))
        pytree.SUPPORTED_SERIALIZED_TYPES[cls] = kind(cls, known[cls], _same, _same)
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[known[cls]] = cls
    try:
        yield
    finally:
        for cls, was in before.items():
            pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(known[cls], None)
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


# ---- what a call does to what it is given ----


class Watch:
    """The objects among a call's arguments, as they are before it."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._objects: dict[int, tuple[Path, Any, dict[str, Any]]] = {}
        self._contents: dict[int, tuple[Path, Any, Any]] = {}
        self._tensors: dict[int, tuple[Path, torch.Tensor]] = {}  # held by objects
        for key, value in enumerate(args):
            self._look(value, (("item", 0), ("item", key)), False)
        for name, value in kwargs.items():
            self._look(value, (("item", 1), ("item", name)), False)

    def __bool__(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._objects)

    def _look(self, value: Any, path: Path, held: bool) -> None:
        if isinstance(value, torch.Tensor):
            if held:
                self._tensors.setdefault(id(value), (path, value))
        elif id(value) in self._objects or id(value) in self._contents:
            return
        elif is_holder(value):
            attributes = dict(_attributes(value) or {})
            self._objects[id(value)] = path, value, attributes
            for name, attribute in attributes.items():
                self._look(attribute, (*path, ("attribute", name)), True)
        elif isinstance(value, list | tuple | dict):
            if held and type(value) in _CONTAINERS:
                self._contents[id(value)] = path, value, value.copy()
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                self._look(item, (*path, ("item", key)), held)

    def restore(self) -> None:
        """Attributes, lists and dictionaries as they were before."""
        for _, value, attributes in self._objects.values():
            now = _attributes(value) or {}
            for name in now.keys() - attributes.keys():
                object.__delattr__(value, name)
            for name, attribute in attributes.items():
                if now.get(name, _MISSING) is not attribute:
                    object.__setattr__(value, name, attribute)
        for _, value, contents in self._contents.values():
            if not _same_contents(value, contents):
                _fill(value, contents)

    def answer(self, result: Any) -> Any:
        """The result with all that the call did to the objects; the result alone where that is nothing and none is in it. Raises Unheld for what
        cannot be done again."""
        if not self or isinstance(result, Answer):
            return result
        changes = list(self._changes())
        given = self._given(result)
        if not changes:
            return given
        plain = [_encoded(value) for *_, value in changes]
        places = json.dumps([[_as_json(path), name, known] for (path, name, _), known in zip(changes, plain, strict=True)])
        return Answer([given, *(self._given(value) for (*_, value), known in zip(changes, plain, strict=True) if known is None)], places)

    def _changes(self) -> Iterator[tuple[Path, str | None, Any]]:
        for path, value, attributes in self._objects.values():
            now = _attributes(value) or {}
            if gone := attributes.keys() - now.keys():
                raise Unheld(f"forward deletes the attribute '{min(gone)}' of {said(path)}")
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
            return Returned(json.dumps(_as_json(known[0])))
        if not self._inside(value):
            return value
        node = pytree.SUPPORTED_NODES.get(type(value))
        if node is not None and node.flatten_fn is flatten or is_holder(value):
            children, context = flatten(value)
            return made(type(value), [self._given(child) for child in children], context)
        if pytree._is_namedtuple_instance(value):
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
        if node is None and (pytree._is_namedtuple_instance(value) or is_holder(value)):
            return any(map(self._inside, value if isinstance(value, tuple) else flatten(value)[0]))
        return node is not None and any(map(self._inside, node.flatten_fn(value)[0]))


def _encoded(value: Any) -> list[Any] | None:
    """The value in a list, as JSON holds it; None where tensors or objects are in it."""
    try:
        return [encode(value)]
    except Unheld:
        return None


def _unchanged(then: Any, now: Any) -> bool:
    return now is then or (type(now) is type(then) and isinstance(now, bool | int | float | str | torch.dtype | torch.device) and now == then)


def _same_contents(value: Any, then: Any) -> bool:
    if len(value) != len(then):
        return False
    if isinstance(value, dict):
        return list(value) == list(then) and all(_unchanged(then[k], value[k]) for k in value)
    return all(map(_unchanged, then, value))


def _fill(target: Any, contents: Any) -> None:
    target.clear()
    target.update(contents) if isinstance(target, dict) else target.extend(contents)


def _as_json(path: Path) -> list[list[Any]]:
    if not all(isinstance(key, str | int) for _, key in path):
        raise Unheld(f"{said(path)} lies under a key that is neither text nor a whole number")
    return [list(step) for step in path]


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


# ---- a program's calls ----


def has_objects(spec: Any) -> bool:
    """Whether a form that loads() read has anything of this file's in it."""
    return _is_ours(spec) or any(map(has_objects, trees.children(spec)))


def _is_ours(spec: Any) -> bool:
    return spec.type in (Returned, Answer) or (isinstance(spec.context, str) and spec.context.startswith('{"inside": '))


class Miss:
    """How a call is another than a program was made for: what differs, and the same in a sentence."""

    def __init__(self, path: Path, given: Any, wanted: Any) -> None:
        self.what = f"{said(path) if len(path) > 1 else 'the call'} is not {_short(wanted)}"
        self.sentence = f"{said(path) if len(path) > 1 else 'the call'} is {_short(given)}, the program was made for {_short(wanted)}"


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = f"a {type(value).__name__}" if is_holder(value) else value if isinstance(value, str) and value.startswith("a ") else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def reader(spec: Any) -> Callable[[Any, Any], Any]:
    """What takes a call apart: a function of the arguments and keyword arguments that gives the leaves in their order, or a Miss that says how the call
    is another. It is written as code: a cache has some hundred attributes, each of which is compared."""
    names_in: dict[str, Any] = {"encode": encode, "attributes": _attributes, "why": Miss, "nodes": pytree.SUPPORTED_NODES, "dumps": json.dumps}
    lines = ["def read(args, kwargs):", " leaves = []", " v0 = (args, kwargs)"]
    count = [0]

    def constant(value: Any) -> str:
        names_in[f"c{len(names_in)}"] = value
        return f"c{len(names_in) - 1}"

    def new(source: str) -> str:
        count[0] += 1
        lines.append(f" v{count[0]} = {source}")
        return f"v{count[0]}"

    def miss(condition: str, path: Path, given: str, wanted: Any) -> None:
        lines.append(f" if {condition}: return why({constant(path)}, {given}, {constant(wanted)})")

    def walk(one: Any, place: str, path: Path) -> None:
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
        elif _is_ours(one):
            miss(f"type({place}) is not {constant(one.type)}", path, place, f"a {one.type.__name__}")
            inside, plain = _read(one.context)
            held = new(f"attributes({place})" if _slots(one.type) else f"{place}.__dict__")
            miss(f"len({held}) != {len(inside) + len(plain)}", path, place, f"a {one.type.__name__} with {len(inside) + len(plain)} attributes")
            for name, value in plain:
                here, known = (*path, ("attribute", name)), decode(value)
                got = new(f"{held}.get({name!r})")
                if isinstance(known, str | int | float) and not isinstance(known, bool | enum.Enum):
                    miss(f"type({got}) is not {constant(type(known))} or {got} != {constant(known)}", here, got, known)
                elif known is None or isinstance(known, bool | type | torch.dtype | torch.layout | torch.memory_format | enum.Enum):
                    miss(f"{got} is not {constant(known)}", here, got, known)
                elif isinstance(known, torch.device):
                    miss(f"{got} != {constant(known)}", here, got, known)
                else:
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
            apart = new(f"nodes[{constant(one.type)}].flatten_fn({place})")
            miss(f"{apart}[1] != {constant(one.context)} or len({apart}[0]) != {len(children)}", path, place, "with other contents")
            for k, child in enumerate(children):
                walk(child, new(f"{apart}[0][{k}]"), (*path, ("item", k)))

    names_in["same"] = _same_plain
    walk(spec, "v0", ())
    lines.append(" return leaves")
    exec(compile("\n".join(lines), "<arguments>", "exec"), names_in)
    found: Callable[[Any, Any], Any] = names_in["read"]
    return found


def _same_plain(value: Any, known: Any) -> bool:
    try:
        return bool(encode(value) == known)
    except Unheld:
        return False


def builder(spec: Any) -> Callable[[Any, Any, Any], Any]:
    """What puts a result together: a function of its leaves and the call's arguments and keyword arguments. What the call set anew in the caller's
    objects is set then; what it returns of theirs is theirs."""

    def build(one: Any, leaves: Iterator[Any], args: Any, kwargs: Any) -> Any:
        if one.type is None:
            return next(leaves)
        if one.type is Returned:
            return at(json.loads(one.context), args, kwargs)
        children = [build(child, leaves, args, kwargs) for child in trees.children(one)]
        if one.type is Answer:
            # Found before anything is set: a path may lead through what is.
            targets = [(at(path, args, kwargs), name, known) for path, name, known in json.loads(one.context)]
            new = iter(children[1:])
            for target, name, known in targets:
                value = next(new) if known is None else decode(known[0])
                if name is None:
                    _fill(target, value)
                else:
                    object.__setattr__(target, name, value)
            return children[0]
        if _is_ours(one):
            return made(one.type, children, one.context)
        if isinstance(one.context, type) and issubclass(one.context, tuple):
            return one.context(*children)
        return pytree.SUPPORTED_NODES[one.type].unflatten_fn(children, one.context)

    return lambda leaves, args, kwargs: build(spec, iter(leaves), args, kwargs)
