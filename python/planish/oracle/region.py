"""A part of the graph that is checked on its own, and what is known of it: regimes, errors seen, expectations."""

from __future__ import annotations

import hashlib
import math
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from planish import float8, rt
from planish.errors import PlanishError, is_device_failure, task_error
from planish.oracle import flags, layout, measure, memory, module_runs, pieces
from planish.oracle.data import DataSet, as_bytes
from planish.oracle.expected import Expected, Output, Verdict
from planish.oracle.gate import FACTOR, HUGE, Accuracy, Pair, limit, number
from planish.oracle.interpret import Interpreter, Mode, dtype_of, op_name, peak_bytes
from planish.oracle.noise import ATTENTIONS
from planish.oracle.recorded import Recorded
from planish.oracle.regimes import NONFINITE, REGIMES, UNDEFINED
from planish.oracle.sliced import Slicer
from planish.oracle.statistics import FEWEST, Pool
from planish.oracle.task import Own, Task
from planish.wire import report_stage

POOL_SEEDS = 16
_EXPLODED = {2: 0.1, 1: 0.5}
_CACHE_SHARE = 0.35
WHOLE = "task"
_APART = 0.2  # eager and its reference, of their size: no rounding of the result, but of what a softmax chose by
_REDRAWS = 4  # where a rounding decides which way a module goes
_FEW_FLIPS = 3  # more than those that eager or a replay moves, of the elements that can move at all
_SOFTMAXES = {"_softmax", "_log_softmax"}
_PRODUCTS = {"bmm", "mm", "matmul"}
_SUMS = {"sum", "mean", "cumsum", *_PRODUCTS}

Key = tuple[int, str, Own]


