"""Products whose rows belong to groups, each with a matrix of its own: the experts of a mixture.

A graph has one operator for them, `aten._grouped_mm`. PyTorch's own call becomes it. So does a custom operator that does the same: which one
does is found by asking it, with small groups of every kind, not by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._meta_registrations as registrations
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

#: Types that torch's operator multiplies, on processors and on GPUs.
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_ALIGNMENT = 16  # bytes between rows, or columns
#: Of a product that torch's operator does not take, so many groups are multiplied one by one, each with all rows.
MOST_IN_TURN = 32
_ROWS, _DEPTH, _COLUMNS = 7, 8, 16
#: Where groups end, of those rows: empty ones at either end and between, all rows in one, rows behind the last.
_ENDS = ((2, 2, 5, 7), (0, 0, 0, 7), (7, 7, 7, 7), (0, 3, 3, 7), (1, 3, 4, 6), (0, 0, 0, 0))


def grouped_product(
    self: torch.Tensor, mat2: torch.Tensor, offs: torch.Tensor | None = None, bias: torch.Tensor | None = None, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """What `aten._grouped_mm` computes, in any type: 2 dims by 3 (rows belong to groups), 3 by 2 (columns do), 2 by 2 (parts of the sum do, each
    a product of its own), 3 by 3 (a batch). What belongs to no group is zero. Raises ValueError for offsets that no groups have."""
    if offs is None:
        return torch.bmm(self, mat2)
    length = self.shape[0] if self.ndim == 2 and mat2.ndim == 3 else mat2.shape[1] if self.ndim == 3 else self.shape[1]
    ends = [int(end) for end in offs.tolist()]
    if any(a > b for a, b in zip([0, *ends], [*ends, length], strict=True)):
        raise ValueError(f"offsets {ends} of groups must not fall, nor leave 0 to {length}")
    groups = list(zip([0, *ends[:-1]], ends, strict=True))
    if self.ndim == 2 and mat2.ndim == 2:
        return torch.stack([self[:, a:b] @ mat2[a:b] for a, b in groups])
    if self.ndim == 2:
        out = self.new_zeros(self.shape[0], mat2.shape[2])
        for (a, b), one in zip(groups, mat2, strict=True):
            out[a:b] = self[a:b] @ one
        return out
    out = self.new_zeros(self.shape[1], mat2.shape[1])
    for (a, b), one in zip(groups, self, strict=True):
        out[:, a:b] = one @ mat2[:, a:b]
    return out


def scaled_grouped_product(
    self: torch.Tensor, mat2: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, offs: torch.Tensor | None = None, **_: object
) -> torch.Tensor:
    """What `aten._scaled_grouped_mm` computes of rows in groups, with scales of rows and of each matrix's columns, in any type."""
    return grouped_product(self * scale_a.unsqueeze(1), mat2 * scale_b.unsqueeze(1), offs)


class GroupedInDouble(TorchDispatchMode):
    """While this holds, `aten._grouped_mm` multiplies doubles as well, which torch's own does not."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten._grouped_mm.default and args[0].dtype is torch.float64:
            return grouped_product(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@contextmanager
def shapes_of_grouped_products() -> Iterator[None]:
    """While this holds, torch traces `_grouped_mm` in all types that it computes: its own rule for shapes knows bfloat16 alone."""
    theirs = registrations._meta_grouped_mm_common

    def shapes(mat_a: Any, mat_b: Any, scale_a: Any, scale_b: Any, offs: Any = None, bias: Any = None, *more: Any, **named: Any) -> Any:
        if scale_a is not None or scale_b is not None or mat_a.dtype not in _TYPES:
            return theirs(mat_a, mat_b, scale_a, scale_b, offs, bias, *more, **named)
        if why := lacking(mat_a, mat_b, offs):
            raise RuntimeError(f"_grouped_mm: {why}")
        out_dtype = named.get("out_dtype") or mat_a.dtype
        if bias is not None or out_dtype != mat_a.dtype:
            raise RuntimeError("_grouped_mm: torch computes neither a bias nor results of another type")
        shape = shape_of(mat_a, mat_b, offs)
        pitch = math.ceil(shape[-1] * mat_a.element_size() / _ALIGNMENT) * _ALIGNMENT // mat_a.element_size()
        return mat_a.new_empty_strided(shape, ((shape[1] * pitch,) if len(shape) == 3 else ()) + (pitch, 1))

    registrations._meta_grouped_mm_common = shapes
    try:
        yield
    finally:
        registrations._meta_grouped_mm_common = theirs


def shape_of(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None) -> tuple[int, ...]:
    """The result's."""
    if a.ndim == b.ndim:
        return (a.shape[0] if a.ndim == 3 or offs is None else offs.shape[0], a.shape[-2], b.shape[-1])
    return (a.shape[-2], b.shape[-1])


