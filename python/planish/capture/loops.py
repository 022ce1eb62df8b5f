"""torch's operators that repeat a function, in a graph without functions: `scan` and a `while_loop` that counts, step by step; `map` as one call for all.

How often a `while_loop` goes round is known where its condition follows from numbers that the module sets itself. Where it asks what was computed, or there
are too many steps, the loop stays as it is, and the graph is refused: such a loop is a step between pieces."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from planish.capture.known_values import KnownValues
from planish.capture.splice import copied, spliced

_higher = torch.ops.higher_order
_WHILE, _SCAN, _MAP = (getattr(_higher, name, None) for name in ("while_loop", "scan", "map_impl"))
_aten = torch.ops.aten
#: Nodes that a loop may become. Beyond, planning takes longer than anyone waits, and each step is a kernel of its own.
MOST_NODES = 4000


def unroll_loops(module: fx.GraphModule, known: KnownValues) -> bool:
    """Replaces such loops of the graph; those inside of them, which it brings to light, at the next call. Whether there were any."""
    done = False
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target not in (_WHILE, _SCAN, _MAP) or node.target is None:
            continue
        results = {_WHILE: _counted, _SCAN: _scanned, _MAP: _mapped}[node.target](module, node, known)
        if results is None:
            continue
        for user in list(node.users):
            assert user.target is operator.getitem and isinstance(user.args[1], int)
            user.replace_all_uses_with(results[user.args[1]])
            module.graph.erase_node(user)
        module.graph.erase_node(node)
        done = True
    if done:
        module.graph.eliminate_dead_code()
        module.recompile()
    return done


def _size(module: fx.GraphModule, function: Any) -> int:
    return len(getattr(module, function.target).graph.nodes)


def _counted(module: fx.GraphModule, node: fx.Node, known: KnownValues) -> list[Any] | None:
    args: Any = node.args
    condition, body, carried, more = args
    steps = _rounds(module, condition, body, [known.value(c) for c in carried], [known.value(m) for m in more])
    if steps is None or steps * _size(module, body) > MOST_NODES:
        return None
    values: list[Any] = list(carried)
    with module.graph.inserting_before(node):
        for _ in range(steps):
            values = copied(module, body, [*values, *more])
    return values


def _rounds(module: fx.GraphModule, condition: Any, body: Any, carried: Sequence[torch.Tensor | None], more: Sequence[torch.Tensor | None]) -> int | None:
    """How often the loop goes round; None where that is not known."""
    asks, does = (getattr(module, function.target).graph for function in (condition, body))
    for steps in range(MOST_NODES):
        goes_on = _results(asks, [*carried, *more])[0]
        if goes_on is None:
            return None
        if not bool(goes_on):
            return steps
        carried = _results(does, [*carried, *more])
    return None


def _results(graph: fx.Graph, given: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """What the function gives, as far as it follows from what is known of its arguments."""
    places = [n for n in graph.nodes if n.op == "placeholder"]
    known = KnownValues({n: value for n, value in zip(places, given, strict=True) if value is not None})
    found: Any = graph.output_node().args[0]
    return [known.value(n) for n in (found if isinstance(found, tuple | list) else (found,))]


def _scanned(module: fx.GraphModule, node: fx.Node, known: KnownValues) -> list[Any] | None:
    """Carried values behind the last step, then what each step gave, one above the other."""
    args: Any = node.args
    combine, carried, rows, more = args
    steps = rows[0].meta["val"].shape[0]
    if steps * _size(module, combine) > MOST_NODES:
        return None
    values, given = list(carried), list[list[Any]]()
    for t in range(steps):
        row = [spliced(module.graph, node, _row(t), [r]) for r in rows]
        with module.graph.inserting_before(node):
            found = copied(module, combine, [*values, *row, *more])
        values, step = found[: len(carried)], found[len(carried) :]
        given.append(step)
    return [*values, *(spliced(module.graph, node, _stacked, [step[k] for step in given]) for k in range(len(given[0])))]


def _row(t: int) -> Any:
    return lambda x: _aten.select.int(x, 0, t)


def _stacked(*rows: torch.Tensor) -> torch.Tensor:
    return _aten.cat.default([row.unsqueeze(0) for row in rows])


def _mapped(module: fx.GraphModule, node: fx.Node, known: KnownValues) -> list[Any] | None:
    args: Any = node.args
    function, rows, more = args
    inner = getattr(module, function.target)
    given = [*rows, *more]
    if not all(isinstance(n, fx.Node) for n in given):
        return None
    whole = torch.vmap(inner, in_dims=(*[0] * len(rows), *[None] * len(more)))
    try:
        return list(spliced(module.graph, node, lambda *t: tuple(whole(*t)), given))
    except (RuntimeError, NotImplementedError, ValueError):  # what vmap has no rule for
        return None