class Region:
    """Nodes of the task with the values they read and give. `outputs` are (position, value id): each has a buffer of its own, also where a
    value comes twice, or is one of the inputs."""

    def __init__(self, task: Task, name: str, nodes: Sequence[int], inputs: Sequence[int], outputs: Sequence[int], accuracy: Accuracy) -> None:
        count = len(task.graph["nodes"])
        for node in nodes:
            if not 0 <= node < count:
                raise PlanishError("bad_message", f"region {name}: there is no node {node}")
        self.task = task
        self.name = name
        self.accuracy = accuracy
        self.run = Interpreter(task.captured, nodes)
        self.inputs = list(inputs)
        missing = self.run.inputs_needed() - set(self.inputs)
        if missing:
            raise PlanishError("bad_message", f"region {name}: its nodes read values {sorted(missing)} that are not among its inputs")
        made = {o for outs in self.run._outs for o in outs if o is not None}
        unknown = [v for v in outputs if v not in made and v not in self.inputs]
        if unknown:
            raise PlanishError("bad_message", f"region {name}: no node of it makes {unknown}")
        self.outputs: list[tuple[int, int]] = list(enumerate(outputs))
        self.skipped: dict[str, str] = {}
        self.memory_limit: int | None = None  # tests lower it
        self._accepted: set[str] = {"task"}
        self._finite_only_specials = False
        self._pool: dict[tuple[str, int], OrderedDict[int, Pair]] = {}
        self._cache: OrderedDict[Key, Expected] = OrderedDict()
        self._usual_nan = False  # the task's own data give values that are not finite
        self._slicer: Slicer | None = None
        self._exact = self.run  # gives the reference: this, or the same in pieces
        self._recorded = Recorded(self.run, task.device) if task.device.type == "cuda" and task.module is None else None
        self._peaks: dict[Interpreter, int] = {}
        task.regions.add(self)

    # -- data --

    def create(self, seed: int, regime: str, own_parameters: Own = False) -> DataSet:
        """New buffers with this data. Raises PlanishError(`skipped`) when the regime leaves the task's domain, or its model cannot be
        constructed with other parameters."""
        if not isinstance(own_parameters, bool):
            self.task.vary(own_parameters)
        self._room(self._data_bytes())
        memory.give_all_back(self.task.device)
        data = DataSet.create(self.task.device, (self.name, seed, regime), self.task.graph["values"], self.inputs, self.outputs)
        data.own_parameters = own_parameters
        self.task.data_sets = [ref for ref in self.task.data_sets if ref() is not None] + [weakref.ref(data)]
        try:
            self.fill(data, seed, regime)
        except BaseException:
            data.free()
            raise
        return data

    def fill(self, data: DataSet, seed: int, regime: str) -> None:
        """Other contents in the same buffers; outputs poisoned. Raises like `create`."""
        if regime not in REGIMES:
            raise PlanishError("bad_message", f"unknown regime {regime!r}")
        if regime in self.skipped:
            raise PlanishError("skipped", self.skipped[regime])
        module = self.task.module
        if regime != "task" and module is not None and module.seconds > module_runs.SLOW:
            self.skipped[regime] = f"one run of the reference in double precision takes {module.seconds:.0f} s"
            raise PlanishError("skipped", self.skipped[regime])
        data.seed, data.regime, data.redrawn = seed, regime, 0
        try:
            self._contents(data)
            while module is not None and data.redrawn < _REDRAWS and self._undecided(data):
                data.redrawn += 1
                self.forget(seed)
                self._contents(data)
            if regime not in self._accepted:
                self._admit(data)
        except PlanishError as error:
            if error.kind == "skipped":
                self.skipped[regime] = error.message
            raise
        data.poison()

    def _undecided(self, data: DataSet) -> bool:
        """Whether a rounding decides which way the task's own Python goes: no error of a candidate, so that other data are drawn."""
        try:
            return self.expected(data).undecided
        except (PlanishError, RuntimeError, ValueError, IndexError):
            return False  # whoever asks next is told

    def _contents(self, data: DataSet) -> None:
        nonfinite = data.regime == "special" and not self._finite_only_specials
        try:
            values = self.task.values(data.seed + data.redrawn, data.regime, self.inputs, nonfinite, data.own_parameters)
        except Exception as error:
            if data.regime == "task" or isinstance(error, PlanishError) or memory.is_exhausted(error) or is_device_failure(error):
                raise
            raise PlanishError("skipped", f"the task refuses such data: {_line(error)}") from error
        data.write(values)

    def _admit(self, data: DataSet) -> None:
        """Decides once whether a regime stays in the task's domain."""
        regime = data.regime
        if not self.task.has(regime):
            held = {"no_labels": "labels", "integers": "integers that only meet arithmetic", "masks": "a mask"}.get(regime, "labels or segments")
            raise PlanishError("skipped", f"no input holds {held}")
        if self.task.fragile:
            raise PlanishError("skipped", "an index is computed from floats: other data could leave its table")
        usual = self._usual_nan
        try:
            problem = self._out_of_domain(data, usual)
        except Exception as error:
            left_open = regime in NONFINITE and not (regime == "special" and self._finite_only_specials)
            if not left_open or not memory.is_exhausted(error):
                raise
            problem = "memory has no place for the runs that special values take"  # two more (leave_open)
        if problem and regime == "special" and not self._finite_only_specials:
            self._finite_only_specials = True
            self._cache.pop(_key(data), None)
            self._contents(data)
            problem = self._out_of_domain(data, usual)
        if problem:
            self._cache.pop(_key(data), None)
            raise PlanishError("skipped", problem)
        self._accepted.add(regime)

    def _out_of_domain(self, data: DataSet, usual: bool) -> str | None:
        try:
            expected = self.expected(data)
        except Exception as error:
            if isinstance(error, PlanishError) or memory.is_exhausted(error) or is_device_failure(error):
                raise
            return f"the task refuses such data: {_line(error)}"
        if name := self._raises(data.input_tensors()):
            return f"the task refuses such data: {name} fails"
        for out in expected.outputs:
            if out.ref is None:
                continue
            undefined = data.regime in UNDEFINED and not (data.regime == "special" and self._finite_only_specials)
            if not out.ref.clean and not usual and not undefined:
                return "the reference leaves the numbers"
            if out.ref.count * 2 < out.exact.numel() and data.regime not in ("labels", "no_labels"):
                return "most of the reference is not finite"
            if out.eager_error.fro > _EXPLODED.get(out.dtype.itemsize, 1e-2) and self.accuracy.mode != "tolerance":
                return f"eager's own error is {out.eager_error.fro:.1e}"
        return None

    def _raises(self, inputs: Mapping[int, torch.Tensor]) -> str:
        """The factorisation that fails on this data (a matrix that is singular, or not positive definite): there its results mean nothing, and
        eager, whose check the graph leaves out, raises. Else nothing."""
        captured = self.task.captured
        for i in self.run.nodes:
            node = captured.nodes[i]
            returns = [r.name for r in node.target._schema.returns]  # type: ignore[union-attr]
            if op_name(node).endswith("_ex") and "info" in returns:
                info = captured.value_of[(node, returns.index("info"))]
                if bool(self.run.run(inputs, [info], Mode())[info].any()):
                    return op_name(node)
        return ""

    def regimes(self, seed: int = 90001) -> tuple[list[str], dict[str, str]]:
        """The regimes that stay in the task's domain, and the others with the reason. Costs a data set each, the first time."""
        data: DataSet | None = None
        try:
            asked = [r for r in REGIMES if r not in self._accepted and r not in self.skipped and self.task.has(r)]
            began = time.monotonic()
            for k, regime in enumerate(asked):
                if k == 2:  # the others take as long as the second: the first makes more than its data
                    report_stage("trying which other data it takes", (time.monotonic() - began) * (len(asked) - 2))
                began = time.monotonic()
                try:
                    if data is None:
                        data = self.create(seed, regime)
                    else:
                        self.fill(data, seed, regime)
                except PlanishError as error:
                    if error.kind != "skipped":
                        raise
        finally:
            if data is not None:
                data.free()
            self.forget(seed)  # nobody asks for these data again
        found = [r for r in REGIMES if r not in self.skipped and self.task.has(r)]
        return found, dict(self.skipped)

    # -- expectations --

    def expected(self, data: DataSet) -> Expected:
        """Computed once for a (seed, regime), kept while memory allows. The data set's inputs must be what was written."""
        key = _key(data)
        found = self._cache.get(key)
        if found is None:
            try:
                found = self._compute(data.input_tensors())
            except Exception as error:
                if self.task.module is None or data.regime != "task" or isinstance(error, PlanishError) or memory.is_exhausted(error):
                    raise
                message = f"forward fails on what its own generator gives for seed {data.seed}: {_line(error)}"
                raise task_error("forward_failed", self.task.path, message, "run the file's Model on get_inputs() by hand") from error
            if data.regime in NONFINITE and not (data.regime == "special" and self._finite_only_specials) and found.part is None:
                self._leave_open(found, data.input_tensors())
                self._ask_module(found, data.input_tensors())
            elif data.regime == "masks" and found.part is None:
                self._leave_covered(found)
                self._ask_module(found, data.input_tensors())
            found.seed = _mixed(data.seed, data.regime)
            self._remember(data, found)
            self._usual_nan = self._usual_nan or (data.regime == "task" and found.nan_in_reference)
            self._cache[key] = found
            self._shrink(key)
        self._cache.move_to_end(key)
        return found

    def _leave_open(self, found: Expected, inputs: Mapping[int, torch.Tensor]) -> None:
        """Where the region is a softmax or attention, composed or fused: torch's own forms of them put NaN in other places than each other
        where special values meet, so that the places are no property of the task. What attention masks out, some of them spread all the same."""
        if self._weighs():
            found.leave_open(inputs, self.run.has(ATTENTIONS) or self.run.has(_PRODUCTS))

    def _weighs(self) -> bool:
        """Whether a softmax is in it, by itself or composed, or attention."""
        has = self.run.has
        return has(_SOFTMAXES) or (has({"exp"}) and has(_SUMS)) or has(ATTENTIONS)

    def _leave_covered(self, found: Expected) -> None:
        """A softmax of a row of nothing but -Inf: a naive one gives NaN, torch's own attention zeros, so that it has no answer; of one whose numbers
        vanish beside what a mask adds, in the task's type and not in double, neither. What is next to it has."""
        for out in found.outputs if self._weighs() else ():
            if out.ref is not None:
                off = (out.eager - out.exact).abs()
                apart = (off > _APART * (out.eager.abs() + out.exact.abs())) & (off > 1e-3 * out.ref.scale)
                found.leave_out(out.position, torch.isnan(out.exact) | apart)

    def _ask_module(self, found: Expected, inputs: Mapping[int, torch.Tensor]) -> None:
        """Of the whole task: where the model's own results are not finite in other places than its graph's, whose operators may be decomposed into
        others (an interpolation, a loss with a margin), nothing is judged: neither says what is right."""
        if self.name != WHOLE:
            return
        results = self.task.results_of_model(inputs)
        if results is None:
            return
        for out, theirs in zip(self._users(found), results, strict=False):
            if out.ref is None or theirs.shape != out.shape or theirs.dtype != out.dtype:
                continue
            flat = layout.flat(theirs, out.order)
            unsure = torch.isfinite(flat) != torch.isfinite(out.eager)
            unsure |= torch.isinf(flat) & torch.isinf(out.eager) & (flat != out.eager)
            if bool(unsure.any()):
                found.leave_out(out.position, unsure)

    def _users(self, expected: Expected) -> list[Output]:
        """Of the whole task: the outputs that are results of its model, in their order."""
        kinds = [o["kind"] for o in self.task.graph["outputs"] if "value" in o]
        return [out for out, kind in zip(expected.outputs, kinds, strict=True) if kind == "user"]

    def forget(self, *seeds: int) -> None:
        """All expectations, or those of these seeds."""
        if not seeds and self._recorded is not None:
            self._recorded.forget()
        for key in [key for key in self._cache if not seeds or key[0] in seeds]:
            del self._cache[key]

    def fits_again(self) -> bool:
        """Whether one more interpretation in fp64 fits beside the expectation that its result is compared with. Nobody waits: a slice does
        as well."""
        need = self._run_bytes() + self._compare_bytes()
        return need <= self._room(need, patient=False)

    def again(self, data: DataSet) -> Expected:
        """The expectation once more, for less memory: in pieces, else by a slice. Raises as `of_slice`."""
        self.forget()
        return self.expected(data) if self._in_pieces(self._room(self._peak(), patient=False)) else self.of_slice(data)

    def of_slice(self, data: DataSet) -> Expected:
        """The expectation by a slice of the batch, where the whole would fit once but not twice. Takes the place of the whole's. Raises
        PlanishError(`out_of_memory`) where the task cannot be sliced."""
        self.forget()
        need = 2 * self._peak()
        found = self._by_slice(data.input_tensors(), need, self._room(need, patient=False))
        self._cache[_key(data)] = found
        return found

    def _compute(self, inputs: Mapping[int, torch.Tensor]) -> Expected:
        device = self.task.device
        need = self._peak()
        there = self._room(need, patient=False)
        if need > there and not self._in_pieces(there):
            there = self._room(need)
        if (need := self._peak()) <= there:
            try:
                found = Expected.compute(self._exact, inputs, self.outputs, device, self.accuracy)
                found.recorded = self._recorded if self._exact is self.run else None
                return found
            except Exception as error:
                if not memory.is_exhausted(error):
                    raise
                said = _line(error)
            self.forget()
            memory.give_all_back(device)
            if self._in_pieces(there):
                return self._compute(inputs)
            try:
                return self._by_slice(inputs, self._peak(in_pieces=False), there)
            except PlanishError as error:
                raise PlanishError(error.kind, f"{error.message} (the whole: {said})", error.hint, error.about) from error
        return self._by_slice(inputs, self._peak(in_pieces=False), there)

    def _in_pieces(self, there: int) -> bool:
        """Makes the reference in blocks of rows from here on, where that can be, was not so before, and needs no more than is there."""
        before = self._exact
        found = pieces.of(self.run, self.inputs, [v for _, v in self.outputs]) if before is self.run else None
        if found is None:
            return False
        self._exact = found
        if self._peak() <= there:
            return True
        self._exact = before
        return False

    def _by_slice(self, inputs: Mapping[int, torch.Tensor], need: int, there: int) -> Expected:
        if self._slicer is None:
            self._slicer = Slicer(self.task, 0.5 * there / max(1, need), need)
        return self._slicer.expect(self.run, inputs, self.outputs, self.accuracy)

    def _peak(self, in_pieces: bool = True) -> int:
        """What an expectation takes: eager's results, the run in fp64 (the whole, or in pieces where it is), and comparing the two. The same for all data."""
        exact = self._exact if in_pieces else self.run
        if exact not in self._peaks:
            self._peaks[exact] = self._peak_of(in_pieces)
        return self._peaks[exact]

    def _peak_of(self, in_pieces: bool) -> int:
        values = self.task.graph["values"]
        wanted = list(dict.fromkeys(v for _, v in self.outputs))
        eager = sum(math.prod(values[v]["shape"]) * dtype_of(values[v]["dtype"]).itemsize for v in wanted)
        whole = 0
        if in_pieces and self._exact is not self.run:  # beside eager's own run, which nobody cuts
            widest = max((dtype_of(v["dtype"]).itemsize for v in values if dtype_of(v["dtype"]).is_floating_point), default=4)
            whole = peak_bytes(self.task.captured, self.run.nodes, self.inputs, wanted, widest)
        return max(whole, eager + self._run_bytes(in_pieces)) + self._compare_bytes()

    def _run_bytes(self, in_pieces: bool = True) -> int:
        if in_pieces and isinstance(self._exact, pieces.Pieces):
            return self._exact.bytes
        return peak_bytes(self.task.captured, self.run.nodes, self.inputs, [v for _, v in self.outputs])

    def _compare_bytes(self) -> int:
        """Of the largest output; its run may have let go of more than that before."""
        values = self.task.graph["values"]
        return measure.compare_bytes(max((math.prod(values[v]["shape"]) for _, v in self.outputs), default=0), self.task.device)

    def _data_bytes(self) -> int:
        """What a data set takes, with the values that are drawn before they are written into it."""
        values = self.task.graph["values"]
        sizes = {
            v: rt.extent_bytes(dtype_of(values[v]["dtype"]).itemsize, values[v]["shape"], values[v]["strides"])
            for v in (*self.inputs, *(v for _, v in self.outputs))
        }
        return sum(sizes.values()) + sum(sizes[v] for v in dict.fromkeys(self.inputs))

    def _room(self, need: int, patient: bool = True) -> int:
        """Bytes that `need` may take. Whoever is `patient` waits where they do not suffice."""
        if self.memory_limit is not None:
            return self.memory_limit
        device = self.task.device
        there = memory.usable(device)
        if need > there and any(region._cache for region in self.task.regions):
            # Theirs as well: a network's regions together keep more than a device has, and computing one again takes less than waiting.
            self.task.forget()
            there = memory.usable(device)
        if need > there and patient:
            self.task.wait_for_others(need)
            there = memory.usable(device)
        return there

    def _shrink(self, keep: Key) -> None:
        budget = int((memory.available(self.task.device) + sum(e.bytes() for e in self._cache.values())) * _CACHE_SHARE)
        while len(self._cache) > 1 and sum(e.bytes() for e in self._cache.values()) > budget:
            oldest = next(k for k in self._cache if k != keep)
            del self._cache[oldest]

    def _remember(self, data: DataSet, expected: Expected) -> None:
        """Pools eager's errors over the seeds of a regime."""
        for index, out in enumerate(expected.outputs):
            pool = self._pool.setdefault((data.regime, index), OrderedDict())
            if data.seed not in pool and len(pool) < POOL_SEEDS:
                pool[data.seed] = out.eager_error
            for pair in pool.values():
                out.yardstick = out.yardstick.larger(pair)

    def repeats(self, data: DataSet) -> bool | None:
        """Whether two runs of eager on these inputs agree to the bit; None where memory does not suffice."""
        wanted = [value for _, value in self.outputs]
        inputs = data.input_tensors()
        try:
            with flags.eager_context(self.task.device, self.accuracy):
                first = self.run.run(inputs, wanted, Mode())
                again = self.run.run(inputs, wanted, Mode())
        except Exception as error:
            if not memory.is_exhausted(error):
                raise
            return None
        return all(torch.equal(as_bytes(first[v]), as_bytes(again[v])) for v in wanted)

    def answers_in_other_mode(self, data: DataSet) -> bool | None:
        """Of the whole task: whether its model gives on these inputs in its other mode (train() where it evaluates, eval() where it trains) what it gives
        in its own. None where it cannot be called so, or nothing is known."""
        inputs = data.input_tensors()
        results = self.task.results_of_model(inputs, "other_mode") if self.name == WHOLE else None
        expected = self.expected(data)
        if results is None or expected.part is not None:
            return None
        # A draw that changes nothing here may change the results on the next data.
        if self.task.drew and not self.task.generators:
            return False
        users = self._users(expected)
        if len(results) != len(users):
            return None
        for out, theirs in zip(users, results, strict=True):
            if theirs.shape != out.shape or theirs.dtype != dtype_of(self.task.graph["values"][out.value]["dtype"]):
                return None
            _, trouble, _ = judge_output(expected, out.position, theirs, None, inputs, "screen")
            if trouble is not None:
                return False
        return True

    # -- checking --

    def check(self, data: DataSet, stage: str) -> dict[str, Any]:
        """The result of `check` in docs/formats/wire.md."""
        broken = data.broken_guard()
        if broken is not None:
            return _refused("guard", f"bytes outside {broken} were overwritten")
        if stage != "screen" or sum(s.buffer.bytes for s in data.inputs) < 1 << 26:
            changed = data.changed_input()
            if changed is not None:
                return _refused("input_changed", f"{changed} was changed")
        try:
            return _judged(self.expected(data), data, stage)
        except Exception as error:
            found = self._cache.get(_key(data))
            if not memory.is_exhausted(error) or found is None or found.part is not None:
                raise
            del found
        # The whole had a place, and what its gate asks for besides (expected.limits) has none.
        return _judged(self.again(data), data, stage)