def lacking(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None) -> str:
    """Why torch's operator does not take these; empty where it does."""
    if a.dtype not in _TYPES or a.dtype != b.dtype:
        return f"it multiplies two tensors of one type of float32, bfloat16 and float16, not {a.dtype} and {b.dtype}"
    if a.ndim not in (2, 3) or b.ndim not in (2, 3):
        return "factors have 2 or 3 dims"
    if (offs is None) != (a.ndim == b.ndim == 3):
        return "offsets belong to factors of 2 dims"
    if a.shape[-1] != b.shape[-2]:
        return "the factors' inner dims differ"
    groups = {t.shape[0] for t in (a, b) if t.ndim == 3} | (set() if offs is None else {offs.shape[0]})
    if len(groups) != 1:
        return "the factors have different numbers of groups"
    if offs is not None and (offs.ndim != 1 or offs.dtype != torch.int32):
        return "offsets have one dim and are int32"
    for one in (a, b):
        down, along = one.stride()[-2:]
        pitch = along if down == 1 and along >= max(1, one.shape[-2]) else down if along == 1 and down >= max(1, one.shape[-1]) else 0
        if pitch == 0 or pitch * one.element_size() % _ALIGNMENT:
            return f"rows or columns of a factor do not lie a multiple of {_ALIGNMENT} bytes apart"
    return ""


def name_grouped_products(graph: fx.Graph) -> None:
    """Replaces custom operators that multiply groups of rows, as they show when they are asked, by operators that a graph can hold."""
    known: dict[Any, bool] = {}
    for node in list(graph.nodes):
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace in ("aten", "prims", "prim"):
            continue
        factors = _factors(node)
        if factors is None:
            continue
        device = factors[0].meta["val"].device
        if (target, device) not in known:
            known[target, device] = _multiplies_groups(target, [a.meta["val"].ndim for a in node.args], factors[0].meta["val"].dtype, device)
        if known[target, device]:
            _replace(graph, node, factors)


def _factors(node: fx.Node) -> tuple[fx.Node, fx.Node, fx.Node] | None:
    """Rows, matrices and offsets, where those are all that the operator takes and its result has the product's form."""
    if node.kwargs or len(node.args) != 3 or not all(isinstance(a, fx.Node) and isinstance(a.meta.get("val"), torch.Tensor) for a in node.args):
        return None
    result = node.meta.get("val")
    if node.target._schema.is_mutable or not isinstance(result, torch.Tensor):  # type: ignore[union-attr]
        return None
    by_dims = {a.meta["val"].ndim: a for a in node.args}  # type: ignore[union-attr]
    if set(by_dims) != {1, 2, 3}:
        return None
    offs, rows, matrices = (by_dims[d].meta["val"] for d in (1, 2, 3))  # type: ignore[union-attr]
    floats = rows.is_floating_point() and rows.dtype == matrices.dtype == result.dtype
    if not floats or offs.dtype not in (torch.int32, torch.int64) or offs.shape[0] != matrices.shape[0]:
        return None
    if rows.shape[1] != matrices.shape[1] or tuple(result.shape) != (rows.shape[0], matrices.shape[2]) or not result.is_contiguous():
        return None
    return by_dims[2], by_dims[3], by_dims[1]  # type: ignore[return-value]


