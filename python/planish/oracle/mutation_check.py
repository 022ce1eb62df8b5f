"""The gate must bite: outputs that take no work, or one step less precision than eager uses, have to fail.

Those that pass make a task degenerate: nothing is claimed on it. It is a note where
- a lower precision passes because eager's own rounding is coarser (the yardstick is eager, whose precision is what the user has
  today), or because the user named a tolerance;
- what passes on the task's own data fails on other data that every proof takes: there the gate bites.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from planish.errors import PlanishError
from planish.oracle import flags, gate, layout, measure, memory
from planish.oracle.data import DataSet
from planish.oracle.expected import Expected
from planish.oracle.gate import Pair
from planish.oracle.interpret import CONVOLUTIONS, MATMULS, Double, op_name
from planish.oracle.region import Region, judge_output

SEED, OTHER_SEED = 90002, 90003
_INPUTS_TRIED = 3
_OTHER_REGIMES = ("normal", "wide")
_WORDS = {
    "constant": "a constant",
    "f32": "single precision",
    "bf16": "values rounded to bf16",
    "tf32 products": "TF32 products",
    "fp8": "inputs rounded to 8 bits",
}


def _words(name: str) -> str:
    return f"{name}, handed back as it is," if name.startswith("input ") else _WORDS.get(name, name)


def mutation_check(region: Region) -> dict[str, Any]:
    """{`tried`: names, `degenerate`: those that pass, `notes`: those that pass because eager is coarser}, on task data of a seed of its own.

    Where memory has no place for another interpretation beside the reference, both are made in pieces, or a slice of the batch decides about
    lower precision; where neither can be, that is not tried, and a note says so."""
    data = region.create(SEED, "task")
    try:
        found = _checked(region, data, _constants(region, data))
        for regime in _OTHER_REGIMES:
            if found["degenerate"]:
                _look_elsewhere(region, data, regime, found)
        found["notes"][:0] = [*_about_module(region), *_about_numbers(region)]
        return found
    finally:
        data.free()
        region.forget(SEED, OTHER_SEED)  # nobody asks for these data again


def _about_module(region: Region) -> list[dict[str, Any]]:
    """Of a task without a graph: what the verdict rests on, and what it has not seen."""
    if region.task.module is None:
        return []
    node = region.task.graph["nodes"][0]
    why = next(arg["str"] for arg in node["args"] if arg["name"] == "refusal")
    notes = [{"kind": "module_reference", "about": "", "text": f"the task has no graph ({why}): its own module, run in double precision, is the reference"}]
    if region.task.sizes_drawn:
        text = "get_inputs() draws sizes: all data sets have the sizes and integers of one call, and a solution may know them"
        notes.append({"kind": "one_structure", "about": "", "text": text})
    return notes


def _about_numbers(region: Region) -> list[dict[str, Any]]:
    """Of a task that was captured for numbers of its call."""
    if not any("numbers" in scalar["arg"] for scalar in region.task.graph["scalars"]):
        return []
    text = "it was captured for integers of its call, which all data sets have: a program or a solution may know them, and others run the original"
    return [{"kind": "these_numbers", "about": "", "text": text}]


def _look_elsewhere(region: Region, data: DataSet, regime: str, found: dict[str, Any]) -> None:
    """Makes notes of what passes on the task's own data and fails in another regime, if that is in the task's domain and so in every proof.
    What is not tried there, or passes for a reason of its own, stays degenerate."""
    try:
        region.fill(data, SEED, regime)
        there = _checked(region, data, _constants(region, data), frozenset(found["degenerate"]))
    except PlanishError as error:
        if error.kind not in ("skipped", "out_of_memory"):
            raise
        return
    passes = {*there["degenerate"], *(note["about"] for note in there["notes"])}
    for name in [name for name in found["degenerate"] if name in there["tried"] and name not in passes]:
        found["degenerate"].remove(name)
        text = f"on the task's own data {_words(name)} would pass; on {regime} data, which every proof includes, that fails"
        found["notes"].append({"kind": "fails_elsewhere", "about": name, "text": text})


def _constants(region: Region, data: DataSet) -> list[float]:
    """A number for each output that it could return without work: its mean. Where an output is one number, its mean would be the
    answer itself: there it is the answer for other data."""
    seed, regime = data.seed, data.regime
    expected = region.expected(data)
    found = [_mean(expected, i) for i in range(len(expected.outputs))]
    single = [i for i, out in enumerate(expected.outputs) if out.exact.numel() == 1]
    del expected  # the other's place
    if single:
        region.fill(data, OTHER_SEED, regime)
        other = region.expected(data)
        for i in single:
            found[i] = _mean(other, i)
        del other
        region.fill(data, seed, regime)
    return found


def _checked(region: Region, data: DataSet, constants: list[float], only: frozenset[str] | None = None) -> dict[str, Any]:
    try:
        return _mutation_check(region, data, constants, only)
    except Exception as error:
        if not memory.is_exhausted(error):
            raise
    region.again(data)
    return _mutation_check(region, data, constants, only)


def _mutation_check(region: Region, data: DataSet, constants: list[float], only: frozenset[str] | None = None) -> dict[str, Any]:
    expected = region.expected(data)
    states = region.run.states_left  # to leave torch's generator as eager does is no work
    tried: list[str] = []
    degenerate: list[str] = []
    notes: list[dict[str, Any]] = []

    def attempt(name: str, fill: Callable[[int, torch.Tensor], bool], precision: bool = False) -> None:
        """`fill` writes output `index`, False when this trick has nothing to offer. `precision`: it is the work, only less precise."""
        if only is not None and name not in only:
            return
        data.poison()
        offered = [fill(i, slot.view) for i, slot in enumerate(data.outputs) if slot.value not in states]
        if not offered or not all(offered):
            return
        tried.append(name)
        inputs = data.input_tensors()
        rows = []
        for i, slot in enumerate(data.outputs):
            if slot.value in states:
                rows.append({"max": 0.0, "fro": 0.0})
                continue
            row, problem, _ = judge_output(expected, i, slot.view, slot.poison, inputs)
            if problem is not None:
                return
            rows.append(row)
        note = _coarser(expected, rows, name) if precision else None
        if note is None:
            degenerate.append(name)
        else:
            notes.append(note)

    attempt("zeros", lambda i, view: _fill(view, 0))
    attempt("constant", lambda i, view: _fill(view, constants[i]))
    given = {item["value"]: item["name"] for item in region.task.graph["inputs"]}  # as forward and the module call them
    for slot in data.inputs:
        # A network has hundreds of parameters and buffers: what cannot be all outputs is not tried.
        fits = all(out.view.shape == slot.view.shape for out in data.outputs if out.value not in states)
        if fits and sum(name.startswith("input ") for name in tried) < _INPUTS_TRIED:
            attempt(f"input {given.get(slot.value, slot.name)}", partial(_copy_same, slot.view))
    if any(out.ref is not None for out in expected.outputs):
        for name, mode in _less_precise(region, expected):
            if only is not None and name not in only:
                continue
            results = _variant(expected, data, mode) if expected.part is not None else _variant_of_all(region, expected, data, mode)
            if results is None:
                expected.outputs = []  # what comes next needs the memory
                try:
                    expected = region.again(data)
                except PlanishError as error:
                    if error.kind != "out_of_memory":
                        raise
                    notes.append({"kind": "not_tried", "about": name, "text": f"whether {_WORDS[name]} would pass was not tried: {error.message}"})
                    break
                results = _variant(expected, data, mode)
            attempt(name, partial(_hand_over, results), True)
    return {"tried": tried, "degenerate": degenerate, "notes": notes}


def _coarser(expected: Expected, rows: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """The note for a less precise variant that passed, if it is the tolerance that was asked for, or eager's own rounding (or the TF32 that
    torch's flags permit it), that lets it through; None where rounding cannot be what decides: the data need no precision there, or the sums
    cancel until any number would do."""
    judged = expected if expected.part is None else expected.part.expected
    if expected.accuracy.mode == "tolerance":  # what was asked for
        text = f"the tolerance of {expected.accuracy.tolerance:g} leaves room for {_WORDS.get(name, name)}: they would pass here"
        return {"kind": "coarse_tolerance", "about": name, "error": max(row["max"] for row in rows), "text": text}
    told: dict[str, Any] | None = None
    for i, row in enumerate(rows):
        out = judged.outputs[i]
        if out.ref is None:
            continue
        error = Pair(row["fro"], row["max"])
        if error.within(gate.floor(out.dtype).times(gate.FACTOR)):
            continue
        yardstick = out.yardstick.larger(out.eager_error)
        if judged.tf32 is not None:
            yardstick = yardstick.larger(judged.tf32[i])
        if not error.within(yardstick.times(gate.FACTOR)):
            return None
        if told is None or error.fro > told["error"]:
            told = {"kind": "coarse_eager", "about": name, "eager_error": yardstick.fro, "error": error.fro}
    if told is not None:
        how = "is coarser than" if told["eager_error"] >= told["error"] else "leaves room for"
        words = _WORDS.get(name, name)
        told["text"] = f"eager's own rounding, {told['eager_error']:.1e}, {how} {words}, {told['error']:.1e}: they would pass here"
    return told


def _copy_same(source: torch.Tensor, index: int, view: torch.Tensor) -> bool:
    return _copy(view, source)


def _hand_over(results: list[torch.Tensor], index: int, view: torch.Tensor) -> bool:
    """Copies one of the results, and lets go of it: judging needs the memory."""
    result, results[index] = results[index], torch.empty(0)
    return _copy(view, result)


def _variant_of_all(region: Region, expected: Expected, data: DataSet, mode: Double) -> list[torch.Tensor] | None:
    """None where memory has no place for it."""
    try:
        return _variant(expected, data, mode) if region.fits_again() else None
    except Exception as error:
        if not memory.is_exhausted(error):
            raise
    return None


def _variant(expected: Expected, data: DataSet, mode: Double) -> list[torch.Tensor]:
    run, inputs = expected.run, data.input_tensors()
    if expected.part is not None:  # what is cut away is eager's: only the slice decides
        run, inputs = expected.part.expected.run, expected.part.inputs
    results = run.run(inputs, list(dict.fromkeys(o.value for o in expected.outputs)), mode)
    found = []
    for out in expected.outputs:
        result = results[out.value]
        if expected.part is not None:
            whole = _natural(out.eager, out.shape, out.order).clone()
            if result.shape != whole.shape:
                expected.part.take(out.value, whole).copy_(result)
            result = whole
        found.append(result)
    return found


def _natural(flat: torch.Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> torch.Tensor:
    return flat.reshape([shape[d] for d in order]).permute([order.index(d) for d in range(len(order))])


def _less_precise(region: Region, expected: Expected) -> list[tuple[str, Double]]:
    """One step less than eager: f64 → f32, f32 → bf16 (and TF32 products), 16 bits → 4 significant bits."""
    dtypes = {out.dtype for out in expected.outputs if out.ref is not None}
    single = {op_name(n) for n in (region.run.captured.nodes[i] for i in region.run.nodes) if _has_single(n)}
    found: list[tuple[str, Double]] = []
    if torch.float64 in dtypes:
        found.append(("f32", Double(step=_step({torch.float64: _to_f32}))))
    if torch.float32 in dtypes:
        found.append(("bf16", Double(step=_step({torch.float32: _to_bf16}))))
        products = (single & (MATMULS | CONVOLUTIONS)) - flags.tf32_operations(region.task.device, region.accuracy)
        if products and region.accuracy.mode in ("eager", "permitted"):
            found.append(("tf32 products", Double(tf32=frozenset(products))))
    given = {region.run.dtypes[v] for v in region.inputs}
    if dtypes & {torch.float16, torch.bfloat16} and given & {torch.float16, torch.bfloat16}:
        found.append(("fp8", Double(step=_step(dict.fromkeys((torch.float16, torch.bfloat16), _to_e4m3)), step_inputs_only=True)))
    return found


def _has_single(node: torch.fx.Node) -> bool:
    """Whether some operand that TF32 could round is in single precision."""
    metas = [source.meta.get("val") for source in node.all_input_nodes]
    return any(isinstance(m, torch.Tensor) and m.dtype == torch.float32 and m.ndim >= 2 for m in metas)


def _step(roundings: dict[torch.dtype, Callable[[torch.Tensor], torch.Tensor]]) -> Callable[[torch.Tensor, torch.dtype], torch.Tensor]:
    def step(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        rounding = roundings.get(dtype)
        if rounding is None:
            return tensor
        flat = layout.run_of(tensor)
        if flat is None:
            tensor = tensor.contiguous()
            flat = tensor.view(-1)
        result = torch.empty_like(flat)
        for piece in measure.pieces(flat.numel(), flat.device):  # a rounding's temporaries are several times its operand
            result[piece] = rounding(flat[piece])
        return result.as_strided(tensor.shape, tensor.stride())

    return step


def _to_f32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32).to(torch.float64)


def _to_bf16(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.bfloat16).to(torch.float64)


def _to_e4m3(tensor: torch.Tensor) -> torch.Tensor:
    """Four significant bits, at whatever scale: what a well-scaled fp8 keeps."""
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp((mantissa * 16).round() / 16, exponent)


def _fill(view: torch.Tensor, value: float) -> bool:
    layout.distinct(view).fill_(value)
    return True


def _mean(expected: Expected, index: int) -> float:
    out = expected.outputs[index]
    if out.exact.numel() == 0:
        return 0
    total = 0.0
    for piece in measure.pieces(out.exact.numel(), out.exact.device):
        values = out.exact[piece].to(torch.float64)
        total += float(torch.where(torch.isfinite(values), values, 0.0).sum())
    mean = total / out.exact.numel()
    return mean if out.ref is not None else round(mean)


def _copy(view: torch.Tensor, source: torch.Tensor) -> bool:
    if source.shape != view.shape:
        return False
    layout.copy_into(view, source)
    return True
