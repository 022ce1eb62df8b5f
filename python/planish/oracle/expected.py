"""What the outputs of a region should be for one data set, and how far from it they may be.

The fp64 and the eager run happen once; TF32 and the replays only when a candidate misses what eager's error and correct rounding
allow, and then once for all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from planish import float8
from planish.oracle import flags, gate, layout, measure, ties
from planish.oracle.gate import Accuracy, Pair
from planish.oracle.interpret import CONVOLUTIONS, MATMULS, Double, Interpreter, Mode
from planish.oracle.noise import Replay
from planish.oracle.recorded import Ask, Recorded
from planish.oracle.statistics import Pool, View, Yardstick, needs_noise

_OVERFLOWS = 11.0  # the exponential of more is no 16-bit float
_TF32 = 16.0  # times the noise of single precision that eager's error is where its products round their operands
_REACH = 4.0  # times its noise that a number may lie off before it is rounded to an integer, or compared
_REACH_DRAWS = 8


@dataclass
class Output:
    """One expected output. Floats: `ref`; integers, booleans and floats of 8 bits (by their places, float8.places): `exact` and `eager`, flat, in
    storage order."""

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
    given: bool = False  # it is one of the inputs: every bit counts

    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.eager, self.exact))


@dataclass
class Flips:
    """What rounding does to an integer output: how many elements it moves at most, and between which values each may lie."""

    count: int = 0
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None


@dataclass(frozen=True)
class Verdict:
    """Of a floating output that is written and finite: the gates of its two measures, and the largest of what is asked of it over its limit."""

    limit: Pair
    ratio: float
    statistic: str


@dataclass
class Expected:
    """Everything about one data set. `inputs` are the values the region reads; they must not change while this lives."""

    run: Interpreter
    device: torch.device
    accuracy: Accuracy
    outputs: list[Output]
    reference: str = "fp64"
    tf32: list[Pair] | None = None
    replays: list[Pair] = field(default_factory=list)
    draws: int = 0
    seed: int = 0
    nan_in_reference: bool = False
    part: Sliced | None = None
    recorded: Recorded | None = None
    _tie_cache: dict[int, Any] = field(default_factory=dict)
    _flips: dict[int, Flips] = field(default_factory=dict)
    _yards: dict[tuple[int, bool], Yardstick] = field(default_factory=dict)
    _rounded: frozenset[str] = frozenset()
    _replayed: dict[str, Any] = field(default_factory=dict)
    undecided: bool = False  # Python, which a module without a graph runs, went another way in eager than in fp64

    @classmethod
    def compute(
        cls, run: Interpreter, inputs: Mapping[int, torch.Tensor], outputs: Sequence[tuple[int, int]], device: torch.device, accuracy: Accuracy
    ) -> Expected:
        """Runs eager and fp64. Raises what torch raises."""
        wanted = list(dict.fromkeys(v for _, v in outputs))
        module = run.module
        with flags.eager_context(device, accuracy):
            eager = run.run(inputs, wanted, Mode())
        ways = [module.reads] if module is not None else []
        exact = run.run(inputs, wanted, Double())
        storages = {t.untyped_storage().data_ptr() for t in inputs.values()}
        found: list[Output] = []
        for position, value in outputs:
            found.append(make_output(run, position, value, eager[value], exact[value], storages, accuracy))
            found[-1].given = value in inputs
        del eager, exact
        expected = cls(run, device, accuracy, found)
        expected.undecided = module is not None and ways != [module.reads]
        expected.nan_in_reference = any(o.ref is not None and not o.ref.clean for o in found)
        if all(o.ref is None for o in found):
            expected.reference = "exact"
        elif module is not None:
            expected.reference = "module"
        return expected

    def leave_open(self, inputs: Mapping[int, torch.Tensor], whole: bool) -> None:
        """Judges no element that a NaN or an Inf among `inputs` reaches (its reference is another with zeros in their place), nor one whose
        reference is not finite because of values that an exponential overflows at. `whole`: nor its neighbours in the last two dims."""
        wanted = list(dict.fromkeys(o.value for o in self.outputs))

        def with_zeros_for(special: Callable[[torch.Tensor], torch.Tensor]) -> dict[int, torch.Tensor]:
            def without(t: torch.Tensor) -> torch.Tensor:
                values = float8.computable(t)
                return values.masked_fill(special(values), 0.0).to(t.dtype)

            calm = {v: without(t) if t.is_floating_point() else t for v, t in inputs.items()}
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
            self._measure_eager(out)

    def bytes(self) -> int:
        kept = sum(o.bytes() for o in self.outputs) + sum(yard.bytes() for yard in self._yards.values())
        return kept + (self.part.expected.bytes() if self.part else 0)

    def judge(self, index: int, actual: torch.Tensor, error: Pair, inputs: Mapping[int, torch.Tensor], stage: str) -> Verdict:
        """Of output `index`, flat in storage order, with these errors. The reference is drawn again only if it needs that."""
        out = self.outputs[index]
        if self.accuracy.mode == "tolerance":
            return _verdict(error, Pair(gate.HUGE, self.accuracy.tolerance))
        if self.part is not None:
            return _verdict(error, self.part.limits_of_rest(index, error))
        # Without replays first, whether there are some or not: what passes once passes again, whoever came in between.
        yard = self._yard(index, drawn=False)
        values = yard.view.take(actual)
        yardstick = out.yardstick.larger(out.eager_error)
        found = _verdict(error, gate.limit(yardstick, out.dtype), *yard.judge(yard.measure(values)))
        wanted = gate.DRAWS[stage]
        if found.ratio <= 1:
            return found
        operations = flags.tf32_operations(self.device, self.accuracy)
        if operations and self.tf32 is None:
            uses = self.run.has(operations)
            self.tf32 = self._variant(inputs, Double(tf32=operations)) if uses else [gate.ZERO] * len(self.outputs)
            self._rounded = operations if uses else frozenset()
        if self.tf32 is not None:
            yardstick = yardstick.larger(self.tf32[index])

        def verdict() -> Verdict:
            yard = self._yard(index)
            return _verdict(error, gate.limit(yardstick, out.dtype, self.replays[index]), *yard.judge(yard.measure(values)))

        if self.draws:
            found = verdict()
        # Where eager rounds to 16 bits in between, a softmax of large numbers is one choice or another by it: a draw in which none goes the other way
        # says nothing, however far off the candidate is.
        choices = self._stores_16_bits()
        while found.ratio > 1 and self.draws < wanted + gate.MORE_DRAWS:
            if self.draws >= wanted and found.ratio > gate.NEAR and not (choices and stage != "screen"):
                break
            if self.draws == 1 and found.ratio > gate.HOPELESS and not choices:
                break
            self._replay(inputs, 1 if self.draws == 0 else wanted - self.draws if self.draws < wanted else gate.MORE_DRAWS)
            found = verdict()
        return found

    def pooled(self, index: int, actual: torch.Tensor, inputs: Mapping[int, torch.Tensor], key: tuple[int, str], pool: Pool) -> tuple[float, str]:
        """What an output of a few numbers is off by here goes to `pool`, whose verdict this is: (over its limit, the statistic)."""
        if self.accuracy.mode == "tolerance" or self.part is not None:
            return 0.0, ""
        yard = self._yard(index, drawn=False)
        values = yard.view.take(actual)
        found = yard.errors(values)
        if found is None:
            return 0.0, ""
        if needs_noise(found.errors):
            if self.draws < gate.DRAWS["full"]:
                self._replay(inputs, gate.DRAWS["full"] - self.draws)
            found = self._yard(index).errors(values) or found
        pool.add(key, found)
        return pool.judge(self.outputs[index].dtype)

    def limit(self, index: int, error: Pair, inputs: Mapping[int, torch.Tensor]) -> Pair:
        """The gate of the two measures alone, with what replays give if `error` needs that."""
        out = self.outputs[index]
        if self.accuracy.mode == "tolerance":
            return Pair(gate.HUGE, self.accuracy.tolerance)
        yardstick = out.yardstick.larger(out.eager_error)
        limit = gate.limit(yardstick, out.dtype)
        if not error.within(limit) and self.draws == 0:
            self._replay(inputs, 1)
        return gate.limit(yardstick, out.dtype, self.replays[index] if self.replays else gate.ZERO)

    def spread(self, index: int, actual: torch.Tensor, inputs: Mapping[int, torch.Tensor]) -> tuple[torch.Tensor, int] | None:
        """Of an output whose NaN and Inf lie in other places than eager's: the same with what is right in those places, and in how many of its
        elements they might lie. None unless they are beside a NaN or an Inf of the inputs, and a number is nowhere where none should be.

        Beside it is what has part in the row, or the last two dims, of an input that hold it: algebra that adds and subtracts (Winograd, FFT, products
        in parts, distances by a product) mixes what it takes together, and nothing else."""
        out = self.outputs[index]
        if self.part is not None or out.ref is None:
            return None
        wrong = measure.misplaced(actual, out.exact.to(torch.float64), out.eager)
        if bool((wrong & torch.isfinite(actual)).any()):
            return None
        found, lost = False, {}
        for value, given in inputs.items():
            lost[value], tensor = given, float8.computable(given)
            if tensor.is_floating_point() and tensor.numel() and not bool(torch.isfinite(tensor).all()):
                found = True
                hit = ~torch.isfinite(tensor)
                lead = max(1, tensor.ndim - 2)
                hit = hit.flatten(lead).any(-1).view(*tensor.shape[:lead], *[1] * (tensor.ndim - lead)) if tensor.ndim > 1 else hit.any()
                lost[value] = torch.where(hit, torch.nan, tensor).to(given.dtype)
        if not found:
            return None
        reached = torch.isnan(_flat(self.run.run(lost, [out.value], Double())[out.value], out)) | ~torch.isfinite(out.exact)
        if bool((wrong & ~reached).any()):
            return None
        right = torch.where(torch.isfinite(out.exact.to(out.dtype)) & torch.isfinite(out.eager), out.exact.to(out.dtype), out.eager)
        return torch.where(wrong, right, actual), int(reached.sum())

    def leave_out(self, index: int, unsure: torch.Tensor) -> None:
        """Judges none of these elements, flat: nothing says what is right there."""
        out = self.outputs[index]
        out.exact, out.eager = out.exact.masked_fill(unsure, torch.nan), out.eager.masked_fill(unsure, 0.0)
        self._measure_eager(out)

    def _measure_eager(self, out: Output) -> None:
        out.ref = measure.reference(out.exact, out.eager)
        if self.accuracy.mode == "tolerance":
            out.ref.scale = 1.0
        errors = measure.compare(out.eager, out.ref)
        out.eager_error = Pair(errors.fro, errors.max)

    def _yard(self, index: int, drawn: bool = True) -> Yardstick:
        """What judges output `index`, with the noise of the replays that have been `drawn`, or of the last rounding alone."""
        if (index, drawn) not in self._yards:
            out = self.outputs[index]
            assert out.ref is not None
            shape = [out.shape[d] for d in out.order] if out.exact.numel() == _count(out.shape) else [out.exact.numel()]
            view = View(shape, self.device, self.seed + index)
            self._yards[index, drawn] = Yardstick(view, out.exact, out.eager, out.ref.clean)
        return self._yards[index, drawn]

    def _replay(self, inputs: Mapping[int, torch.Tensor], count: int) -> None:
        """Draws the reference `count` times for the noise of each element, and as often for what is honest; for all outputs."""
        wanted = list(dict.fromkeys(o.value for o in self.outputs))
        # Asked of the first draw, which is one of those below where the answer is no.
        first: dict[int, torch.Tensor] | None = None
        if self.draws == 0 and not self._rounded and self._may_round_operands():
            first = self._drawn(inputs, wanted, 0, 2 * count)
            if self._eager_rounds_operands(first):
                self._rounded, first = frozenset(MATMULS | CONVOLUTIONS), None
        floats = [i for i, out in enumerate(self.outputs) if out.ref is not None]
        drawn: dict[int, list[torch.Tensor]] = {i: [] for i in floats}
        self.replays = self.replays or [gate.ZERO] * len(self.outputs)
        for draw in range(2 * count):
            results = first if first is not None else self._drawn(inputs, wanted, 2 * self.draws + draw, 2 * count - draw)
            first = None
            for i in floats:
                moved = _flat(results[self.outputs[i].value], self.outputs[i])
                self.replays[i] = self.replays[i].larger(self._error_of(i, moved))
                drawn[i].append(self._yard(i).view.take(moved))
        self.draws += count
        for i in floats:
            self._yard(i).learn(drawn[i][:count], drawn[i][count:])

    def _drawn(self, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], draw: int, further: int) -> dict[int, torch.Tensor]:
        """The reference drawn again, of `further` times that it will be now."""

        def run() -> dict[int, torch.Tensor]:
            return self.run.run(inputs, wanted, self._mode(draw))

        if self.recorded is None:
            return run()
        ask = Ask(inputs, wanted, lambda answers: self._mode(draw, answers=answers), self._rounded, self._seed(draw), self._replayed)
        found = self.recorded.further(ask, further) if self._replayed else self.recorded.first(ask, run)
        return found if found is not None else run()

    def _seed(self, draw: int) -> int:
        return self.seed + 7919 * (draw + 1)

    def _mode(self, draw: int, scale: float = 1.0, answers: dict[str, Any] | None = None) -> Replay:
        nodes, values = self.run.captured.nodes, self.run.values_read()
        read = frozenset(nodes[i] for i, outs in zip(self.run.nodes, self.run._outs, strict=True) if set(outs) & values)
        return Replay(self.device, self._seed(draw), read, self._rounded, scale, self._replayed if answers is None else answers)

    def _stores_16_bits(self) -> bool:
        """Whether a node reads what another one made in 16 bits."""
        made = {o for outs in self.run._outs for o in outs if o is not None and gate.is_narrow(self.run.dtypes[o])}
        return bool(made & self.run.values_read())

    def _may_round_operands(self) -> bool:
        """Whether eager's products may go by TF32: those of 16 bits do not, and an output in 16 bits does not show it."""
        shows = any(out.ref is not None and out.dtype == torch.float32 for out in self.outputs)
        return self.device.type == "cuda" and shows and self.run.has(MATMULS | CONVOLUTIONS)

    def _eager_rounds_operands(self, drawn: Mapping[int, torch.Tensor]) -> bool:
        """Whether they do: eager's error tells, which is hundreds of times what single precision gives."""
        far = False
        for i, out in enumerate(self.outputs):
            if out.ref is not None and out.dtype == torch.float32:
                moved = self._error_of(i, _flat(drawn[out.value], out))
                far = far or out.eager_error.fro > _TF32 * max(moved.fro, gate.floor(out.dtype).fro)
        return far

    def _error_of(self, index: int, moved: torch.Tensor) -> Pair:
        """Of another interpretation against the reference; where one of the two is not a number, nothing is known."""
        out = self.outputs[index]
        assert out.ref is not None
        ref = measure.finite_only(out.ref)
        if not out.ref.clean or not measure.all_finite(moved):
            moved = torch.where(torch.isfinite(moved) & torch.isfinite(out.ref.exact), moved, ref.exact)
        errors = measure.compare(moved, ref)
        return Pair(errors.fro, errors.max)

    def _variant(self, inputs: Mapping[int, torch.Tensor], mode: Double) -> list[Pair]:
        """The errors of another interpretation against the reference."""
        results = self.run.run(inputs, list(dict.fromkeys(o.value for o in self.outputs)), mode)
        return [self._error_of(i, _flat(results[o.value], o)) if o.ref is not None else gate.ZERO for i, o in enumerate(self.outputs)]

    def flips(self, index: int, inputs: Mapping[int, torch.Tensor]) -> Flips:
        """How an integer or boolean output moves when floats behind it are rounded: how many elements, by eager against the reference and by
        replays, and between which values each lies if what it was rounded from errs by four times its noise. Computed once."""
        if index not in self._flips:
            out = self.outputs[index]
            found = Flips()
            # Positions have a rule of their own (ties.py): how far apart two of them lie says nothing.
            if not ties.is_position(self.run, out.value) and self.part is None:
                low, high = torch.minimum(out.exact, out.eager.to(out.exact.dtype)), torch.maximum(out.exact, out.eager.to(out.exact.dtype))
                found.count = int((out.exact != out.eager).sum())
                for draw in range(_REACH_DRAWS):
                    moved = _comparable(self.run.run(inputs, [out.value], self._mode(draw, _REACH))[out.value], out)
                    low, high = torch.minimum(low, moved), torch.maximum(high, moved)
                    if draw < gate.DRAWS["full"]:
                        moved = _comparable(self.run.run(inputs, [out.value], self._mode(draw))[out.value], out)
                        found.count = max(found.count, int((moved != out.exact).sum()))
                found.low, found.high = low, high
            self._flips[index] = found
        return self._flips[index]

    def tie(self, index: int, actual: torch.Tensor, wrong: torch.Tensor, inputs: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """`wrong`, less the elements that are indices of equal values (argmax and its kin)."""
        return ties.forgive(self.run, self.outputs[index], actual, wrong, inputs, self._tie_cache, self._mode)


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
            limit = self.expected.limit(i, Pair(max(0.0, error.fro - own.fro), max(0.0, error.max - own.max)), self.inputs)
            widest = widest.larger(Pair(limit.fro + own.fro, limit.max + own.max))
        return widest


def _verdict(error: Pair, limit: Pair, ratio: float = 0.0, statistic: str = "") -> Verdict:
    """With the two measures among the rest."""
    for value, most, name in ((error.fro, limit.fro, "fro"), (error.max, limit.max, "max")):
        over = value / most if most > 0 else (math.inf if value > 0 else 0.0)
        if not over <= ratio:
            ratio, statistic = (over if over == over else math.inf), name
    return Verdict(limit, ratio, statistic)


def _flat(result: torch.Tensor, out: Output) -> torch.Tensor:
    """In the storage order of the output; complex numbers as pairs."""
    flat = layout.flat(result, out.order)
    return torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat


def _comparable(result: torch.Tensor, out: Output) -> torch.Tensor:
    """Flat, in the storage order of an output that is compared element by element."""
    flat = layout.flat(result, out.order)
    return float8.places(flat, out.dtype) if float8.is_float8(out.dtype) else flat


def _count(shape: Sequence[int]) -> int:
    return math.prod(shape)


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
    if float8.is_float8(dtype):
        out.eager, out.exact = float8.places(out.eager, dtype), float8.places(out.exact, dtype)
    if out.eager.is_floating_point() and out.eager.numel():
        out.ref = measure.reference(out.exact, out.eager)
        if accuracy.mode == "tolerance":
            out.ref.scale = 1.0  # |err| / (|ref| + 1) <= tol is allclose with atol = rtol = tol
        errors = measure.compare(out.eager, out.ref)
        out.eager_error = Pair(errors.fro, errors.max)
    return out