def _key(data: DataSet) -> Key:
    return data.seed, data.regime, data.own_parameters


def _mixed(seed: int, regime: str) -> int:
    """A seed for what is drawn besides the data."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{regime}".encode()).digest()[:6], "little")


def _judged(expected: Expected, data: DataSet, stage: str) -> dict[str, Any]:
    inputs = data.input_tensors()
    rows, problem, message = [], None, ""
    for index, slot in enumerate(data.outputs):
        row, trouble, text = judge_output(expected, index, slot.view, slot.poison, inputs, stage)
        if trouble in (None, "mismatch") and stage == "full":  # other callers may get what no proof is about
            pooled = _judge_pooled(expected, index, data, row)
            trouble, text = (trouble, text) if trouble is not None else pooled
        rows.append(row)
        if trouble is not None and (problem is None or _rank(trouble) < _rank(problem)):
            problem, message = trouble, f"{slot.name}: {text}" + ("" if data.regime == "task" else f"; on data of kind `{data.regime}`")
    return {"ok": problem is None, "problem": problem, "outputs": rows, "reference": expected.reference, "message": message}


def _judge_pooled(expected: Expected, index: int, data: DataSet, row: dict[str, Any]) -> tuple[str | None, str]:
    """Of an output of a few numbers, whose errors on one data set say little: with those on all data sets of its proof so far."""
    out, view = expected.outputs[index], data.outputs[index].view
    if out.ref is None or out.given or out.dtype.is_complex or not 0 < view.numel() < FEWEST:
        return None, ""
    actual = layout.flat(view.resolve_conj().resolve_neg(), out.order)
    pool, key = data.pools.setdefault(index, Pool()), (data.seed, data.regime)
    if not pool.takes(key):
        return None, ""
    ratio, statistic = expected.pooled(index, actual, data.input_tensors(), key, pool)
    if ratio > row["ratio"]:
        row |= {"ratio": number(ratio), "statistic": statistic}
    if ratio <= 1:
        return None, ""
    text = f"over the {len(pool)} data sets of this proof the errors are {ratio:.2g} times what rounding explains, by `{statistic}` (docs/accuracy.md)"
    return "mismatch", text


def _not_finite(actual: torch.Tensor, out: Output) -> str:
    """Which way round: the second is what `x > 0 ? x : 0` and fmax do with a NaN that torch.relu and its like pass on."""
    dropped = int((actual.isfinite() & out.eager.isnan()).sum()) if out.eager.is_floating_point() else 0
    if dropped == 0:
        return "not finite, or finite where the reference is not"
    return f"not finite, or finite where the reference is not ({dropped} of them are numbers where eager passes a NaN on: a comparison or fmax drops it)"


def judge_output(
    expected: Expected, index: int, view: torch.Tensor, poison: int | None, inputs: Mapping[int, torch.Tensor], stage: str = "screen"
) -> tuple[dict[str, Any], str | None, str]:
    """(the row of the result, problem, message) of one output."""
    out = expected.outputs[index]
    actual = layout.flat(view.resolve_conj().resolve_neg(), out.order)
    if actual.is_complex():
        actual = torch.view_as_real(actual).reshape(-1)
    if out.exact.numel() == 0:
        return _row(out, 0.0, 0.0, Verdict(Pair(0.0, 0.0), 0.0, ""), None, actual), None, ""
    if out.value in expected.run.states_left:
        return _judge_state(out, actual, poison)
    if out.ref is None:
        return _judge_exact(expected, index, actual, poison, inputs)
    errors = measure.compare(actual, out.ref, poison)
    error = Pair(errors.fro, errors.max)
    if out.given and not _same_bits(actual, out.eager):
        verdict = Verdict(Pair(0.0, 0.0), HUGE, "bits")
        return _row(out, errors.fro, errors.max, verdict, errors.worst, actual), "mismatch", "it is an input, and not what was given"
    rest = expected.spread(index, actual, inputs) if errors.problem == "nan" else None
    if rest is not None:
        finite = measure.compare(rest[0], out.ref, poison)
        error = Pair(finite.fro, finite.max)
        verdict = expected.judge(index, rest[0], error, inputs, stage)
        row = _row(out, finite.fro, finite.max, verdict, finite.worst, actual)
        if not verdict.ratio <= 1:
            return row, "mismatch", _words(finite, verdict, row)
        text = f"right but for {errors.bad} elements that are NaN or infinite where eager's are not, of {rest[1]} beside such values of the inputs"
        return row, "finite_only", text
    if errors.problem is not None:
        row = _row(out, errors.fro, errors.max, Verdict(limit(out.yardstick.larger(out.eager_error), out.dtype), HUGE, errors.problem), errors.worst, actual)
        what = "never written" if errors.problem == "unwritten" else _not_finite(actual, out)
        return row, errors.problem, f"{errors.bad} elements are {what}, the first at {row['worst']['index']}"
    verdict = expected.judge(index, actual, error, inputs, stage)
    row = _row(out, errors.fro, errors.max, verdict, errors.worst, actual)
    if not verdict.ratio <= 1:
        slope = measure.slope(actual, out.ref)
        if slope is not None:
            row["slope"] = slope
        return row, "mismatch", _words(errors, verdict, row)
    if stage == "full" and (other := measure.zero_signs(actual, out.ref)):
        row["zero_signs"] = other
    if expected.part is not None and index in expected.part.checked:
        part = expected.part.expected
        row, trouble, text = judge_output(part, index, expected.part.take(out.value, view), None, expected.part.inputs, stage)
        return row, trouble, text
    return row, None, ""


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Up to the payload of a NaN."""
    for part in measure.pieces(a.numel(), a.device):
        x, y = a[part], b[part]
        same = x.view(measure.int_view(x.dtype)) == y.view(measure.int_view(y.dtype))
        if not bool((same | (torch.isnan(x) & torch.isnan(y))).all()):
            return False
    return True


