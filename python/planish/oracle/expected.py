"""What the outputs of a region should be for one data set, and how far from it they may be.

The fp64 and the eager run happen once; TF32 and the response only when a candidate misses what eager's error and the floor
allow, and then once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from planish.oracle import flags, gate, layout, measure, ties
from planish.oracle.gate import Accuracy, Pair
from planish.oracle.interpret import Double, Interpreter, Mode, op_name

_OVERFLOWS = 11.0  # the exponential of more is no 16-bit float
_HOPELESS = 10.0  # times the gate that one draw gives


@dataclass
class Output:
    """One expected output. Floats: `ref`; integers and booleans: `exact` and `eager`, flat, in storage order."""

    position: int
    value: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    order: tuple[int, ...]
    eager: torch.Tensor
    exact: torch.Tensor
    ref: measure.Reference | None = None
    eager_error: Pair = gate.ZERO
    yardstick: Pair = gate.ZERO

    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.eager, self.exact))


@dataclass(frozen=True)
class Flips:
    """How many elements of an integer output move (weighted as the gate does), and by how much at most."""

    count: float = 0.0
    largest: float = 0.0

    def larger(self, a: torch.Tensor, b: torch.Tensor, factor: float = 1.0) -> Flips:
        """With the elements where `a` and `b` differ, each counted `factor` times."""
        apart = a != b
        count = int(apart.sum())
        if not count:
            return self
        distance = float((a[apart].to(torch.float64) - b[apart].to(torch.float64)).abs().max())
        return Flips(max(self.count, factor * count), max(self.largest, distance))


@dataclass
class Expected:
    """Everything about one data set. `inputs` are the values the region reads; they must not change while this lives."""

    run: Interpreter
    device: torch.device
    accuracy: Accuracy
    outputs: list[Output]
    reference: str = "fp64"
    tf32: list[Pair] | None = None
    response: list[Pair] = field(default_factory=list)
    narrow: list[Pair] = field(default_factory=list)
    draws: int = 0
    narrow_draws: int = 0
    nan_in_reference: bool = False
    part: Sliced | None = None
    _tie_cache: dict[int, Any] = field(default_factory=dict)
    _flips: dict[int, Flips] = field(default_factory=dict)

    @classmethod
    def compute(
        cls, run: Interpreter, inputs: Mapping[int, torch.Tensor], outputs: Sequence[tuple[int, int]], device: torch.device, accuracy: Accuracy
    ) -> Expected:
        """Runs eager and fp64. Raises what torch raises."""
        wanted = list(dict.fromkeys(v for _, v in outputs))
        with flags.eager_context(device, accuracy):
            eager = run.run(inputs, wanted, Mode())
        exact = run.run(inputs, wanted, Double())
        storages = {t.untyped_storage().data_ptr() for t in inputs.values()}
        found: list[Output] = []
        for position, value in outputs:
            found.append(make_output(run, position, value, eager[value], exact[value], storages, accuracy))
        del eager, exact
        expected = cls(run, device, accuracy, found)
        expected.nan_in_reference = any(o.ref is not None and not o.ref.clean for o in found)
        if all(o.ref is None for o in found):
            expected.reference = "exact"
        return expected

    def leave_open(self, inputs: Mapping[int, torch.Tensor], whole: bool) -> None:
        """Judges no element that a NaN or an Inf among `inputs` reaches (its reference is another with zeros in their place), nor one whose
        reference is not finite because of values that an exponential overflows at. `whole`: nor its neighbours in the last two dims."""
        wanted = list(dict.fromkeys(o.value for o in self.outputs))

        def with_zeros_for(special: Callable[[torch.Tensor], torch.Tensor]) -> dict[int, torch.Tensor]:
            calm = {v: t.masked_fill(special(t), 0.0) if t.is_floating_point() else t for v, t in inputs.items()}
            return self.run.run(calm, wanted, Double())

        def differs(special: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor | None]:
            """By output, where it differs from what it is with zeros for such."""
            found = with_zeros_for(special)

            def of(out: Output) -> torch.Tensor | None:
                return None if out.ref is None or out.ref.clean else _differ(out.exact, layout.flat(found[out.value], out.order))

            return [of(out) for out in self.outputs]

        of_special = differs(lambda t: ~torch.isfinite(t))
        of_large = differs(lambda t: ~(t.abs() <= _OVERFLOWS))
        for out, reached, overflown in zip(self.outputs, of_special, of_large, strict=True):
            if reached is None or overflown is None:
                continue
            if whole and len(out.shape) > 2:
                natural = reached.reshape([out.shape[d] for d in out.order]).permute([out.order.index(d) for d in range(len(out.order))])
                reached = layout.flat(natural.flatten(-2).any(-1)[..., None, None].expand(out.shape), out.order)
            reached = reached | (~torch.isfinite(out.exact) & overflown)
            # Where eager and the reference disagree about NaN nothing is judged (measure.masks).
            out.exact, out.eager = out.exact.masked_fill(reached, torch.nan), out.eager.masked_fill(reached, 0.0)
            out.ref = measure.reference(out.exact, out.eager)
            if self.accuracy.mode == "tolerance":
                out.ref.scale = 1.0
            errors = measure.compare(out.eager, out.ref)
            out.eager_error = Pair(errors.fro, errors.max)

    def bytes(self) -> int:
        return sum(o.bytes() for o in self.outputs) + (self.part.expected.bytes() if self.part else 0)

    def limits(self, index: int, error: Pair, inputs: Mapping[int, torch.Tensor]) -> Pair:
        """The gate of output `index`, widened by TF32 and the response only if `error` needs it."""
        out = self.outputs[index]
        if self.accuracy.mode == "tolerance":
            return Pair(gate.HUGE, self.accuracy.tolerance)
        if self.part is not None:
            return self.part.limits_of_rest(index, error)
        yardstick = out.yardstick.larger(out.eager_error)
        limit = gate.limit(yardstick, out.dtype)
        if error.within(limit):
            return limit
        operations = flags.tf32_operations(self.device, self.accuracy)
        if operations and self.tf32 is None:
            uses = any(op_name(self.run.captured.nodes[i]) in operations for i in self.run.nodes)
            self.tf32 = self._variant(inputs, Double(tf32=operations)) if uses else [gate.ZERO] * len(self.outputs)
        if self.tf32 is not None:
            yardstick = yardstick.larger(self.tf32[index])
            limit = gate.limit(yardstick, out.dtype)
            if error.within(limit):
                return limit
        while self.draws < gate.RESPONSE_DRAWS:
            self._draw_response(inputs)
            limit = gate.limit(yardstick, out.dtype, self.response[index])
            # Another draw gives about the same: one is enough for the hopeless and for the harmless.
            if error.within(limit) or not error.within(limit.times(_HOPELESS)):
                break
        limit = gate.limit(yardstick, out.dtype, self.response[index])
        return limit if error.within(limit) else self._narrow_limit(index, error, yardstick, inputs)

    def _narrow_limit(self, index: int, error: Pair, yardstick: Pair, inputs: Mapping[int, torch.Tensor]) -> Pair:
        """The gate with what roundings to 16 bits do, where there are some in between: a softmax of large numbers is one choice or another
        by them, here and there, so that a draw in which none is told nothing, and eager's own error may be of such a one."""
        out = self.outputs[index]

        def limit() -> Pair:
            return gate.limit(yardstick, out.dtype, self.response[index], self.narrow[index] if self.narrow else gate.ZERO)

        draws = gate.NARROW_DRAWS if self.run.rounds_to_16_bits() else 0
        while self.narrow_draws < draws and not error.within(limit()):
            self._draw_response(inputs, narrow=True)
        return limit()

    def _draw_response(self, inputs: Mapping[int, torch.Tensor], narrow: bool = False) -> None:
        """How much the fp64 outputs move when every value moves by one rounding, `narrow`: to 16 bits where it is made in these; the largest
        of the draws so far."""
        generator = torch.Generator(self.device).manual_seed((104729 if narrow else 7919) + (self.narrow_draws if narrow else self.draws))
        moved = self._variant(inputs, Double(delta=gate.DELTA, narrow=narrow, generator=generator))
        before = self.narrow if narrow else self.response
        largest = [a.larger(b) for a, b in zip(before, moved, strict=True)] if before else moved
        if narrow:
            self.narrow, self.narrow_draws = largest, self.narrow_draws + 1
        else:
            self.response, self.draws = largest, self.draws + 1

    def _variant(self, inputs: Mapping[int, torch.Tensor], mode: Double) -> list[Pair]:
        """The errors of another interpretation against the reference."""
        results = self.run.run(inputs, list(dict.fromkeys(o.value for o in self.outputs)), mode)
        found = []
        for out in self.outputs:
            if out.ref is None:
                found.append(gate.ZERO)
                continue
            # Where one of the two is not a number the response is none either: those elements are left out.
            moved, ref = layout.flat(results[out.value], out.order), measure.finite_only(out.ref)
            errors = measure.compare(torch.where(torch.isfinite(moved) & torch.isfinite(out.ref.exact), moved, ref.exact), ref)
            found.append(Pair(errors.fro, errors.max))
        return found

    def flips(self, index: int, inputs: Mapping[int, torch.Tensor]) -> Flips:
        """How an integer or boolean output moves when floats behind it are rounded: eager against the reference, and the reference
        against itself with every value moved by one rounding. Computed once."""
        if index not in self._flips:
            out = self.outputs[index]
            found = Flips()
            # Positions have a rule of their own (ties.py): how far apart two of them lie says nothing.
            if not ties.is_position(self.run, out.value):
                found = found.larger(out.eager, out.exact)
                for draw in range(gate.RESPONSE_DRAWS if self.part is None else 0):
                    generator = torch.Generator(self.device).manual_seed(7919 + draw)
                    moved = self.run.run(inputs, [out.value], Double(delta=gate.DELTA, generator=generator))[out.value]
                    found = found.larger(layout.flat(moved, out.order), out.exact, gate.RESPONSE_FACTOR)
            self._flips[index] = found
        return self._flips[index]

    def tie(self, index: int, actual: torch.Tensor, wrong: torch.Tensor, inputs: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """`wrong`, less the elements that are indices of equal values (argmax and its kin)."""
        return ties.forgive(self.run, self.outputs[index], actual, wrong, inputs, self._tie_cache)


@dataclass
class Sliced:
    """The fp64 expectation of a slice, where the whole is too large (sliced.py). `inputs` are the slice's; `checked` the outputs that
    have the sliced dim, `take` cuts an output of the whole down to the slice."""

    expected: Expected
    inputs: dict[int, torch.Tensor]
    checked: set[int]
    take: Callable[[int, torch.Tensor], torch.Tensor]

    def limits_of_rest(self, index: int, error: Pair) -> Pair:
        """Everything is compared with eager: the gate, and eager's own error once more, because eager is not the truth."""
        near = [index] if index in self.checked else sorted(self.checked)
        widest = gate.ZERO
        for i in near:
            own = self.expected.outputs[i].eager_error
            limit = self.expected.limits(i, Pair(max(0.0, error.fro - own.fro), max(0.0, error.max - own.max)), self.inputs)
            widest = widest.larger(Pair(limit.fro + own.fro, limit.max + own.max))
        return widest


def _differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two runs differ; a NaN is equal to a NaN."""
    return (a != b) & ~(torch.isnan(a) & torch.isnan(b))


def make_output(run: Interpreter, position: int, value: int, eager: torch.Tensor, exact: torch.Tensor, storages: set[int], accuracy: Accuracy) -> Output:
    """Flattens both into the storage order that the graph declares; clones what aliases an input."""
    meta = run.captured.graph["values"][value]
    shape, dtype = tuple(meta["shape"]), eager.dtype
    order = layout.storage_order(shape, meta["strides"])

    def own(tensor: torch.Tensor) -> torch.Tensor:
        flat = layout.flat(tensor.resolve_conj().resolve_neg(), order)
        return flat.clone() if flat.untyped_storage().data_ptr() in storages else flat

    out = Output(position, value, dtype, shape, order, own(eager), own(exact))
    if dtype.is_complex:
        out.eager, out.exact = torch.view_as_real(out.eager).reshape(-1), torch.view_as_real(out.exact).reshape(-1)
        out.dtype = out.eager.dtype
    if out.eager.is_floating_point() and out.eager.numel():
        out.ref = measure.reference(out.exact, out.eager)
        if accuracy.mode == "tolerance":
            out.ref.scale = 1.0  # |err| / (|ref| + 1) <= tol is allclose with atol = rtol = tol
        errors = measure.compare(out.eager, out.ref)
        out.eager_error = Pair(errors.fro, errors.max)
    return out