def _multiplies_groups(target: Callable[..., Any], dims: Sequence[int], dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the operator, with arguments of these numbers of dims, gives the grouped product whatever the groups are."""
    generator = torch.Generator().manual_seed(1)
    tolerance = 8 * _DEPTH * torch.finfo(dtype).eps

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).to(device)

    try:
        for ends in _ENDS:
            offs = torch.tensor(ends, dtype=torch.int32, device=device)
            rows, matrices = drawn(_ROWS, _DEPTH), drawn(len(ends), _COLUMNS, _DEPTH).transpose(1, 2)
            given = {1: offs, 2: rows, 3: matrices}
            with torch.no_grad():
                found = target(*(given[d] for d in dims))
            wanted = grouped_product(rows.double(), matrices.double(), offs)
            if found.shape != wanted.shape or not bool((found.double() - wanted).abs().max() <= tolerance * max(1.0, float(wanted.abs().max()))):
                return False
        return True
    except Exception:  # an operator of somebody else's that does not take such arguments is no such product
        return False


class _Nodes:
    """Makes nodes in the place of another, with what they give."""

    def __init__(self, graph: fx.Graph, instead: fx.Node) -> None:
        self.graph = graph
        self.instead = instead
        mode = detect_fake_mode([instead.meta["val"]])
        assert mode is not None
        self.mode = mode

    def add(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        node.meta = {k: v for k, v in self.instead.meta.items() if k != "val"}
        known_args, known_kwargs = fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])  # type: ignore[misc]
        with self.mode, torch.no_grad():
            node.meta["val"] = target(*known_args, **known_kwargs)
        assert isinstance(node.meta["val"], FakeTensor)
        return node


def _replace(graph: fx.Graph, node: fx.Node, factors: tuple[fx.Node, fx.Node, fx.Node]) -> None:
    rows, matrices, offs = factors
    with graph.inserting_before(node), shapes_of_grouped_products():
        nodes = _Nodes(graph, node)
        if offs.meta["val"].dtype != torch.int32:
            offs = nodes.add(aten._to_copy.default, offs, dtype=torch.int32)
        if lacking(*(n.meta["val"] for n in (rows, matrices, offs))):
            if matrices.meta["val"].shape[0] > MOST_IN_TURN:
                return
            made = _in_turn(nodes, rows, matrices, offs)
        else:
            product = nodes.add(aten._grouped_mm.default, rows, matrices, offs)
            # Rows behind the last group: torch's operator leaves what lies there.
            made = nodes.add(aten.where.self, _before(nodes, rows, offs, -1), product, _zero(nodes, rows))
            if not made.meta["val"].is_contiguous():
                made = nodes.add(aten.clone.default, made, memory_format=torch.contiguous_format)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _zero(nodes: _Nodes, like: fx.Node) -> fx.Node:
    value = like.meta["val"]
    return nodes.add(aten.full.default, [], 0.0, dtype=value.dtype, device=value.device, pin_memory=False)


def _before(nodes: _Nodes, rows: fx.Node, offs: fx.Node, group: int) -> fx.Node:
    """By row: whether it stands before the end of the group."""
    value = rows.meta["val"]
    places = nodes.add(aten.arange.start_step, 0, value.shape[0], 1, dtype=torch.int32, device=value.device, pin_memory=False)
    inside = nodes.add(aten.lt.Tensor, places, nodes.add(aten.select.int, offs, 0, group))
    return nodes.add(aten.unsqueeze.default, inside, 1)


def _in_turn(nodes: _Nodes, rows: fx.Node, matrices: fx.Node, offs: fx.Node) -> fx.Node:
    """Every row with every matrix, of which its own stays: for sizes and types that torch's operator does not take."""
    made = None
    # From the last group to the first: what stands before the end of one is its, or an earlier one's.
    for group in reversed(range(matrices.meta["val"].shape[0])):
        product = nodes.add(aten.mm.default, rows, nodes.add(aten.select.int, matrices, 0, group))
        made = nodes.add(aten.where.self, _before(nodes, rows, offs, group), product, _zero(nodes, rows) if made is None else made)
    assert made is not None
    return made