def _judge_state(out: Output, actual: torch.Tensor, poison: int | None) -> tuple[dict[str, Any], str | None, str]:
    """Of the state that torch's generator is left in: eager's, or the reference's where a rounding decides how much is drawn. Near it is not it: one number
    more moves a byte or two."""
    if torch.equal(actual, out.eager) or torch.equal(actual, out.exact):
        return _row(out, 0.0, 0.0, Verdict(Pair(0.0, 0.0), 0.0, ""), None, actual), None, ""
    wrong = actual != out.eager
    share = float(wrong.double().mean())
    row = _row(out, share, share, Verdict(Pair(0.0, 0.0), HUGE, "bits"), int(wrong.to(torch.uint8).argmax()), actual)
    if poison is not None and bool(torch.eq(actual, poison).all()):
        return row, "unwritten", "the state of torch's generator was never written"
    return row, "mismatch", "torch's generator is left in another state than eager leaves it: numbers are not drawn as eager draws them, in number or order"


def _judge_exact(
    expected: Expected, index: int, actual: torch.Tensor, poison: int | None, inputs: Mapping[int, torch.Tensor]
) -> tuple[dict[str, Any], str | None, str]:
    out = expected.outputs[index]
    if float8.is_float8(out.dtype):
        actual, poison = float8.places(actual, out.dtype), None
    found, wrong = measure.compare_exact(actual, out.exact, out.eager, poison)
    if wrong is not None and not found.unwritten:
        wrong = expected.tie(index, actual, wrong, inputs)
        found = measure.ExactErrors(int(wrong.sum()), int(wrong.to(torch.uint8).argmax()))
    count, allowed = out.exact.numel(), 0.0
    if wrong is not None and found.wrong:  # also where a wrong one happens to equal the poison: narrow integers do
        flips = expected.flips(index, inputs)
        if flips.low is not None and flips.high is not None:
            a = actual.to(flips.low.dtype)
            beyond = wrong & ((a < flips.low) | (a > flips.high))
            if not bool(beyond.any()):
                allowed = FACTOR * flips.count + _FEW_FLIPS
            elif not found.unwritten:
                found.worst = int(beyond.to(torch.uint8).argmax())
        if found.wrong <= allowed:
            verdict = Verdict(Pair(allowed / count, allowed / count), found.wrong / allowed, "elements")
            return _row(out, found.wrong / count, found.wrong / count, verdict, found.worst, actual), None, ""
    share = found.wrong / count
    over = 0.0 if not found.wrong else found.wrong / allowed if allowed else HUGE
    at = found.first_unwritten if found.unwritten else found.worst
    row = _row(out, share, share, Verdict(Pair(allowed / count, allowed / count), over, "elements"), at if found.wrong else None, actual)
    if found.unwritten:
        return row, "unwritten", f"{found.unwritten} elements were never written, the first at {row['worst']['index']}"
    if found.wrong:
        return row, "mismatch", f"{found.wrong} of {count} elements differ, the first at {row['worst']['index']}"
    return row, None, ""


