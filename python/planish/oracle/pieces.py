"""The fp64 run of a graph in blocks of its batch, where the whole has no place.

Every row of the largest input goes its own way (pointwise operations, and what works along the other dims) until all are folded into one
result. So blocks of rows are run one after the other, and sums, means, extremes and losses put together from theirs: nothing is left out,
and no more is alive than a block and the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from planish.oracle.interpret import Captured, Double, Interpreter, Mode, op_name, peak_bytes

BLOCK = 1 << 30  # bytes that a block takes
_ALONG = {"_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp"}  # one dim, and the result has the operand's shape
_ELEMENTWISE = {"_to_copy", "zeros_like", "ones_like", "full_like"}  # besides those that torch calls pointwise
_ROW, _TOTAL = "row", "total"  # else known before the first block
_NO_REDUCTION, _MEAN, _SUM = 0, 1, 2

Fold = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_FOLDS: dict[str, Fold] = {"sum": torch.add, "mean": torch.add, "amax": torch.maximum, "amin": torch.minimum}


class _Made(Mode):
    """A mode that takes some inputs as they are: it has made them before."""

    def __init__(self, mode: Double, made: Iterable[torch.Tensor]) -> None:
        self.mode = mode
        self.settles = mode.settles
        self._made = {id(t) for t in made}

    def begin(self) -> Any:
        return self.mode.begin()

    def value(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return tensor if id(tensor) in self._made else self.mode.value(tensor, dtype)

    def call(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        return self.mode.call(node, args, kwargs, dtypes)


class Pieces(Interpreter):
    """Gives what the whole gives, but that sums are added in another order. Runs that are not in double are those of the whole."""

    def __init__(self, captured: Captured, nodes: Sequence[int], inputs: Sequence[int], wanted: Sequence[int]) -> None:
        """Raises ValueError where rows do not go their own way."""
        super().__init__(captured, nodes)
        if self._settled:
            raise ValueError("what constants alone decide is decided as torch does")
        largest = max((self._shapes[v] for v in inputs), key=lambda s: s.numel(), default=torch.Size())
        if len(largest) < 1 or largest[0] < 2:
            raise ValueError("no batch")
        self._batch = largest[0]
        alike = [v for v in inputs if len(self._shapes[v]) == len(largest) and self._shapes[v][0] == self._batch]
        self._kinds: dict[int, str] = dict.fromkeys(alike, _ROW)
        self._folds: list[int] = []  # positions
        self._stages: dict[str, list[int]] = {"": [], _ROW: [], _TOTAL: []}  # nodes
        for position in self.needed_for(wanted):
            self._classify(position)
        whole = peak_bytes(captured, nodes, inputs, wanted)
        self._rows = max(1, int(self._batch * BLOCK / max(1, whole)))
        if self._rows >= self._batch:
            raise ValueError("small")
        kept = sum(self._shapes[v].numel() * 8 for v in wanted if self._kinds.get(v) == _ROW)
        firsts = [v for v in {u for p in range(len(self.nodes)) for u in self._uses[p]} if v not in self._kinds]
        first = peak_bytes(captured, self._stages[""], inputs, firsts) if self._stages[""] else 0
        self.bytes = kept + first + 2 * BLOCK  # what one gives is there until it has been folded

    def run(self, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], mode: Mode) -> dict[int, torch.Tensor]:
        if not isinstance(mode, Double):
            return super().run(inputs, wanted, mode)
        known = self._first(inputs, wanted, mode)
        found = self._of_blocks(inputs, known, wanted, mode)
        rest = [v for v in wanted if v not in found and self._kinds.get(v) == _TOTAL]
        if rest:
            given = known | found
            found |= Interpreter(self.captured, self._stages[_TOTAL]).run(given, rest, _Made(mode, given.values()))
        return {v: found[v] if v in found else known[v] if v in known else mode.value(inputs[v], self.dtypes[v]) for v in wanted}

    def _first(self, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], mode: Double) -> dict[int, torch.Tensor]:
        """What does not have the batch, by id: once for all blocks."""
        steps = self.needed_for(wanted)
        needed = {v for position in steps for v in self._uses[position]} | set(wanted)
        with mode.begin():
            known = {v: mode.value(inputs[v], self.dtypes[v]) for v in sorted(needed) if v in inputs and v not in self._kinds}
        first = Interpreter(self.captured, self._stages[""])
        made = [o for outs in first._outs for o in outs if o is not None and o in needed]
        return known | (first.run(known, made, _Made(mode, known.values())) if made else {})

    def _of_blocks(self, inputs: Mapping[int, torch.Tensor], known: dict[int, torch.Tensor], wanted: Sequence[int], mode: Double) -> dict[int, torch.Tensor]:
        """Folded values, and the wanted ones that have the batch."""
        steps = set(self.needed_for(wanted))
        folds = [position for position in self._folds if position in steps]
        rows = [v for v in wanted if self._kinds.get(v) == _ROW]
        block = Interpreter(self.captured, self._stages[_ROW])
        asked = list(dict.fromkeys([*rows, *(v for position in folds for v in self._uses[position] if v not in known)]))
        found: dict[int, torch.Tensor] = {}
        for start in range(0, self._batch if asked else 0, self._rows):
            count = min(self._rows, self._batch - start)
            given = {v: t.narrow(0, start, count) for v, t in inputs.items() if self._kinds.get(v) == _ROW} | known
            values = block.run(given, asked, _Made(mode, known.values()))
            for value in rows:
                if value not in found:
                    shape, sample = self._shapes[value], values[value]
                    found[value] = torch.empty(shape, dtype=sample.dtype, device=sample.device)
                found[value].narrow(0, start, count).copy_(values[value])
            for position in folds:
                self._fold(position, values | known, count, found, mode)
        with mode.begin():
            for position in folds:
                (value,) = (o for o in self._outs[position] if o is not None)
                # The roundings of the mode, once, where the whole's result would have them.
                if not mode.step_inputs_only and op_name(self._node(position)) not in ("amax", "amin"):
                    found[value] = mode.value(found[value], self.dtypes[value])
        return found

    def _fold(self, position: int, env: dict[int, torch.Tensor], count: int, found: dict[int, torch.Tensor], mode: Double) -> None:
        node = self._node(position)
        plain = Double(tf32=mode.tf32)
        loss = op_name(node) not in _FOLDS
        with plain.begin():
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self._lookup(n, env))  # type: ignore[misc]
            mean = op_name(node) == "mean"
            if loss:
                bound = _arguments(node, args, kwargs)
                mean = bound["reduction"] == _MEAN
                args, kwargs = (), bound | {"reduction": _MEAN if mean else _SUM}
            (part,) = (r for r in plain.call(node, args, kwargs, []) if r is not None)
            part = part.clone() if not mean else part * (count / self._batch)
            (value,) = (o for o in self._outs[position] if o is not None)
            found[value] = part if value not in found else _FOLDS.get(op_name(node), torch.add)(found[value], part)

    def _node(self, position: int) -> torch.fx.Node:
        return self.captured.nodes[self.nodes[position]]

    def _classify(self, position: int) -> None:
        """Notes in which stage the node is run, and what its results are."""
        node, outs = self._node(position), [o for o in self._outs[position] if o is not None]
        kinds = {self._kinds.get(v, "") for v in self._uses[position]}
        if _ROW not in kinds:
            kind = _TOTAL if _TOTAL in kinds else ""
        elif _TOTAL in kinds:
            raise ValueError(f"{node} needs what all rows give")
        elif self._keeps_rows(position, outs):
            kind = _ROW
        elif self._folds_rows(node, outs, self._uses[position]):
            self._folds.append(position)
            self._kinds[outs[0]] = _TOTAL
            return
        else:
            raise ValueError(f"{node} mixes rows")
        self._stages[kind].append(self.nodes[position])
        if kind:
            self._kinds.update(dict.fromkeys(outs, kind))

    def _keeps_rows(self, position: int, outs: Sequence[int]) -> bool:
        node, uses = self._node(position), self._uses[position]
        name, tags = op_name(node), getattr(node.target, "tags", ())
        if not all(len(self._shapes[o]) and self._shapes[o][0] == self._batch for o in outs):
            return False
        if torch.Tag.pointwise in tags or name in _ELEMENTWISE:
            (dims,) = {len(self._shapes[o]) for o in outs}
            return all(len(self._shapes[v]) == dims if self._kinds.get(v) == _ROW else _is_spread(self._shapes[v], dims) for v in uses)
        if name not in _ALONG and torch.Tag.reduction not in tags:
            return False
        along = _arguments(node, node.args, node.kwargs).get("dim")
        (source,) = uses if len(uses) == 1 else (None,)
        return source is not None and along is not None and 0 not in _dims(along, len(self._shapes[source]))

    def _folds_rows(self, node: torch.fx.Node, outs: Sequence[int], uses: set[int]) -> bool:
        if len(outs) != 1:
            return False
        bound = _arguments(node, node.args, node.kwargs)
        if op_name(node) in _FOLDS and len(uses) == 1:
            (source,) = uses
            return 0 in _dims(bound.get("dim"), len(self._shapes[source]))
        # A loss: what it would give without a reduction has the shape of all its operands.
        if bound.get("reduction") not in (_MEAN, _SUM) or len({self._shapes[v] for v in uses}) != 1 or not all(self._kinds.get(v) == _ROW for v in uses):
            return False
        tensors = [self._shapes[v] for v in uses]
        try:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: torch.empty(self._shapes[self._value(n) or 0], device="meta"))  # type: ignore[misc]
            whole = node.target(**_arguments(node, args, kwargs) | {"reduction": _NO_REDUCTION})  # type: ignore[operator]
        except (RuntimeError, TypeError, NotImplementedError):
            return False
        return isinstance(whole, torch.Tensor) and whole.shape == tensors[0]


def of(run: Interpreter, inputs: Sequence[int], wanted: Sequence[int]) -> Pieces | None:
    """None where it cannot be had in pieces."""
    if run.draws:
        return None
    try:
        return Pieces(run.captured, run.nodes, [v for v in inputs if v in run.inputs_needed()], wanted)
    except ValueError:
        return None


def _is_spread(shape: torch.Size, dims: int) -> bool:
    """Whether a tensor without the batch is the same for every row of one with `dims` dims."""
    return len(shape) < dims or (len(shape) == dims and shape[0] == 1)


def _dims(along: Any, count: int) -> set[int]:
    """The dims that an argument names; without one all."""
    named = [along] if isinstance(along, int) else list(along or ())
    return {d % count for d in named} if named and count else set(range(count))


def _arguments(node: torch.fx.Node, args: Any, kwargs: Any) -> dict[str, Any]:
    """By name, with the defaults."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {}
    found = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return found | dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(kwargs)
