"""Random numbers in a graph (docs/decisions/0200-draws-are-steps-in-a-row.md).

An operator that draws reads the state of torch's generator and gives the one behind it: a value of the graph, from one draw to the next in eager's
order, the task's input before the first and a result behind the last. So none is left out, repeated or moved, and nothing else has to know of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

from planish.capture.source import line_of, line_of_caller
from planish.errors import task_error

#: Composite operators that the graph keeps whole, and that draw where they drop something.
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
ARGUMENT = "generator_state"  # of a node that draws: the state before; its last result is the state behind
INPUT, OUTPUT = "generator", "mutate_generator"  # kinds of the document's input and output


def bound(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an operator by name, with defaults."""
    schema = target._schema
    found = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    found.update({a.name: v for a, v in zip(schema.arguments, args, strict=False)})
    found.update(kwargs)
    return found


def draws(node: fx.Node) -> bool:
    """Whether a node's operator draws from torch's generator."""
    return hasattr(node.target, "_schema") and call_draws(node.target, node.args, node.kwargs)


def call_draws(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """The same of a call of an operator."""
    name = target._schema.name.partition("::")[2]
    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()) and name not in _RECURRENT:
        return False
    given = bound(target, args, kwargs)
    if given.get("train", given.get("training", True)) is False:
        return False
    if name in _RECURRENT:
        return float(given["dropout"]) > 0 and int(given["num_layers"]) > 1
    share = given.get("dropout_p", given.get("p") if "dropout" in name else None)
    return share is None or float(share) > 0


class Drawing(TorchDispatchMode):
    """Notes what draws while it holds: operators, each with the user's line."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call_draws(func, args, kwargs or {}):
            self.found.append((func._schema.name.partition("::")[2].rstrip("_"), line_of_caller()))
        return func(*args, **(kwargs or {}))


def unused(seen: Sequence[tuple[str, str]], nodes: Sequence[fx.Node]) -> str:
    """In words, the first draw of a run whose line has none in the graph."""
    known = {line_of(node) for node in nodes if draws(node)}
    return next((f"uses {name}{line}, which draws" for name, line in seen if line and line not in known), "draws")


def refuse_generators(node: fx.Node, path: Path) -> None:
    """Raises for a draw from a generator of the caller's own: its state is in no graph."""
    for value in (*node.args, *node.kwargs.values()):
        if isinstance(value, torch.Generator):
            name = node.target._schema.name.partition("::")[2]  # type: ignore[union-attr]
            raise own_generator(f"draws from a torch.Generator of its own ({name}{line_of(node)})", path)


def own_generator(what: str, path: Path) -> Exception:
    return task_error("random_ops", path, f"{what}, whose state no program keeps", "draw from torch's default generator, which torch.manual_seed seeds")


@contextmanager
def seeding_refused(path: Path) -> Iterator[None]:
    """While this holds, code that sets torch's generator raises: its state is the caller's, and no operator of a graph sets it."""
    places = [(torch, "manual_seed"), (torch.random, "manual_seed"), (torch, "seed"), (torch.random, "seed")]
    kept = [getattr(module, name) for module, name in places]

    def refuse(*_: Any) -> Any:
        what = f"seeds torch's generator{line_of_caller()}, which no step of a program does"
        raise task_error("random_ops", path, what, "seed it before the module is called")

    for module, name in places:
        setattr(module, name, refuse)
    try:
        yield
    finally:
        for (module, name), function in zip(places, kept, strict=True):
            setattr(module, name, function)


def write_dropouts(graph: fx.Graph, on_host: bool) -> None:
    """Writes dropouts as eager runs them, where torch.export has them as `native_dropout`. All that is dropped takes no draw; and on the CPU eager draws
    which elements stay, and multiplies: arithmetic that joins what lies beside it. On a GPU eager's own kernel does both at once, and its numbers
    depend on how it walks over the elements: there it stays whole."""
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.native_dropout.default:
            continue
        given = bound(node.target, node.args, node.kwargs)
        x, p = given["input"], float(given["p"])
        kept = {user.args[1]: user for user in node.users}
        if given["train"] is False or p <= 0 or 1 in kept or not (p >= 1 or on_host):
            continue
        meta = x.meta["val"]
        with graph.inserting_before(node):
            if p >= 1:
                new = _call(graph, node, aten.mul.Tensor, (x, _call(graph, node, aten.zeros_like.default, (x,), {}, torch.zeros_like(meta))), {}, meta)
            else:
                room = _call(graph, node, aten.empty_like.default, (x,), {"dtype": torch.bool}, torch.empty_like(meta, dtype=torch.bool))
                stays = _call(graph, node, aten.bernoulli.p, (room, 1.0 - p), {}, room.meta["val"])
                share = _call(graph, node, aten._to_copy.default, (stays,), {"dtype": meta.dtype}, torch.empty_like(meta))
                share = _call(graph, node, aten.div.Scalar, (share, 1.0 - p), {}, torch.empty_like(meta))
                new = _call(graph, node, aten.mul.Tensor, (x, share), {}, torch.empty_like(meta))
        for user in kept.values():
            user.replace_all_uses_with(new)
            graph.erase_node(user)
        graph.erase_node(node)


def draw_where_they_lie(graph: fx.Graph) -> None:
    """Gives the elements of a tensor whose dims lie in another order than they are named the numbers that eager's `bernoulli_` gives them, which goes by
    memory: the functional form that stands for it makes a tensor that lies as it is named."""
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.bernoulli.p:
            continue
        room = node.args[0]
        meta = room.meta["val"]
        order = sorted(range(meta.ndim), key=lambda d: (-meta.stride(d), d))
        if meta.is_contiguous() or not meta.permute(order).is_contiguous():
            continue
        back = [order.index(d) for d in range(meta.ndim)]
        with graph.inserting_before(node):
            lying = _call(graph, node, aten.permute.default, (room, order), {}, meta.permute(order))
            drawn = _call(graph, node, aten.bernoulli.p, (lying, *node.args[1:]), dict(node.kwargs), torch.empty_like(lying.meta["val"]))
            found = _call(graph, node, aten.permute.default, (drawn, back), {}, drawn.meta["val"].permute(back))
        node.replace_all_uses_with(found)
        graph.erase_node(node)


def _call(graph: fx.Graph, where: fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: torch.Tensor) -> fx.Node:
    made = graph.call_function(target, args, kwargs)
    made.meta = {key: where.meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "custom") if key in where.meta}
    made.meta["val"] = value
    return made
