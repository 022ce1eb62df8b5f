"""Kernels of ours on zeros of both signs, the smallest numbers and what lies around them: where an element is zero or tiny, its sign must be eager's."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from planish import rt
from planish.capture import capture
from planish.executor import Executor

from tests.random_graphs.parts import CppBatch, Tool, cpu_levels

Function = Callable[..., torch.Tensor]
CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

_NAMES = """abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p log2 neg reciprocal relu round
rsqrt sgn sigmoid sign sin sinh sqrt square tan tanh trunc""".split()
_ACTIVATIONS = "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus softsign tanhshrink".split()
#: Of one tensor.
UNARY: dict[str, Function] = (
    {name: getattr(torch, name) for name in _NAMES}
    | {name: getattr(F, name) for name in _ACTIVATIONS}
    | {
        "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
        "elu 0.5": lambda x: F.elu(x, 0.5),
        "softshrink": lambda x: F.softshrink(x, 0.5),
        "hardshrink": lambda x: F.hardshrink(x, 0.5),
        "threshold": lambda x: F.threshold(x, 0.0, 0.0),
        "threshold -0": lambda x: F.threshold(x, 0.0, -0.0),
        "clamp at 0": lambda x: x.clamp(0, 1),
        "clamp at -0": lambda x: x.clamp(-0.0, 1),
        "clamp below": lambda x: x.clamp(max=0),
        "clamp below -0": lambda x: x.clamp(max=-0.0),
        "clamp min": lambda x: torch.clamp_min(x, 0),
        "clamp max": lambda x: torch.clamp_max(x, 0),
        "hardtanh at 0": lambda x: F.hardtanh(x, 0, 1),
        "plus 0": lambda x: x + 0.0,
        "plus -0": lambda x: x + -0.0,
        "less 0": lambda x: x - 0.0,
        "0 less": lambda x: 0.0 - x,
        "0 less, whole": lambda x: 0 - x,
        "-0 less": lambda x: -0.0 - x,
        "zeros less": lambda x: torch.zeros_like(x) - x,
        "zeros and less": lambda x: torch.add(torch.zeros_like(x), x, alpha=-1),
        "0 less 0 less": lambda x: 0 - (0 - x),
        "negated and 0": lambda x: -x + 0.0,
        "1 by 0 less": lambda x: 1 / (0 - x),
        "sign of 0 less": lambda x: torch.copysign(torch.ones_like(x), 0 - x),
        "times 0": lambda x: x * 0.0,
        "times -1": lambda x: x * -1,
        "half": lambda x: x / 2,
        "0 by": lambda x: 0.0 / x,
        "pow 2": lambda x: x**2,
        "pow 3": lambda x: x**3,
        "pow 0.5": lambda x: x**0.5,
        "pow -1": lambda x: x**-1,
        "pow -2": lambda x: x**-2,
        "pow 5": lambda x: x**5,
        "pow 1.5": lambda x: x**1.5,
        "pow 0.33": lambda x: x**0.33,
        "remainder 2": lambda x: x % 2,
        "remainder -2": lambda x: x % -2,
        "fmod 2": lambda x: torch.fmod(x, 2),
        "floor divide": lambda x: torch.div(x, 2, rounding_mode="floor"),
        "trunc divide": lambda x: torch.div(x, -2, rounding_mode="trunc"),
        "round 2": lambda x: torch.round(x, decimals=2),
        "nan_to_num": torch.nan_to_num,
        "where": lambda x: torch.where(x > 0, x, 0.0),
        "where -0": lambda x: torch.where(x > 0, x, -0.0),
        "masked_fill": lambda x: x.masked_fill(x < 0, -0.0),
        "rounded to 16 bits": lambda x: x.to(torch.bfloat16).to(x.dtype),
        "through double": lambda x: x.double().to(x.dtype),
        "logit": lambda x: torch.logit(x, 0.1),
        "addcmul": lambda x: torch.addcmul(x, x, x, value=-1),
        "addcdiv": lambda x: torch.addcdiv(x, x, x + 4),
        "negated twice": lambda x: torch.neg(-x),
        "x - x": lambda x: x - x,
    }
)  # fmt: skip
#: Of two tensors.
BINARY: dict[str, Function] = {
    name: getattr(torch, name)
    for name in "add sub mul div maximum minimum fmax fmin atan2 copysign hypot fmod remainder floor_divide pow rsub xlogy logaddexp".split()
} | {
    "clamp between": lambda x, y: torch.clamp(x, y, y.abs()),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "lerp far": lambda x, y: torch.lerp(x, y, 0.75),
    "a product and a sum": lambda x, y: x * y + y,
    "a product less": lambda x, y: x * y - x,
    "less a product": lambda x, y: y - x * y,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "where of both": lambda x, y: torch.where(x >= y, x, y),
    "heaviside": torch.heaviside,
    "addcmul of both": lambda x, y: torch.addcmul(x, x, y),
    "0 less both": lambda x, y: 0 - x - y,
    "a sum negated": lambda x, y: -(x + y),
}  # fmt: skip
#: Of rows, to one element or to as many.
ROWS: dict[str, Function] = {
    "sum": lambda x: x.sum(1),
    "0 less the sum": lambda x: 0 - x.sum(1),
    "mean": lambda x: x.mean(1),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1),
    "max": lambda x: x.max(1).values,
    "min": lambda x: x.min(1).values,
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.cummax(1).values,
    "norm": lambda x: x.norm(dim=1),
    "max_pool": lambda x: F.max_pool1d(x[None], 2)[0],
    "avg_pool": lambda x: F.avg_pool1d(x[None], 2)[0],
    "less the mean": lambda x: x - x.mean(1, keepdim=True),
    "normalize": lambda x: F.normalize(x, dim=1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
}


def numbers(dtype: torch.dtype) -> torch.Tensor:
    """Zeros, the smallest numbers with and without full precision, and some around steps of functions; of both signs."""
    facts = torch.finfo(dtype)
    small = [0.0, facts.smallest_normal * facts.eps, facts.smallest_normal / 2, facts.smallest_normal, facts.eps, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0]
    large = [facts.max, float("inf")]
    one = torch.tensor([*small, *large], dtype=torch.float64).to(dtype)
    return torch.cat([one, -one])


@dataclass(frozen=True)
class Sweep:
    """Functions that one module applies to the same inputs, each result an output."""

    name: str
    functions: dict[str, Function]
    inputs: tuple[torch.Tensor, ...]


def sweeps(dtype: torch.dtype) -> Iterator[Sweep]:
    values = numbers(dtype)
    # Longer than a vector, and no whole number of them: both forms of each kernel run.
    yield Sweep("unary", UNARY, (values.repeat(5)[: 5 * len(values) - 3],))
    pairs = torch.tensor(list(itertools.product(range(len(values)), repeat=2)))
    yield Sweep("binary", BINARY, (values[pairs[:, 0]], values[pairs[:, 1]]))
    drawn = random.Random(7)
    zeros = [[drawn.choice([0.0, -0.0]) for _ in range(39)] for _ in range(6)]
    rows = torch.tensor([[-0.0] * 39, [0.0] * 39, [*[-0.0] * 38, 0.0], [0.0, *[-0.0] * 38], [-1.0, 1.0, *[-0.0] * 37], *zeros], dtype=dtype)
    yield Sweep("rows", ROWS, (rows,))


class Applied(torch.nn.Module):
    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__()
        self.functions = list(functions.values())

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(*tensors) for function in self.functions)


def kernels(sweep: Sweep, tool: Tool, folder: Path, seed: int) -> tuple[list[torch.Tensor], list[str]]:
    """The outputs of a program of ours, and what its steps are."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = capture(Applied(sweep.functions), sweep.inputs, {}, folder).graph
    arch = cpu_levels()[0]
    answer = tool.ask({"graph": graph, "target": "cpu", "arch": arch, "programs": 1, "seed": seed})
    assert "error" not in answer, answer["error"]
    program = answer["programs"][0]["program"]
    batch = CppBatch(folder)
    built = [batch.add(kernel, arch) for kernel in program["kernels"]]
    batch.build()
    for kernel, one in zip(program["kernels"], built, strict=True):
        assert not one.error, one.error
        kernel["entry"] = one.entry
    executor = Executor(program, [one.path for one in built], folder, rt.find_library(), CPU, effects=[])
    with torch.no_grad():
        outputs = executor.run([sweep.inputs[b.index] for b in executor.bindings])
    return outputs, [str(step.get("op", "kernel")) for step in program["steps"]]


def _operands(sweep: Sweep, result: torch.Tensor, at: list[int]) -> str:
    """Of the element there; of a row its beginning."""
    return ", ".join(str(i[tuple(at)].item() if i.shape == result.shape else i[at[0]][:3].tolist()) for i in sweep.inputs)


def differences(sweep: Sweep, outputs: list[torch.Tensor]) -> dict[str, list[str]]:
    """By function: operands for which eager's result has the other sign, or is zero where ours is not, or the other way round."""
    found: dict[str, list[str]] = {}
    # Of gelu's zeros oneDNN keeps the sign on AVX-512 processors and loses it on others: torch's own loops are the same everywhere.
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        expected = Applied(sweep.functions)(*sweep.inputs)
    for name, ours, eagers in zip(sweep.functions, outputs, expected, strict=True):
        numbers = ~(ours.isnan() | eagers.isnan())
        odd = numbers & (ours.signbit() != eagers.signbit())
        where = odd.nonzero().tolist()
        if where:
            found[name] = [f"({_operands(sweep, ours, at)}) is {ours[tuple(at)].item()}, eager {eagers[tuple(at)].item()}" for at in where]
    return found
