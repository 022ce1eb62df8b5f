# ruff: noqa: E501
"""Operators on data that seldom occur: parts of nothing but infinities, several NaN in a row, small exponentials, integers at the ends of their types,
and masks that cover a row whole.

Each bad variant is right for whatever a generator of usual numbers gives, and was once accepted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from rewrites import Inputs, Operator, Variant

_X = "torch.randn(64, 96, DTYPE)"
_IMAGES = "torch.randn(4, 8, 12, 12, DTYPE)"
_COUNTS = "torch.randint(0, 100, (64, 96), dtype=torch.int32)"
_WIDE = "torch.randint(0, 2**31 - 1, (64, 96), dtype=torch.int32)"
_BYTES = "torch.randint(0, 100, (64, 96), dtype=torch.uint8)"
_CODES = "torch.randint(-10, 10, (32, 64), dtype=torch.int8), torch.randint(-10, 10, (64, 32), dtype=torch.int8)"
_TRUTHS = "torch.rand(64, 96) < 0.5"
_LATER = "torch.ones(64, 64, dtype=torch.bool).triu(1)"
_SCORES = "torch.randn(4, 64, 64, DTYPE)"
_HEADS = "torch.randn(2, 64, 32, DTYPE), torch.randn(2, 64, 32, DTYPE), torch.randn(2, 64, 32, DTYPE)"
_LEAST = f"torch.zeros(64, 64, DTYPE).masked_fill({_LATER}, -3e38)"


def _of(compute: Callable[..., torch.Tensor | list[torch.Tensor]]) -> Variant:
    """The task's inputs by name; what the graph lifts out of the task is left to the variant."""

    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        found = compute(**{name: value for name, value in i.items() if not name.startswith("lifted")})
        return [t.contiguous() for t in ([found] if isinstance(found, torch.Tensor) else found)]

    return run


def _numbers(x: torch.Tensor) -> torch.Tensor:
    """NaN is less than all."""
    return x.nan_to_num(-math.inf, math.inf, -math.inf)


def _naive_logsumexp(x: torch.Tensor) -> torch.Tensor:
    top = x.float().amax(-1, keepdim=True)
    return (top + (x.float() - top).exp().sum(-1, keepdim=True).log()).squeeze(-1).to(x.dtype)


def _logsumexp(x: torch.Tensor) -> torch.Tensor:
    top = x.float().amax(-1, keepdim=True)
    base = torch.where(top.isinf(), 0.0, top)
    return (base + (x.float() - base).exp().sum(-1, keepdim=True).log()).squeeze(-1).to(x.dtype)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.float(), -1)


def _task(name: str, forward: str, inputs: str, args: str, honest: dict[str, Variant], bad: dict[str, Variant], whole: bool = False) -> Operator:
    return Operator(name, f"return {forward}", inputs, args, honest, bad, dtypes=("float32",) if whole else ("float32", "bfloat16"), generic=False)


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """As a fused kernel does it: no number of it is stored in 16 bits in between, and exponentials are of two."""
    scores = (q.float() @ k.float().mT) * 32**-0.5 + m.float()
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp2((scores - top) * math.log2(math.e))
    return ((weights @ v.float()) / weights.sum(-1, keepdim=True)).to(q.dtype)


def _covered(m: torch.Tensor) -> torch.Tensor:
    """Rows of which nothing counts."""
    return (m < -1e4).all(-1, keepdim=True)


def _pooled(x: torch.Tensor, m: torch.Tensor, least: float = 1.0) -> torch.Tensor:
    return ((x.float() * m.float()[..., None]).sum(1) / m.float().sum(1, keepdim=True).clamp(min=least)).to(x.dtype)


