"""The gate must bite: outputs that take no work, or one step less precision than eager uses, have to fail.

Those that pass make a task degenerate: nothing is claimed on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from planish.oracle import flags, layout, measure
from planish.oracle.data import DataSet
from planish.oracle.expected import Expected
from planish.oracle.interpret import CONVOLUTIONS, MATMULS, Double, op_name
from planish.oracle.region import Region, judge_output

SEED, OTHER_SEED = 90002, 90003
_INPUTS_TRIED = 3


def bite(region: Region) -> dict[str, Any]:
    """{`tried`: names, `degenerate`: those that pass}, on task data of a seed of its own."""
    data = region.create(SEED, "task")
    try:
        return _bite(region, data, _constants(region, data))
    finally:
        data.free()


def _constants(region: Region, data: DataSet) -> list[float]:
    """A number for each output that it could return without work: its mean. Where an output is one number, its mean would be the
    answer itself: there it is the answer for other data."""
    expected = region.expected(data)
    found = [_mean(expected, i) for i in range(len(expected.outputs))]
    single = [i for i, out in enumerate(expected.outputs) if out.exact.numel() == 1]
    if single:
        region.fill(data, OTHER_SEED, "task")
        other = region.expected(data)
        for i in single:
            found[i] = _mean(other, i)
        region.fill(data, SEED, "task")
    return found


def _bite(region: Region, data: DataSet, constants: list[float]) -> dict[str, Any]:
    expected = region.expected(data)
    tried: list[str] = []
    degenerate: list[str] = []

    def attempt(name: str, fill: Callable[[int, torch.Tensor], bool]) -> None:
        """`fill` writes output `index`, False when this trick has nothing to offer."""
        data.poison()
        offered = [fill(i, slot.view) for i, slot in enumerate(data.outputs)]
        if not offered or not all(offered):
            return
        tried.append(name)
        inputs = data.input_tensors()
        if all(judge_output(expected, i, slot.view, slot.poison, inputs)[1] is None for i, slot in enumerate(data.outputs)):
            degenerate.append(name)

    attempt("zeros", lambda i, view: _fill(view, 0))
    attempt("constant", lambda i, view: _fill(view, constants[i]))
    for slot in data.inputs:
        if len(tried) < 2 + _INPUTS_TRIED:
            attempt(f"input {slot.name}", partial(_copy_same, slot.view))
    if any(out.ref is not None for out in expected.outputs):
        for name, mode in _less_precise(region, expected):
            results = _variant(expected, data, mode)
            attempt(name, partial(_copy_of, results))
    return {"tried": tried, "degenerate": degenerate}


def _copy_same(source: torch.Tensor, index: int, view: torch.Tensor) -> bool:
    return _copy(view, source)


def _copy_of(results: list[torch.Tensor], index: int, view: torch.Tensor) -> bool:
    return _copy(view, results[index])


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
    operations = {op_name(region.run.captured.nodes[i]) for i in region.run.nodes}
    found: list[tuple[str, Double]] = []
    if torch.float64 in dtypes:
        found.append(("f32", Double(step=_step({torch.float64: _to_f32}))))
    if torch.float32 in dtypes:
        found.append(("bf16", Double(step=_step({torch.float32: _to_bf16}))))
        products = (operations & (MATMULS | CONVOLUTIONS)) - flags.tf32_operations(region.task.device, region.accuracy)
        if products and region.accuracy.mode == "eager":
            found.append(("tf32 products", Double(tf32=frozenset(products))))
    if dtypes & {torch.float16, torch.bfloat16}:
        found.append(("fp8", Double(step=_step(dict.fromkeys((torch.float16, torch.bfloat16), _to_e4m3)), step_inputs_only=True)))
    return found


def _step(roundings: dict[torch.dtype, Callable[[torch.Tensor], torch.Tensor]]) -> Callable[[torch.Tensor, torch.dtype], torch.Tensor]:
    def step(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        rounding = roundings.get(dtype)
        if rounding is None:
            return tensor
        flat = tensor.contiguous().view(-1)
        result = torch.empty_like(flat)
        for piece in measure.pieces(flat.numel(), flat.device):  # a rounding's temporaries are several times its operand
            result[piece] = rounding(flat[piece])
        return result.view(tensor.shape)

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
    values = out.exact.to(torch.float64)
    mean = float(torch.where(torch.isfinite(values), values, 0.0).mean())
    return mean if out.ref is not None else round(mean)


def _copy(view: torch.Tensor, source: torch.Tensor) -> bool:
    if source.shape != view.shape:
        return False
    layout.copy_into(view, source.to(view.dtype))
    return True
