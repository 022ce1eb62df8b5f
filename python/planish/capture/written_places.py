"""Integers of a call that say where a program writes, each place once: slots of a paged cache, pages of a table, rows that are replaced.

Where two of them are the same, what such a write leaves is whichever came last, which PyTorch does not define. So a call whose integers are all
different stands for calls with that property, and data that is drawn for tests and times keeps it (live.redraw). What is added up at such places,
or only read, is defined for any integers, and gets any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planish.capture.arguments import values_read

_WHOLE = frozenset({"i64", "i32", "i16", "i8", "u8"})
#: The argument that says where, by operator.
_PLACES = {"index_put": "indices", "_unsafe_index_put": "indices", "index_copy": "index", "scatter": "index"}


def leaves_of_places(graph: dict[str, Any]) -> list[int]:
    """Leaves of the call of whose integers places come, in order."""
    values = graph["values"]
    made = {out: node for node in graph["nodes"] for out in node["outs"] if out is not None}
    ahead, seen = [place for node in graph["nodes"] for place in _written(node, values)], set()
    while ahead:
        value = ahead.pop()
        if value in seen or values[value]["dtype"] not in _WHOLE:
            continue
        seen.add(value)
        if value in made:
            ahead.extend(values_read(made[value]))
    return sorted(item["index"] for item in graph["inputs"] if item["kind"] == "user" and item["value"] in seen)


def _written(node: dict[str, Any], values: list[dict[str, Any]]) -> Iterator[int]:
    """The values that say where it writes, if what it leaves hangs on which of two equal places comes last."""
    given = {arg["name"]: arg for arg in node["args"]}
    name = node["op"].split(".")[1]
    if name not in _PLACES or given.get("accumulate", {}).get("bool") or given.get("reduce", {}).get("str"):
        return
    source = next((given[key]["value"] for key in ("values", "source", "src") if "value" in given.get(key, {})), None)
    if source is None or values[source]["shape"] == []:  # one number everywhere
        return
    places = given[_PLACES[name]]
    yield from (place for place in places.get("values", [places.get("value")]) if place is not None)
