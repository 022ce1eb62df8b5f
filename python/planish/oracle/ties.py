"""Indices of tied values: argmax may name any of the equal largest, topk and sort may order equals as they like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from planish.oracle import layout
from planish.oracle.interpret import Double, Interpreter, Mode, op_name

if TYPE_CHECKING:
    from planish.oracle.expected import Output

# Operation → (position of the index result, name of the dim argument, an index may appear twice along the dim).
_INDEXED = {
    "argmax": (0, True),
    "argmin": (0, True),
    "max": (1, True),
    "min": (1, True),
    "topk": (1, False),
    "sort": (1, False),
    "argsort": (0, False),
    "median": (1, True),
    "mode": (1, True),
    "kthvalue": (1, True),
    "cummax": (1, True),
    "cummin": (1, True),
}
_RESHAPING = {"view", "reshape", "squeeze", "unsqueeze", "clone", "alias", "_to_copy", "_unsafe_view", "detach"}
# torch says which of equal values these name: the first; and a stable sort keeps the order of equals.
_FIRST = {"argmax", "argmin", "max", "min"}
_DRAWS = 8
_ROOM = 3.0  # times the noise of two values that may change places
_SUM_ROOM = 1.5


def forgive(
    run: Interpreter,
    out: Output,
    actual: torch.Tensor,
    wrong: torch.Tensor,
    inputs: Mapping[int, torch.Tensor],
    cache: dict[int, Any],
    mode: Callable[[int], Double],
) -> torch.Tensor:
    """`actual` and `wrong` are flat in storage order; the result is `wrong` without those that name a value which may change places with the right
    one, by the noise that these values have here (none where they are inputs: then torch's own rule of equals decides)."""
    source = _source(run, out.value)
    if source is None:
        return wrong
    node, position = source
    bound = _bind(node)
    if out.value not in cache:
        cache[out.value] = _values(run, node, inputs, mode)
    values, noise, finite = cache[out.value]
    dim = bound.get("dim", -1 if op_name(node) in ("topk", "sort", "argsort") else None)
    if dim is None:
        values, noise, finite, dim = values.reshape(-1), noise.reshape(-1), finite.reshape(-1), 0
    shape = list(node.meta["val"][position].shape if isinstance(node.meta["val"], (tuple, list)) else node.meta["val"].shape)
    logical = [out.shape[d] for d in out.order]
    inverse = [out.order.index(d) for d in range(len(out.order))]

    def natural(flat: torch.Tensor) -> torch.Tensor:
        return flat.reshape(logical).permute(inverse).reshape(shape)

    mine, theirs = natural(actual.long()), natural(out.exact.long())
    if mine.ndim == values.ndim - 1:
        mine, theirs = mine.unsqueeze(dim), theirs.unsqueeze(dim)
    if mine.ndim == 0:
        mine, theirs = mine.reshape(1), theirs.reshape(1)
    if mine.ndim != values.ndim or values.ndim == 0:
        return wrong
    size = values.shape[dim]
    inside = (mine >= 0) & (mine < size)
    at, right = mine.clamp(0, size - 1), theirs.clamp(0, size - 1)
    a, b = values.gather(dim, at), values.gather(dim, right)
    room = torch.maximum(noise.gather(dim, at), noise.gather(dim, right))
    apart = (a - b).abs()
    near = a.isfinite() & b.isfinite() & (apart <= _ROOM * room) & (room > 0)
    # As near to the right ones on the whole as eager is, which cannot choose better than its values let it.
    eager = natural(out.eager.long())
    eager = eager.unsqueeze(dim) if eager.ndim == values.ndim - 1 else eager.reshape(1) if eager.ndim == 0 else eager
    theirs_apart = (values.gather(dim, eager.clamp(0, size - 1)) - b).abs().nan_to_num(0.0, 0.0, 0.0).sum()
    total = apart.nan_to_num(0.0, 0.0, 0.0).sum()
    near &= total <= _SUM_ROOM * torch.maximum(theirs_apart, room.sum() / 2) + _ROOM * room.mean()
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    if op_name(node) in _FIRST or bound.get("stable"):
        same &= (room > 0) | (at == right)
    # Where what eager chose by has overflowed, and the reference has not, its choice is none.
    lost = (values.isfinite() & ~finite).any(dim, keepdim=True)
    fine = inside & (near | same | lost)
    if not _INDEXED[op_name(node)][1] and mine.shape[dim] > 1:
        ordered, _ = mine.sort(dim)
        repeated = (ordered.diff(dim=dim) == 0).any(dim, keepdim=True)
        fine = fine & ~repeated
    fine = fine.reshape(shape).reshape(out.shape)
    return wrong & ~layout.flat(fine, out.order)


def is_position(run: Interpreter, value: int) -> bool:
    """Whether the value holds positions along a dim (argmax, topk, …), also through reshapes."""
    return _source(run, value) is not None


def _source(run: Interpreter, value: int) -> tuple[torch.fx.Node, int] | None:
    """The node that made these indices, and which of its results they are, through reshapes."""
    for _ in range(8):
        made = next(((i, outs.index(value)) for i, outs in zip(run.nodes, run._outs, strict=True) if value in outs), None)
        if made is None:
            return None
        node = run.captured.nodes[made[0]]
        name = op_name(node)
        if name in _INDEXED and made[1] == _INDEXED[name][0]:
            return node, made[1]
        if name not in _RESHAPING:
            return None
        before = run._value(node.all_input_nodes[0])
        if before is None:
            return None
        value = before
    return None


def _values(run: Interpreter, node: torch.fx.Node, inputs: Mapping[int, torch.Tensor], mode: Callable[[int], Double]) -> tuple[torch.Tensor, ...]:
    """What was compared, in fp64; how far rounding moves each of it; where it is finite in eager's run."""
    source = run._value(node.all_input_nodes[0])
    assert source is not None
    tensor = run.run(inputs, [source], Double())[source]
    tensor = tensor if tensor.is_floating_point() else tensor.to(torch.float64)
    noise, finite = torch.zeros_like(tensor), torch.ones_like(tensor, dtype=torch.bool)
    if source not in inputs and run.dtypes[source].is_floating_point:
        for draw in range(_DRAWS):
            moved = (run.run(inputs, [source], mode(draw))[source] - tensor).abs_()
            noise = torch.maximum(noise, moved.nan_to_num_(0.0, 0.0, 0.0))
        finite = run.run(inputs, [source], Mode())[source].isfinite()
    return tensor, noise, finite


def _bind(node: torch.fx.Node) -> dict[str, Any]:
    schema = node.target._schema  # type: ignore[union-attr]
    bound = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    bound.update({a.name: v for a, v in zip(schema.arguments, node.args, strict=False)})
    bound.update(node.kwargs)
    return bound
