"""Where values inside a program lie: in the order in which what reads them goes through them.

PyTorch's elementwise operators keep the strides of what they are given. So a transposed view at the beginning of a network
(a convolution's result seen as a sequence) leaves all of its residual stream with time beside time, and every norm reads its
rows across. And `.contiguous()` copies a tensor that its reader would take as it lies. What lies inside a program nobody
sees: its strides are the program's choice, not the model's. Inputs and results keep theirs, and what is a view of another
value lies as that does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from planish.capture import arguments, draws

FLOATS = ("bf16", "f16", "f32")
ROW = 4  # what an element costs that a row's fold reads across, in elements that are moved once

# They fold rows of what they read: the argument, and those that name the dims.
NORMS = ("aten.native_layer_norm", "aten._fused_rms_norm")
SOFTMAXES = ("aten._softmax", "aten._log_softmax")
SUMS = ("aten.mean", "aten.sum", "aten.amax", "aten.amin", "aten.var", "aten.var_mean", "aten.linalg_vector_norm", "aten.logsumexp")
# They read rows, and write them.
PRODUCTS = ("aten.linear", "aten.addmm", "aten.mm", "aten.bmm", "aten.matmul", "aten.conv1d")
ATTENTION = "aten.scaled_dot_product_attention"
ALIKE = ("aten.clone", "aten._to_copy")  # beside operators that torch calls pointwise

Strides = list[int]


def in_order(shape: Sequence[int], order: Iterable[int]) -> Strides:
    """Strides of a dense tensor whose dims lie in this order, the innermost last."""
    strides = [0] * len(shape)
    step = 1
    for d in reversed(list(order)):
        strides[d] = step
        step *= max(shape[d], 1)
    return strides


def order_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The order of a dense tensor's dims; dims of one element stand where they would in rows. None: it has gaps."""
    whole = [d for d in range(len(shape)) if shape[d] > 1]
    ordered = sorted(whole, key=lambda d: -strides[d])
    step = 1
    for d in reversed(ordered):
        if strides[d] != step:
            return None
        step *= shape[d]
    rest = iter(ordered)
    return tuple(next(rest) if shape[d] > 1 else d for d in range(len(shape)))


