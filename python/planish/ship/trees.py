"""Nestings of arguments and results: as documents name them.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree


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