SELDOM = [
    _task(
        "largest", "x.amax(-1)", _X, "x", {"by a sort": _of(lambda x: x.sort(-1).values[:, -1]), "halves": _of(lambda x: torch.maximum(x[:, :48].amax(-1), x[:, 48:].amax(-1)))},
        {"from the least finite number": _of(lambda x: x.amax(-1).clamp_min(torch.finfo(x.dtype).min)), "from -1e38": _of(lambda x: x.amax(-1).clamp_min(-1e38)), "NaN is passed over": _of(lambda x: _numbers(x).amax(-1))},
    ),
    _task("least", "x.amin(-1)", _X, "x", {"of the negative": _of(lambda x: -(-x).amax(-1))}, {"from the largest finite number": _of(lambda x: x.amin(-1).clamp_max(torch.finfo(x.dtype).max))}),
    _task(
        "place_of_largest", "x.argmax(-1)", _X, "x", {"with its value": _of(lambda x: x.max(-1).indices)},
        {
            "the last NaN": _of(lambda x: torch.where(x.isnan().any(-1), 95 - x.isnan().flip(-1).int().argmax(-1), x.argmax(-1))),
            "none of -Inf": _of(lambda x: torch.where((x == -math.inf).all(-1), 95, x.argmax(-1))), "NaN is passed over": _of(lambda x: _numbers(x).argmax(-1)),
        },
    ),
    _task("logsumexp_of_parts", "torch.logsumexp(x, -1)", _X, "x", {"base of zero": _of(_logsumexp)}, {"-Inf less -Inf": _of(_naive_logsumexp)}),
    _task("small_exponentials", "torch.softmax(x, -1)", _X, "x", {"in f32": _of(lambda x: _softmax(x).to(x.dtype))}, {"below 1e-6 zero": _of(lambda x: torch.where(_softmax(x) < 1e-6, 0.0, _softmax(x)).to(x.dtype))}),
    _task("equal_numbers", "x == y", f"{_X}, {_X}", "x, y", {"neither less": _of(lambda x, y: (x <= y) & (x >= y))}, {"NaN is NaN": _of(lambda x, y: (x == y) | (x.isnan() & y.isnan()))}),
    _task(
        "pooled", "F.max_pool2d(x, 3, 1, 1)", _IMAGES, "x", {"padded": _of(lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=-math.inf), 3, 1))},
        {"padded with the least finite number": _of(lambda x: F.max_pool2d(x, 3, 1, 1).clamp_min(torch.finfo(x.dtype).min)), "padded with -1e4": _of(lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=-1e4), 3, 1))},
    ),
    # -- integers --
    _task("int_product", "x * y + 3", f"{_COUNTS}, {_COUNTS}", "x, y", {"wider": _of(lambda x, y: (x.long() * y.long() + 3).to(torch.int32))}, {"in 16 bits": _of(lambda x, y: ((x * y).to(torch.int16) + 3).to(torch.int32)), "in f32": _of(lambda x, y: (x.float() * y.float() + 3).to(torch.int32))}, True),
    _task("int_sum", "x.sum(-1)", "torch.randint(0, 100, (64, 96))", "x", {"halves": _of(lambda x: x[:, :48].sum(-1) + x[:, 48:].sum(-1))}, {"in f32": _of(lambda x: x.float().sum(-1).long()), "in 32 bits": _of(lambda x: x.to(torch.int32).sum(-1, dtype=torch.int32).long())}, True),
    _task("int_quotient", "x // 7", _COUNTS, "x", {"by the remainder": _of(lambda x: ((x.long() - x.long().remainder(7)) // 7).to(torch.int32))}, {"towards zero": _of(lambda x: torch.div(x, 7, rounding_mode="trunc"))}, True),
    _task("int_remainder", "x % 7", _COUNTS, "x", {"of C, mended": _of(lambda x: torch.where(torch.fmod(x, 7) < 0, torch.fmod(x, 7) + 7, torch.fmod(x, 7)))}, {"of C": _of(lambda x: torch.fmod(x, 7))}, True),
    _task("int_order", "x > y", f"{_WIDE}, {_WIDE}", "x, y", {"the other way round": _of(lambda x, y: y < x)}, {"or equal": _of(lambda x, y: x >= y), "in f32": _of(lambda x, y: x.float() > y.float())}, True),
    _task("byte_sum", "x + y", f"{_BYTES}, {_BYTES}", "x, y", {"wider": _of(lambda x, y: ((x.int() + y.int()) & 255).to(torch.uint8))}, {"saturated": _of(lambda x, y: (x.int() + y.int()).clamp_max(255).to(torch.uint8))}, True),
    _task("byte_negated", "-x", "torch.randint(-100, 100, (64, 96), dtype=torch.int8)", "x", {"from zero": _of(lambda x: 0 - x)}, {"saturated": _of(lambda x: (-x.int()).clamp(-127, 127).to(torch.int8))}, True),
    _task("int_size", "x.abs()", _COUNTS, "x", {"of both": _of(lambda x: torch.maximum(x, -x))}, {"as it is": _of(lambda x: x.clone())}, True),
    _task("int_shift", "x >> 2", _COUNTS, "x", {"by a quotient": _of(lambda x: torch.div(x, 4, rounding_mode="floor"))}, {"logical": _of(lambda x: ((x.long() & 0xFFFFFFFF) >> 2).to(torch.int32))}, True),
    _task("int_largest", "x.amax(-1)", _COUNTS, "x", {"by a sort": _of(lambda x: x.sort(-1).values[:, -1])}, {"from zero": _of(lambda x: x.amax(-1).clamp_min(0))}, True),
    _task("int_bounds", "x.clamp(10, 1000)", _COUNTS, "x", {"one after the other": _of(lambda x: x.clamp_min(10).clamp_max(1000))}, {"from below alone": _of(lambda x: x.clamp_min(10))}, True),
    _task("any_truth", "x.any(-1)", _TRUTHS, "x", {"counted": _of(lambda x: x.sum(-1) > 0)}, {"always": _of(lambda x: torch.ones_like(x[:, 0]))}, True),
    _task("all_truths", "x.all(-1)", _TRUTHS, "x", {"counted": _of(lambda x: x.sum(-1) == 96)}, {"never": _of(lambda x: torch.zeros_like(x[:, 0]))}, True),
    _task("byte_products", "(x.to(torch.int32)[:, :, None] * y.to(torch.int32)).sum(1, dtype=torch.int32)", _CODES, "x, y", {"in f64": _of(lambda x, y: (x.double() @ y.double()).to(torch.int32))}, {"sums in 16 bits": _of(lambda x, y: (x.double() @ y.double()).long().to(torch.int16).int()), "in fp16": _of(lambda x, y: (x.half() @ y.half()).nan_to_num(0.0).int())}, True),
    _task("byte_scaled", "x.to(torch.float32) * s", f"{_BYTES}, torch.rand(96)", "x, s", {"as it is": _of(lambda x, s: x.float() * s)}, {"signed": _of(lambda x, s: x.view(torch.int8).float() * s)}, True),
    _task("int_places", "x.argsort(dim=-1, stable=True)", _COUNTS, "x", {"of a sort": _of(lambda x: x.sort(dim=-1, stable=True).indices)}, {"equals the other way round": _of(lambda x: 95 - x.flip(-1).argsort(dim=-1, stable=True)), "in f32": _of(lambda x: x.float().argsort(dim=-1, stable=True))}, True),
    # -- masks --
    _task(
        "masked_scores", "(x + m).softmax(-1)", f"{_SCORES}, {_LEAST}", "x, m", {"in f32": _of(lambda x, m: (x.float() + m.float()).softmax(-1).to(x.dtype))},
        {"nothing of covered rows": _of(lambda x, m: torch.where(_covered(m), 0.0, (x + m).softmax(-1))), "as if nothing were covered": _of(lambda x, m: torch.where(_covered(m), x.softmax(-1), (x + m).softmax(-1))), "always what comes before": _of(lambda x, m: x.masked_fill(torch.ones(64, 64, dtype=torch.bool, device=x.device).triu(1), -math.inf).softmax(-1))},
    ),
    _task(
        "masked_attention", "F.scaled_dot_product_attention(q, k, v, attn_mask=m)", f"{_HEADS}, {_LEAST}", "q, k, v, m", {"fused": _of(_attended)},
        {"nothing of covered rows": _of(lambda q, k, v, m: torch.where(_covered(m), 0.0, _attended(q, k, v, m)).to(q.dtype)), "always what comes before": _of(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True))},
    ),
    _task("masked_fill_rows", "x.masked_fill(m, -1e4).softmax(-1)", f"{_SCORES}, torch.rand(64, 64) < 0.3", "x, m", {"in f32": _of(lambda x, m: x.float().masked_fill(m, -1e4).softmax(-1).to(x.dtype))}, {"nothing of covered rows": _of(lambda x, m: x.masked_fill(m, -math.inf).softmax(-1).nan_to_num(0.0))}),
    _task("pooled_by_a_mask", "(x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1)", "torch.randn(16, 24, 32, DTYPE), (torch.rand(16, 24) < 0.7).to(DTYPE)", "x, m", {"in f32": _of(_pooled)}, {"of no elements": _of(lambda x, m: _pooled(x, m, 0.0)), "at least a half": _of(lambda x, m: torch.where(m.sum(1, keepdim=True) == 0, 1.0, _pooled(x, m)).to(x.dtype))}),
    _task("counted_by_a_mask", "(x * m).sum(-1)", "torch.randn(64, 96, DTYPE), (torch.rand(64, 96) < 0.7).long()", "x, m", {"in f32": _of(lambda x, m: (x.float() * m).sum(-1).to(x.dtype))}, {"where any counts": _of(lambda x, m: torch.where(m.any(-1), (x.float() * m).sum(-1), x.float().sum(-1)).to(x.dtype))}),
]  # fmt: skip