def _same(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    return all(n <= 1 or x == y for n, x, y in zip(shape, a, b, strict=True))


def _has_rows(shape: Sequence[int], strides: Sequence[int], folded: int) -> bool:
    """Whether the last `folded` dims lie beside each other."""
    step = 1
    for d in range(len(shape) - 1, len(shape) - folded - 1, -1):
        if shape[d] > 1 and strides[d] != step:
            return False
        step *= shape[d]
    return True


class _Memory:
    """A value that has memory of its own. `views`: what is seen of it, with the node and the value that each is made of."""

    def __init__(self) -> None:
        self.views: list[tuple[int, int]] = []  # (number of the node, the value it reads), in the program's order
        self.pinned = False


class _Layouts:
    def __init__(self, document: dict[str, Any], nodes: list[fx.Node]) -> None:
        self.values: list[dict[str, Any]] = document["values"]
        self.entries: list[dict[str, Any]] = document["nodes"]
        self.nodes = nodes
        self.base = list(range(len(self.values)))
        self.memory = [_Memory() for _ in self.values]
        self.dims: list[tuple[int, ...] | None] = [tuple(range(len(v["shape"]))) for v in self.values]  # of the base, where it is those in another order
        self.alike: list[tuple[int, int]] = []  # (operand, result): of one shape, element by element
        self.rows_of: dict[int, list[tuple[int, int]]] = {}  # how many of a value's last dims had better lie beside each other, and what it costs
        self.made: set[int] = set()  # written as it is declared
        made = {out for entry in self.entries for out in entry["outs"]}
        for v, value in enumerate(self.values):
            self.memory[v].pinned = v not in made or value["dtype"] not in FLOATS or order_of(value["shape"], value["strides"]) is None
        for end in document["outputs"]:
            if "value" in end:
                self.memory[end["value"]].pinned = True
        for number in range(len(nodes)):
            self._read(number)
        self.sees: dict[int, list[int]] = {}  # by base: it, and what is seen of it
        for v in range(len(self.values)):
            self.memory[self.base[v]].pinned |= self.memory[v].pinned
            self.sees.setdefault(self.base[v], []).append(v)
        self.pairs_of: dict[int, list[tuple[int, int]]] = {}
        for pair in self.alike:
            for v in pair:
                self.pairs_of.setdefault(v, []).append(pair)

    def _want_rows(self, v: int, folded: int, price: int) -> None:
        self.rows_of.setdefault(v, []).append((folded, price * self._elements(v)))

    def _pin(self, values: Iterable[int | None]) -> None:
        for v in values:
            if v is not None:
                self.memory[v].pinned = True

    def _elements(self, v: int) -> int:
        return math.prod(self.values[v]["shape"])

    def _read(self, number: int) -> None:
        entry, node = self.entries[number], self.nodes[number]
        op = entry["op"].rsplit(".", 1)[0]
        read, outs = arguments.values_read(entry), [out for out in entry["outs"] if out is not None]
        given = {arg["name"]: arg for arg in entry["args"]}
        target = node.target
        if draws.ARGUMENT in given:
            self._pin([*read, *outs])  # which number an element gets goes by where it lies
        elif op in NORMS:
            shape = given.get("normalized_shape", {}).get("ints", [])
            self._fold(given["input"]["value"], len(shape))
            self.made.add(outs[0])
            self._pin(outs[1:])
        elif op in SOFTMAXES:
            v = given["self"]["value"]
            last = given["dim"]["int"] in (-1, len(self.values[v]["shape"]) - 1)
            self._fold(v, 1 if last else 0)
            self.made.update(outs)
            self.alike.append((v, outs[0]))
        elif op in SUMS:
            v = given.get("self", given.get("input", {})).get("value")
            rank = len(self.values[v]["shape"])
            folded = {d % rank for d in given.get("dim", {}).get("ints", []) if rank}
            self._fold(v, len(folded) if folded == set(range(rank - len(folded), rank)) else 0)
            self._pin(outs)
        elif op in PRODUCTS:
            left = next(given[name]["value"] for name in ("mat1", "input", "self") if name in given)
            if op != "aten.conv1d":
                self._want_rows(left, 1, 1)
            self._pin(v for v in read if v != left or op == "aten.conv1d")
            self.made.update(outs)
        elif op == ATTENTION and all(_has_rows(self.values[v]["shape"], self.values[v]["strides"], 1) for v in [*read[:3], *outs]):
            self._pin(read[3:])
            for v in [*read[:3], *outs]:
                self._want_rows(v, 1, ROW)
        elif isinstance(target, torch._ops.OpOverload) and self._is_view(target):
            self._see(number, read, outs, target)
        elif op in ALIKE or (isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags):
            for out in outs:
                for v in read:
                    if self.values[v]["shape"] == self.values[out]["shape"]:
                        self.alike.append((v, out))
        else:
            self._pin([*read, *outs])

    def _fold(self, v: int, folded: int) -> None:
        if folded:
            self._want_rows(v, folded, ROW)
        else:
            self._pin([v])

    @staticmethod
    def _is_view(target: torch._ops.OpOverload) -> bool:
        returned = target._schema.returns
        return target is torch.ops.aten._unsafe_view.default or (
            bool(returned) and all(r.alias_info is not None and not r.alias_info.is_write for r in returned)
        )

    def _see(self, number: int, read: list[int], outs: list[int], target: torch._ops.OpOverload) -> None:
        if len(read) != 1 or target is torch.ops.aten.as_strided.default or any(self.values[v]["dtype"] != self.values[read[0]]["dtype"] for v in outs):
            self._pin([*read, *outs])
            return
        source = read[0]
        self.memory[self.base[source]].views.append((number, source))
        order = self.dims[source] if all(self.values[v]["shape"] == self.values[source]["shape"] for v in outs) else None
        if target in (torch.ops.aten.permute.default, torch.ops.aten.transpose.int):
            rank = len(self.values[source]["shape"])
            seen = target(torch.empty_strided([1] * rank, list(range(rank)), device="meta"), *self.nodes[number].args[1:])
            known = self.dims[source]
            order = None if known is None else tuple(known[d] for d in seen.stride())
        for out in outs:
            self.base[out] = self.base[source]
            self.dims[out] = order

    def seen(self, base: int, strides: Strides) -> dict[int, Strides] | None:
        """Strides of a value and of all that is seen of it, if it has these. None: it cannot be seen so."""
        found = {base: strides}
        for number, source in self.memory[base].views:
            value, node = self.values[source], self.nodes[number]
            try:
                result = node.target(torch.empty_strided(value["shape"], found[source], device="meta"), *node.args[1:], **node.kwargs)  # type: ignore[operator]
            except (RuntimeError, ValueError):
                return None
            results = [result] if isinstance(result, torch.Tensor) else list(result)
            for out, one in zip(self.entries[number]["outs"], results, strict=True):
                if out is not None:
                    found[out] = list(one.stride())
        return found

    def groups(self) -> list[dict[int, tuple[int, ...]]]:
        """Values with memory that had better lie alike: of each its dims as those of the group's first. What is transposed
        against itself is in none."""
        found: dict[int, dict[int, tuple[int, ...]]] = {}
        of: dict[int, int] = {}

        def group(base: int) -> int:
            if base not in of:
                of[base] = base
                found[base] = {base: tuple(range(len(self.values[base]["shape"])))}
            return of[base]

        for v in {self.base[v] for v in range(len(self.values))}:
            if not self.memory[v].pinned:
                group(v)
        for a, b in self.alike:
            x, y = self.base[a], self.base[b]
            of_x, of_y = self.dims[a], self.dims[b]
            if self.memory[x].pinned or self.memory[y].pinned or of_x is None or of_y is None or group(x) == group(y):
                continue
            first, second = found[group(x)], found.pop(group(y))
            # Dim d of both operands is dim of_x[d] of x and dim of_y[d] of y.
            turned = {second[y][of_y[d]]: first[x][of_x[d]] for d in range(len(of_x))}
            for member, dims in second.items():
                first[member] = tuple(turned[d] for d in dims)
                of[member] = of[x]
        return list(found.values())

    def declared(self, base: int) -> dict[int, Strides]:
        return {v: self.values[v]["strides"] for v in self.sees[base]}

    def cost(self, strides: dict[int, Strides]) -> int:
        """What it costs to read and write these values and those beside them, in elements."""
        total = 0
        pairs: dict[tuple[int, int], None] = {}
        for v, its in strides.items():
            shape, was = self.values[v]["shape"], self.values[v]["strides"]
            total += sum(price for folded, price in self.rows_of.get(v, ()) if not _has_rows(shape, its, folded))
            total += self._elements(v) if v in self.made and not _same(shape, its, was) else 0
            pairs |= dict.fromkeys(self.pairs_of.get(v, ()))
        for a, b in pairs:
            x, y = (strides.get(v, self.values[v]["strides"]) for v in (a, b))
            total += 0 if _same(self.values[a]["shape"], x, y) else self._elements(a)
        return total

    def orders(self, members: dict[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Orders of the group's dims that one of its values, or what is copied from or to it, has, and those of rows."""
        found: dict[tuple[int, ...], None] = {}
        for base, of_group in members.items():
            for v in self.sees[base]:
                dims = self.dims[v]
                if dims is None:
                    continue
                for other in {v: None} | {w: None for pair in self.pairs_of.get(v, ()) for w in pair}:
                    order = order_of(self.values[other]["shape"], self.values[other]["strides"])
                    if order is not None:
                        found[tuple(of_group[dims[d]] for d in order)] = None
                if v in self.rows_of:
                    found[tuple(of_group[d] for d in dims)] = None
        return list(found)


def lay_out(document: dict[str, Any], nodes: list[fx.Node]) -> None:
    """Gives values that nobody sees the strides that cost what reads and writes them least. `nodes` are those of the document,
    which is changed: strides of its values."""
    layouts = _Layouts(document, nodes)
    for members in layouts.groups():
        best: dict[int, Strides] = {}
        least = layouts.cost({v: strides for base in members for v, strides in layouts.declared(base).items()})
        for order in layouts.orders(members) if least else ():
            then: dict[int, Strides] = {}
            for base, dims in members.items():
                seen = layouts.seen(base, in_order(layouts.values[base]["shape"], [dims.index(d) for d in order]))
                if seen is None:
                    break
                then |= seen
            else:
                cost = layouts.cost(then)
                if cost < least:
                    best, least = then, cost
        for v, strides in best.items():
            layouts.values[v]["strides"] = strides
