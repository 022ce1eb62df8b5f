"""Nestings of arguments and results: as documents name them, and as the C form reads them.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree


def nest(spec: Any, leaves: Iterator[int], scalars: dict[int, Any]) -> Any:
    """A tree of tuples, lists and dictionaries as the C form reads it, with the numbers of its tensor leaves; None for a tree of
    anything else."""
    inner = children(spec)
    if spec.type is None:
        leaf = next(leaves)
        return ("scalar", scalars[leaf]) if leaf in scalars else ("tensor", leaf)
    kind = {tuple: "tuple", list: "list", dict: "dict"}.get(spec.type)
    items = [nest(child, leaves, scalars) for child in inner]
    if kind is None or None in items:
        return None
    return (kind, items, list(spec.context)) if kind == "dict" else (kind, items)


def placed(nest: Any, places: dict[int, int]) -> Any:
    """The same with a tensor's place among the inputs in place of its number."""
    if nest[0] == "scalar":
        return nest
    if nest[0] == "tensor":
        return ("tensor", places[nest[1]])
    return (nest[0], [placed(item, places) for item in nest[1]], *nest[2:])


def name_types() -> None:
    """Gives names in documents to nestings that torch knows without one: the named tuples of its own operators (of `max` with a dim, say),
    and dataclasses registered without a `serialized_type_name`."""
    nameless = getattr(pytree, "NO_SERIALIZED_TYPE_NAME_FOUND", None)
    for cls, about in list(getattr(pytree, "SUPPORTED_SERIALIZED_TYPES", {}).items()):
        if about.serialized_type_name != nameless or not isinstance(cls, type):
            continue
        if cls.__module__ == "torch.return_types" or hasattr(cls, "__dataclass_fields__"):
            name = f"{cls.__module__}.{cls.__qualname__}"
            pytree.SUPPORTED_SERIALIZED_TYPES[cls] = about._replace(serialized_type_name=name)
            pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def children(spec: Any) -> list[Any]:
    """A treespec's children under the name of whichever torch this is."""
    found = spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs
    return list(found)