def _row(out: Output, fro: float, largest: float, verdict: Verdict, at: int | None, actual: torch.Tensor) -> dict[str, Any]:
    row: dict[str, Any] = {
        "fro": number(fro),
        "max": number(largest),
        "gate_fro": number(verdict.limit.fro),
        "gate_max": number(verdict.limit.max),
        "ratio": number(verdict.ratio),
        "statistic": verdict.statistic,
        "eager_fro": number(out.eager_error.fro),
        "eager_max": number(out.eager_error.max),
        "skipped": out.ref.skipped if out.ref is not None else 0,
        "output": out.position,
        "eps": torch.finfo(out.dtype).eps if out.ref is not None else 0.0,
    }
    if at is not None:
        element = at // 2 if len(out.shape) and actual.numel() == 2 * _numel(out.shape) else at
        row["worst"] = {
            "index": layout.unravel(element, out.shape, out.order),
            "expected": _plain(out.exact[at]),
            "actual": _plain(actual[at : at + 1].view(torch.uint8)[0] if actual.dtype == torch.bool else actual[at]),
            "eager": _plain(out.eager[at]),
        }
    return row


def _plain(element: torch.Tensor) -> float | int | str:
    value = element.item()
    if isinstance(value, bool | int):
        return int(value)
    return value if value == value and abs(value) != float("inf") else str(value)


def _numel(shape: Sequence[int]) -> int:
    total = 1
    for dim in shape:
        total *= dim
    return total


def _words(errors: measure.Errors, verdict: Verdict, row: dict[str, Any]) -> str:
    worst, limit = row["worst"], verdict.limit
    at = f"worst at {worst['index']}: {worst['actual']} where {worst['expected']} is right"
    if verdict.statistic == "max":
        return f"largest error {errors.max:.2e}, {limit.max:.2e} allowed; {at}"
    if verdict.statistic == "fro":
        return f"Frobenius error {errors.fro:.2e}, {limit.fro:.2e} allowed; {at}"
    return f"{verdict.ratio:.2g} times what rounding explains, by `{verdict.statistic}` (docs/accuracy.md); {at}"


def _rank(problem: str) -> int:
    return ["guard", "input_changed", "unwritten", "nan", "mismatch", "finite_only"].index(problem)


def _refused(problem: str, message: str) -> dict[str, Any]:
    return {"ok": False, "problem": problem, "outputs": [], "reference": "fp64", "message": message}


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
