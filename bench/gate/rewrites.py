# ruff: noqa: E501
"""Operators with honest rewrites and bad ones, which a gate must tell apart: `Operator`s for three dtypes, on any device.

A variant gets the graph's inputs by name and a random generator, and returns the outputs. Honest ones round once where they store, as fused kernels do, or where
eager does; a bad one either does other work or has less precision than eager: an error of more than twice eager's, on some data of a proof."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

Inputs = dict[str, torch.Tensor]
Variant = Callable[[Inputs, random.Random], list[torch.Tensor]]
Rounding = Callable[[torch.Tensor], torch.Tensor]
NARROW = ("bfloat16", "float16")
DTYPES = ("float32", *NARROW)


@dataclass
class Operator:
    """`dtypes`: which of the three its task is made for. `init`, `forward` and `inputs` are text in which DTYPE stands for the dtype."""

    name: str
    forward: str
    inputs: str
    args: str
    honest: dict[str, Variant]
    bad: dict[str, Variant]
    init: str = "pass"
    dtypes: tuple[str, ...] = DTYPES
    generic: bool = True  # what can be done to any result is tried as well
    exact: Variant | None = None  # gives the result in fp64, before it is stored
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)  # variant → dtypes
    number: bool = False  # it gives one number, or a few: what is done to any result is done where that has no parts
    algebra: dict[str, Variant] = field(default_factory=dict)  # right for finite values, or by the norm, alone: counted for themselves

    def source(self, dtype: str) -> str:
        text = (
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nclass Model(nn.Module):\n    def __init__(self):\n"
            f"        super().__init__()\n        {self.init}\n    def forward(self, {self.args}):\n        {self.forward}\n"
            f"def get_inputs():\n    return [{self.inputs}]\ndef get_init_inputs():\n    return []\n"
        )
        return text.replace("DTYPE", f"dtype=torch.{dtype}")

    def variants(self, dtype: str) -> Iterator[tuple[str, str, Variant]]:
        """(name, `honest`, `bad` or `algebra`, the variant)."""
        for good, some in (("honest", self.honest), ("bad", self.bad), ("algebra", self.algebra)):
            for name, variant in some.items():
                if dtype in self.only.get(name, DTYPES):
                    yield name, good, variant
        if self.generic and self.exact is not None:
            for name, spoil in GENERIC.items():
                if dtype in _ONLY.get(name, DTYPES) and not (self.number and name in _OF_PARTS):
                    yield name, "bad", _spoilt(self.exact, spoil)


# -- roundings --


def bits(keep: int) -> Rounding:
    """To `keep` significant bits, to nearest."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        m, e = torch.frexp(x.double())
        return torch.ldexp((m * 2.0**keep).round() / 2.0**keep, e)

    return rounded


def cut(keep: int) -> Rounding:
    """To `keep` significant bits, towards zero."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        m, e = torch.frexp(x.double())
        return torch.ldexp((m * 2.0**keep).trunc() / 2.0**keep, e)

    return rounded


def tf32(x: torch.Tensor) -> torch.Tensor:
    return bits(11)(x).to(x.dtype)


def bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().to(x.dtype)


def grouped(width: int, levels: int) -> Rounding:
    """Integers with one scale a group along the last dim."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] % width:
            return x
        parts = x.float().reshape(*x.shape[:-1], -1, width)
        scale = parts.abs().amax(-1, keepdim=True).clamp_min(1e-30) / levels
        return ((parts / scale).round() * scale).reshape(x.shape).to(x.dtype)

    return rounded


PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24}


# -- what can be done to any result: (exact in fp64, what correct rounding stores, a generator) → what is stored --

Spoil = Callable[[torch.Tensor, torch.Tensor, random.Random], torch.Tensor]


def _name(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _parts(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, x.shape[-1]) if x.ndim > 1 else x.view(1, -1)


def _smallest(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    rows = _parts(x)
    size = rows.double().nan_to_num(0, 0, 0).square().mean(1 - dim)
    size = torch.where(size > 0, size, math.inf)
    return rows, int(size.argmin())


def _smallest_row_zero(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
    rows, at = _smallest(stored, 0)
    rows[at] = 0
    return stored


def _smallest_channel_tripled(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
    rows, at = _smallest(stored, 1)
    rows[:, at] *= 3
    return stored


def _last_row_stale(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
    rows = _parts(stored)
    rows[-1] = rows[0] if rows.shape[0] > 1 else 0
    return stored


def _last_column_zero(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
    _parts(stored)[:, -1] = 0
    return stored


def _one_off(share: float) -> Spoil:
    def spoil(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
        flat = stored.view(-1)
        usual = float(flat.double().nan_to_num(0, 0, 0).abs().median())
        near = (flat.double().abs() >= usual).nonzero().view(-1)
        flat[near[rng.randrange(near.numel())] if near.numel() else 0] *= 1 + share
        return stored

    return spoil


def _one_part_low(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """An index of the first dim with four bits less, of fp32 with eight."""
    at, less = rng.randrange(stored.shape[0]), 8 if stored.dtype == torch.float32 else 4
    stored[at] = bits(PRECISION[_name(stored)] - less)(exact[at]).to(stored.dtype)
    return stored


def _noise(share: float) -> Spoil:
    def spoil(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
        generator = torch.Generator(exact.device).manual_seed(rng.randrange(1 << 30))
        return (exact * (1 + share * torch.randn(exact.shape, dtype=exact.dtype, device=exact.device, generator=generator))).to(stored.dtype)

    return spoil


def _quarter_unit(exact: torch.Tensor, stored: torch.Tensor, rng: random.Random) -> torch.Tensor:
    m, e = torch.frexp(exact)
    return torch.ldexp(m + 0.25 * 2.0 ** -PRECISION[_name(stored)], e).to(stored.dtype)


GENERIC: dict[str, Spoil] = {
    "rounded to 5 bits": lambda x, s, r: bits(5)(x).to(s.dtype),
    "rounded to 6 bits": lambda x, s, r: bits(6)(x).to(s.dtype),
    "one bit less": lambda x, s, r: bits(PRECISION[_name(s)] - 1)(x).to(s.dtype),
    "fp16 rounded to bf16": lambda x, s, r: x.bfloat16().to(s.dtype),
    "rounded to bf16": lambda x, s, r: x.bfloat16().to(s.dtype),
    "rounded to 10 bits": lambda x, s, r: bits(10)(x).to(s.dtype),
    "rounded to 16 bits": lambda x, s, r: bits(16)(x).to(s.dtype),
    "truncating store": lambda x, s, r: cut(PRECISION[_name(s)])(x).to(s.dtype),
    "1.2 % too large": lambda x, s, r: (x * 1.012).to(s.dtype),
    "0.5 % too large": lambda x, s, r: (x * 1.005).to(s.dtype),
    "0.2 % too large": lambda x, s, r: (x * 1.002).to(s.dtype),
    "0.001 % too large": lambda x, s, r: (x * 1.00001).to(s.dtype),
    "a quarter unit too large": _quarter_unit,
    "1 % noise": _noise(0.01),
    "0.01 % noise": _noise(1e-4),
    "one element 6 % off": _one_off(0.06),
    "one element 0.1 % off": _one_off(1e-3),
    "an index of the first dim low": _one_part_low,
    "last row stale": _last_row_stale,
    "last column zero": _last_column_zero,
    "smallest row zero": _smallest_row_zero,
    "smallest channel tripled": _smallest_channel_tripled,
    "zeros": lambda x, s, r: torch.zeros_like(s),
}
_OF_PARTS = {"an index of the first dim low", "last row stale", "last column zero", "smallest row zero", "smallest channel tripled"}
_ONLY: dict[str, tuple[str, ...]] = {
    "rounded to 5 bits": NARROW, "rounded to 6 bits": NARROW, "one bit less": NARROW, "fp16 rounded to bf16": ("float16",), "rounded to bf16": ("float32",),
    "rounded to 10 bits": ("float32",), "rounded to 16 bits": ("float32",), "truncating store": NARROW, "0.2 % too large": DTYPES,
    "0.5 % too large": NARROW, "0.001 % too large": ("float32",), "a quarter unit too large": NARROW, "0.01 % noise": ("float32",), "one element 0.1 % off": ("float32",),
}  # fmt: skip


def _spoilt(exact: Variant, spoil: Spoil) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        dtype = next(t.dtype for t in i.values() if t.is_floating_point())
        found = [t.contiguous() for t in exact(i, rng)]
        return [spoil(t, t.to(dtype).clone(), rng) for t in found]

    return run


# -- how sums are made --

Sum = Callable[[torch.Tensor, random.Random], torch.Tensor]


def blocked(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    size = rng.choice([16, 33, 100])
    return torch.stack([p.flip(-1).sum(-1) for p in x.split(size, -1)], -1).sum(-1, keepdim=True)


def tree(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    lanes = rng.choice([8, 32, 64])
    parts = F.pad(x, (0, -x.shape[-1] % lanes)).reshape(*x.shape[:-1], -1, lanes)
    total = parts[..., 0, :].clone()
    for k in range(1, parts.shape[-2]):
        total = total + parts[..., k, :]
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total


def in_order(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    total = torch.zeros_like(x[..., 0])
    for k in range(x.shape[-1]):
        total = total + x[..., k]
    return total[..., None]


def reversed_sum(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    return x.flip(-1).sum(-1, keepdim=True)


def in_double(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    return x.double().sum(-1, keepdim=True).to(x.dtype)


def short(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """The last term is missing."""
    return x[..., :-1].sum(-1, keepdim=True)


def in_16_bits(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Every partial sum of eight terms is stored in bf16."""
    total = torch.zeros_like(x[..., 0])
    for part in x.split(8, -1):
        total = bf16(total + part.sum(-1))
    return total[..., None]


SUMS: dict[str, Sum] = {"blocked": blocked, "tree": tree, "one accumulator": in_order, "reversed": reversed_sum, "fp64 sums": in_double}


def single(t: torch.Tensor) -> torch.Tensor:
    return t.float() if t.is_floating_point() else t


def _dtype(i: Inputs) -> torch.dtype:
    return next(t.dtype for t in i.values() if t.is_floating_point())


def _of(compute: Callable[..., torch.Tensor], wide: bool = False) -> Variant:
    """Computes in fp32 (`wide`: fp64) and stores once; the functions get the inputs by name and `rng`."""

    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        given = {k.replace(".", "_"): (t.double() if wide else t.float()) if t.is_floating_point() else t for k, t in i.items()}
        result = compute(rng=rng, **given)
        return [result if wide else result.to(_dtype(i))]

    return run


# -- operators --


def mm_in(order: str) -> Callable[[torch.Tensor, torch.Tensor, random.Random], torch.Tensor]:
    def product(a: torch.Tensor, b: torch.Tensor, rng: random.Random) -> torch.Tensor:
        k = a.shape[-1]
        if order == "tiled":
            size = rng.choice([8, 16, 48])
            total = torch.zeros(a.shape[:-1] + b.shape[-1:], dtype=a.dtype, device=a.device)
            for s in range(0, k, size):
                total = total + a[..., s : s + size] @ b[..., s : s + size, :]
            return total
        if order == "split-k":
            parts = [a[..., s::4] @ b[..., s::4, :] for s in range(4)]
            rng.shuffle(parts)
            return parts[0] + parts[1] + parts[2] + parts[3]
        if order == "permuted":
            where = torch.randperm(k, generator=torch.Generator().manual_seed(rng.randrange(1 << 30))).to(a.device)
            return a[..., where] @ b[..., where, :]
        if order == "three products":  # as tensor cores emulate fp32: high and low parts in TF32, the low times low left out
            ah, bh = tf32(a), tf32(b)
            al, bl = tf32(a - ah), tf32(b - bh)
            return ah @ bh + (ah @ bl + al @ bh)
        if order == "fp16 parts":  # two fp16 parts of each, scaled by powers of two
            sa, sb = (2.0 ** (torch.frexp(t.abs().amax().clamp_min(1e-30)).exponent.item() - 1) for t in (a, b))
            ah, bh = (a / sa).half().float(), (b / sb).half().float()
            al, bl = ((a / sa - ah) * 2048).half().float(), ((b / sb - bh) * 2048).half().float()
            return (ah @ bh + (ah @ bl + al @ bh) / 2048) * (sa * sb)
        if order == "outer products":
            total = torch.zeros(a.shape[:-1] + b.shape[-1:], dtype=a.dtype, device=a.device)
            for s in range(k):
                total = torch.addcmul(total, a[..., s : s + 1], b[..., s : s + 1, :])
            return total
        raise ValueError(order)

    return product


ORDERS = ("tiled", "split-k", "permuted", "outer products")


def _linear(product: Callable[..., torch.Tensor], on: Rounding = lambda t: t) -> Variant:
    return _of(lambda x, fc_weight, fc_bias, rng: torch.relu(product(on(x), on(fc_weight).mT, rng) + fc_bias))


def _exact_mm(a: torch.Tensor, b: torch.Tensor, rng: random.Random) -> torch.Tensor:
    return a @ b


def _softmax_of(total: Sum, power: str = "", on: Rounding = lambda t: t, largest: Rounding = lambda x: x.amax(-1, keepdim=True)) -> Variant:
    def run(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
        top = largest(x)
        if power == "difference":
            e = torch.exp2((x - top) * 1.4426950408889634)
        elif power == "operands":  # one fused multiply-add
            e = torch.exp2((x.double() * 1.4426950408889634 - (top * 1.4426950408889634).double()).to(x.dtype))
        else:
            e = torch.exp(x - top)
        e = on(e)
        return e / total(e, rng)

    return _of(run)


def _norm(total: Sum, eps: float = 1e-5, one_pass: bool = False, on: Rounding = lambda t: t, outside: bool = False, unbiased: bool = False) -> Variant:
    def run(x: torch.Tensor, ln_weight: torch.Tensor, ln_bias: torch.Tensor, rng: random.Random) -> torch.Tensor:
        n = x.shape[-1]
        mean = on(total(x, rng) / n)
        var = total(x * x, rng) / n - mean * mean if one_pass else total((x - mean) ** 2, rng) / (n - unbiased)
        var = on(var)
        scale = 1 / (var.sqrt() + eps) if outside else torch.rsqrt(var + eps)
        return (x - mean) * scale * ln_weight + ln_bias

    return _of(run)


def _shifted(x: torch.Tensor, ln_weight: torch.Tensor, ln_bias: torch.Tensor, rng: random.Random) -> torch.Tensor:
    shift, n = x[..., :32].mean(-1, keepdim=True), x.shape[-1]
    d = x - shift
    mean = d.sum(-1, keepdim=True) / n
    var = (d * d).sum(-1, keepdim=True) / n - mean * mean
    return (d - mean) * torch.rsqrt(var.clamp_min(0) + 1e-5) * ln_weight + ln_bias


def _rms(total: Sum, eps: float = 1e-6, on: Rounding = lambda t: t) -> Variant:
    return _of(lambda x, weight, rng: x * on(torch.rsqrt(total(x * x, rng) / x.shape[-1] + eps)) * weight)


def _attention(
    block: int = 16, keys: int | None = None, p: Rounding = lambda t: t, scale: float | None = None, split: int = 1, qk: Rounding = lambda t: t
) -> Variant:
    def part(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        top = torch.full((*q.shape[:-1], 1), -torch.inf, device=q.device)
        norm, out = torch.zeros_like(top), torch.zeros_like(q)
        for s in range(0, k.shape[-2], block):
            scores = qk(q) @ qk(k[..., s : s + block, :]).mT * (scale or q.shape[-1] ** -0.5)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            e, keep = torch.exp(scores - new), torch.exp(top - new)
            norm, out, top = norm * keep + e.sum(-1, keepdim=True), out * keep + p(e) @ v[..., s : s + block, :], new
        return out, norm, top

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rng: random.Random) -> torch.Tensor:
        k, v = (t[..., :keys, :] if keys else t for t in (k, v))
        found = [part(q, a, b) for a, b in zip(k.chunk(split, -2), v.chunk(split, -2), strict=True)]
        top = torch.stack([f[2] for f in found]).amax(0)
        norm = sum(f[1] * torch.exp(f[2] - top) for f in found)
        return sum(f[0] * torch.exp(f[2] - top) for f in found) / norm

    return _of(run)


def _stored_attention(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
    """Probabilities in the task's dtype, as eager's kernels have them before the second product."""
    dtype = i["q"].dtype
    return _attention(p=lambda e: e.to(dtype).float())(i, rng)


def _conv(
    x: torch.Tensor, conv_weight: torch.Tensor, conv_bias: torch.Tensor, rng: random.Random, on: Rounding = lambda t: t, product: str = "tiled"
) -> torch.Tensor:
    columns = F.unfold(on(x), 3, padding=1)
    w = on(conv_weight)
    y = mm_in(product)(w.reshape(w.shape[0], -1), columns, rng)
    return y.reshape(x.shape[0], w.shape[0], *x.shape[2:]) + conv_bias.view(-1, 1, 1)


def _winograd(x: torch.Tensor, conv_weight: torch.Tensor, conv_bias: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """F(2, 3) in both dims."""
    bt = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], device=x.device)
    g = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], device=x.device)
    at = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]], device=x.device)
    n, _, h, w = x.shape
    tiles = F.pad(x, (1, 1, 1, 1)).unfold(2, 4, 2).unfold(3, 4, 2)  # n c th tw 4 4
    u = torch.einsum("ij,kcjl,ml->kcim", g, conv_weight, g)
    v = torch.einsum("ij,nctsjl,ml->nctsim", bt, tiles, bt)
    m = torch.einsum("kcim,nctsim->nktsim", u, v)
    y = torch.einsum("ij,nktsjl,ml->nktsim", at, m, at)
    return y.permute(0, 1, 2, 4, 3, 5).reshape(n, conv_weight.shape[0], h, w) + conv_bias.view(-1, 1, 1)


def _fft(x: torch.Tensor, conv_weight: torch.Tensor, conv_bias: torch.Tensor, rng: random.Random) -> torch.Tensor:
    size = (x.shape[2] + 2, x.shape[3] + 2)
    a, b = torch.fft.rfft2(F.pad(x, (1, 1, 1, 1)), size), torch.fft.rfft2(conv_weight.flip(2, 3), size)
    y = torch.fft.irfft2(torch.einsum("nchw,kchw->nkhw", a, b), size)
    return y[:, :, 2:, 2:] + conv_bias.view(-1, 1, 1)


def _lse(total: Sum, on: Rounding = lambda t: t, keep_top: bool = True) -> Variant:
    def run(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
        top = x.amax(-1, keepdim=True) if keep_top else torch.zeros_like(x[..., :1])
        base = torch.where(torch.isinf(top), 0.0, top)
        return (base + torch.log(total(on(torch.exp(x - base)), rng))).squeeze(-1)

    return _of(run)


def _scan(size: int, on: Rounding = lambda t: t, lost: bool = False) -> Variant:
    def run(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
        carry, found = torch.zeros_like(x[..., :1]), []
        for part in x.split(size, -1):
            y = on(part.cumsum(-1) + carry)
            found.append(y)
            carry = y[..., -1:] if not (lost and len(found) == 3) else torch.zeros_like(carry)
        return torch.cat(found, -1)

    return _of(run)


def _gelu_stored(steps: Rounding | None = None) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
        s = steps or (lambda t: t)
        inner = s(0.7978845608028654 * (x + s(0.044715 * x * x * x)))
        return 0.5 * x * s(1 + torch.tanh(inner))

    return run


def _entropy(
    total: Sum, smooth: float = 0.0, on: Rounding = lambda t: t, counted: bool = False, labels: Callable[[torch.Tensor], torch.Tensor] = lambda t: t
) -> Variant:
    def run(x: torch.Tensor, y: torch.Tensor, rng: random.Random) -> torch.Tensor:
        top = x.amax(-1, keepdim=True)
        picked = x.gather(-1, labels(y).clamp_min(0)[:, None])
        loss = (top - picked) + torch.log(total(on(torch.exp(x - top)), rng))
        return torch.where((y >= 0) | counted, loss.squeeze(-1), 0.0)

    return _of(run)


def _variance(total: Sum, divide: int = 1, one_pass: bool = False, on: Rounding = lambda t: t) -> Variant:
    def run(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
        n = x.shape[-1]
        mean = on(total(x, rng) / n)
        squares = total(x * x, rng) - n * mean * mean if one_pass else total((x - mean) ** 2, rng)
        return (squares / (n - divide)).squeeze(-1)

    return _of(run)


def _chan(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Pairs of (count, mean, squares) put together."""
    parts = [(p.shape[-1], p.mean(-1), (p - p.mean(-1, keepdim=True)).square().sum(-1)) for p in x.split(50, -1)]
    n, mean, squares = parts[0]
    for m, other, more in parts[1:]:
        d = other - mean
        mean, squares, n = mean + d * (m / (n + m)), squares + more + d * d * (n * m / (n + m)), n + m
    return squares / (n - 1)


def _masked(fill: float, scale: float = 1.0) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        dtype = i["x"].dtype
        value = torch.finfo(dtype).min if fill == 0 else fill
        return [((i["x"].float() @ i["w"].float()) * scale).to(dtype).masked_fill(i["m"], value)]

    return run


def _chain(product: str, on: Rounding = lambda t: t, inside: bool = True, last: Rounding | None = None) -> Variant:
    """Four layers; `inside`: stores where eager does."""

    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        dtype, x = i["x"].dtype, i["x"].float()
        for layer in range(4):
            how = last if last is not None and layer == 3 else on
            y = mm_in(product)(how(x), how(i[f"layers.{layer}.weight"].float()).mT, rng) + i[f"layers.{layer}.bias"].float()
            y = y.to(dtype).float() if inside else y
            x = torch.relu(y).to(dtype).float() if inside or layer == 3 else torch.relu(y)
        return [x.to(dtype)]

    return run


def _residual(product: str, on: Rounding = lambda t: t, forget: bool = False) -> Variant:
    """The product is stored, as eager does, before it is added."""

    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        dtype = i["x"].dtype
        y = (mm_in(product)(on(i["x"].float()), on(i["w"].float()), rng)).to(dtype)
        return [y if forget else (y.float() + i["x"].float()).to(dtype)]

    return run


def _cdist(x: torch.Tensor, y: torch.Tensor, rng: random.Random) -> torch.Tensor:
    return (x[:, None] - y[None]).square().sum(-1).sqrt()


def _order(scores: Rounding = lambda t: t, last: bool = False, second: bool = False) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        s = scores(i["x"].float() @ i["w"].float())
        if second:
            return [s.topk(2, -1).indices[..., 1]]
        return [s.shape[-1] - 1 - s.flip(-1).argmax(-1) if last else s.argmax(-1)]

    return run


def _near(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
    """Any index whose score is within twelve units of the best."""
    s = (i["x"].float() @ i["w"].float()).to(i["x"].dtype).float()
    best = s.amax(-1, keepdim=True)
    near = s >= best - 12 * torch.finfo(i["x"].dtype).eps * best.abs()
    return [near.shape[-1] - 1 - near.flip(-1).int().argmax(-1)]


def _direct(last: bool = False, near: bool = False) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x = i["x"].float()
        if near:
            x = bits(5)(x)
        return [x.shape[-1] - 1 - x.flip(-1).argmax(-1) if last else x.argmax(-1)]

    return run


def _pair(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
    return [torch.relu(i["x"].float() * 2).to(i["x"].dtype)] * 2


def _mean_of(variant: Variant) -> Variant:
    return lambda i, r: [variant(i, r)[0].float().mean().to(_dtype(i))]


def _through(total: Sum, x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """The sum of rows, and that of theirs."""
    return total(total(x, rng).mT, rng).squeeze()


def _mean_entropy(total: Sum) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor, y: torch.Tensor, rng: random.Random) -> torch.Tensor:
        rows = torch.where(y >= 0, torch.logsumexp(x, -1) - x.gather(-1, y.clamp_min(0)[:, None]).squeeze(-1), 0.0)
        return total(rows[None], rng).squeeze() / (y >= 0).sum()

    return run


def _mean_square(total: Sum) -> Callable[..., torch.Tensor]:
    return lambda x, y, rng: _through(total, (x - y).square(), rng) / x.numel()


_E5 = bits(4)
_WIDE_LINEAR = _of(lambda x, fc_weight, fc_bias, rng: torch.relu(x @ fc_weight.mT + fc_bias), wide=True)
OPERATORS = [
    Operator(
        "linear", "return torch.relu(self.fc(x))", "torch.randn(64, 192, DTYPE)", "x", init="self.fc = nn.Linear(192, 96, DTYPE)",
        honest={order: _linear(mm_in(order)) for order in ORDERS}
        | {"torch": _linear(_exact_mm)},
        algebra={"three TF32 products": _linear(mm_in("three products")), "fp16 parts": _linear(mm_in("fp16 parts"))},
        bad={
            "TF32 operands": _linear(_exact_mm, tf32), "bf16 operands": _linear(_exact_mm, bf16), "fp8 operands": _linear(_exact_mm, _E5),
            "int8 groups of 64": _linear(_exact_mm, grouped(64, 127)), "int4 groups of 64": _linear(_exact_mm, grouped(64, 7)),
            "last k missing": _linear(lambda a, b, r: a[..., :-1] @ b[..., :-1, :]),
            "bf16 sums": _linear(lambda a, b, r: in_16_bits((a[:, None] * b.mT[None]), r).squeeze(-1)),
            "bias omitted": _of(lambda x, fc_weight, fc_bias, rng: torch.relu(x @ fc_weight.mT)),
        },
        exact=_WIDE_LINEAR, only={"TF32 operands": ("float32",), "bf16 operands": ("float32", "float16"), "three TF32 products": ("float32",), "fp16 parts": ("float32",)},
    ),
    Operator(
        "softmax", "return torch.softmax(x, -1)", "torch.randn(40, 777, DTYPE)", "x",
        honest={name: _softmax_of(total) for name, total in SUMS.items()} | {"exp2 of the scaled difference": _softmax_of(tree, power="difference")},
        algebra={"exp2 of scaled operands": _softmax_of(tree, power="operands")},
        bad={
            "last term missing": _softmax_of(short), "bf16 sums": _softmax_of(in_16_bits), "exp 1 % off": _softmax_of(tree, on=lambda e: e * (1 + 0.01 * torch.sin(50 * e))),
            "exponentials in bf16": _softmax_of(tree, on=bf16), "exponentials in 6 bits": _softmax_of(tree, on=lambda e: bits(6)(e).float()),
            "half the row summed": _softmax_of(lambda x, r: x[..., : x.shape[-1] // 2].sum(-1, keepdim=True) * 2),
            "nothing taken off below 80": _softmax_of(tree, largest=lambda x: x.amax(-1, keepdim=True).where(x.amax(-1, keepdim=True) >= 80, 0)),
            "largest of all but the last": _softmax_of(tree, largest=lambda x: x[..., :-1].amax(-1, keepdim=True)),
        },
        exact=_of(lambda x, rng: torch.softmax(x, -1), wide=True), only={"exponentials in bf16": ("float32", "float16")},
    ),
    Operator(
        "layer_norm", "return self.ln(x)", "torch.randn(40, 500, DTYPE) + 3", "x", init="self.ln = nn.LayerNorm(500, DTYPE)",
        honest={name: _norm(total) for name, total in SUMS.items()} | {"shifted, one pass": _of(_shifted)},
        bad={
            "one pass": _norm(tree, one_pass=True), "eps 1e-3": _norm(tree, eps=1e-3), "n - 1": _norm(tree, unbiased=True),
            "statistics in bf16": _norm(tree, on=bf16), "last term missing": _norm(lambda x, r: short(x, r)), "mean only": _of(lambda x, ln_weight, ln_bias, rng: (x - x.mean(-1, keepdim=True)) * ln_weight + ln_bias),
        },
        exact=_of(lambda x, ln_weight, ln_bias, rng: F.layer_norm(x, (500,), ln_weight, ln_bias), wide=True),
    ),
    Operator(
        "rms_norm", "return F.rms_norm(x, (511,), self.weight, 1e-6)", "torch.randn(40, 511, DTYPE)", "x", init="self.weight = nn.Parameter(torch.ones(511, DTYPE))",
        honest={name: _rms(total) for name, total in SUMS.items()},
        bad={
            "eps 1e-3": _rms(tree, eps=1e-3), "scale in bf16": _rms(tree, on=bf16), "bf16 sums": _rms(in_16_bits), "last term missing": _rms(short),
            "weight forgotten": _of(lambda x, weight, rng: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)),
        },
        exact=_of(lambda x, weight, rng: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight, wide=True),
    ),
    Operator(
        "attention", "return F.scaled_dot_product_attention(q, k, v)", ", ".join(["torch.randn(2, 4, 48, 32, DTYPE)"] * 3), "q, k, v",
        honest={"online": _attention(), "online, blocks of 8": _attention(8), "split over keys": _attention(split=2), "stored probabilities": _stored_attention, "in one block": _attention(48)},
        bad={
            "last key missing": _attention(keys=47), "probabilities in bf16": _attention(p=bf16), "probabilities in 5 bits": _attention(p=lambda t: bits(5)(t).float()),
            "TF32 scores": _attention(qk=tf32), "other scale": _attention(scale=0.18), "fp8 scores": _attention(qk=lambda t: _E5(t).float()), "half the keys": _attention(keys=24),
        },
        exact=_of(lambda q, k, v, rng: torch.softmax(q @ k.mT / 32**0.5, -1) @ v, wide=True),
        only={"TF32 scores": ("float32",), "probabilities in bf16": ("float32",)},
    ),
    Operator(
        "conv", "return self.conv(x)", "torch.randn(2, 8, 20, 20, DTYPE)", "x", init="self.conv = nn.Conv2d(8, 12, 3, padding=1, DTYPE)",
        honest={
            "implicit product": _of(_conv), "implicit product, split-k": _of(lambda rng, **k: _conv(**k, rng=rng, product="split-k")),
        },
        algebra={
            "implicit product, three TF32 products": _of(lambda rng, **k: _conv(**k, rng=rng, product="three products")),
            "Winograd F(2, 3)": _of(_winograd), "FFT": _of(_fft),
        },
        bad={
            "TF32 operands": _of(lambda rng, **k: _conv(**k, rng=rng, on=tf32)), "bf16 operands": _of(lambda rng, **k: _conv(**k, rng=rng, on=bf16)),
            "fp8 operands": _of(lambda rng, **k: _conv(**k, rng=rng, on=lambda t: _E5(t).float())), "no padding at the right": _of(lambda x, conv_weight, conv_bias, rng: F.conv2d(F.pad(x, (1, 0, 1, 0)), conv_weight, conv_bias).new_zeros(2, 12, 20, 20).copy_(F.pad(F.conv2d(F.pad(x, (1, 0, 1, 1)), conv_weight, conv_bias), (0, 1)))),
            "bias omitted": _of(lambda rng, conv_bias, **k: _conv(**k, conv_bias=torch.zeros_like(conv_bias), rng=rng)),
        },
        exact=_of(lambda x, conv_weight, conv_bias, rng: F.conv2d(x, conv_weight, conv_bias, padding=1), wide=True),
        only={"TF32 operands": ("float32",), "bf16 operands": ("float32", "float16"), "implicit product, three TF32 products": ("float32",)},
    ),
    Operator(
        "logsumexp", "return torch.logsumexp(x, -1)", "torch.randn(64, 999, DTYPE)", "x",
        honest={name: _lse(total) for name, total in SUMS.items()},
        bad={"no maximum": _lse(tree, keep_top=False), "last term missing": _lse(short), "half the row": _lse(lambda x, r: x[..., :500].sum(-1, keepdim=True))},
        exact=_of(lambda x, rng: torch.logsumexp(x, -1), wide=True), only={"last term missing": ("float32",)},
    ),
    Operator(
        "row_sum", "return x.sum(-1)", "torch.randn(133, 1003, DTYPE)", "x",
        honest={name: _of(lambda x, rng, total=total: total(x, rng).squeeze(-1)) for name, total in SUMS.items()},
        bad={
            "last term missing": _of(lambda x, rng: short(x, rng).squeeze(-1)), "bf16 sums": _of(lambda x, rng: in_16_bits(x, rng).squeeze(-1)),
            "fp8 terms": _of(lambda x, rng: _E5(x).float().sum(-1)), "bf16 terms": _of(lambda x, rng: bf16(x).sum(-1)),
        },
        exact=_of(lambda x, rng: x.sum(-1), wide=True), only={"bf16 terms": ("float32", "float16")},
    ),
    Operator(
        "cumsum", "return x.cumsum(-1)", "torch.randn(33, 400, DTYPE)", "x",
        honest={"blocks of 32": _scan(32), "blocks of 100": _scan(100), "one pass": _scan(400), "fp64": _of(lambda x, rng: x.double().cumsum(-1).float())},
        bad={"carry in bf16": _scan(32, on=bf16), "carry lost once": _scan(32, lost=True), "carry in 6 bits": _scan(32, on=lambda t: bits(6)(t).float())},
        exact=_of(lambda x, rng: x.cumsum(-1), wide=True), only={"carry in bf16": ("float32", "float16")},
    ),
    Operator(
        "gelu_tanh", "return F.gelu(x, approximate='tanh')", "torch.randn(80, 300, DTYPE) * 2", "x",
        honest={"fused": _of(_gelu_stored()), "torch": _of(lambda x, rng: F.gelu(x, approximate="tanh"))},
        algebra={"by exp": _of(lambda x, rng: x - x / (1 + torch.exp(1.5957691216057308 * (x + 0.044715 * x * x * x))))},
        bad={
            "by erf": _of(lambda x, rng: F.gelu(x)), "by sigmoid": _of(lambda x, rng: x * torch.sigmoid(1.702 * x)), "steps in bf16": _of(_gelu_stored(bf16)),
            "tanh of 11 bits": _of(lambda x, rng: 0.5 * x * (1 + bits(11)(torch.tanh(0.7978845608 * (x + 0.044715 * x**3))).float())),
        },
        exact=_of(lambda x, rng: F.gelu(x, approximate="tanh"), wide=True), only={"tanh of 11 bits": ("float32",), "by erf": ("float32", "float16")},
    ),
    Operator(
        "cross_entropy", "return F.cross_entropy(x, y, reduction='none')", "torch.randn(96, 300, DTYPE), torch.randint(0, 300, (96,))", "x, y",
        honest={name: _entropy(total) for name, total in SUMS.items()},
        bad={
            "ignored ones counted": _entropy(tree, counted=True), "exponentials in 6 bits": _entropy(tree, on=lambda t: bits(4)(t).float()), "half the row": _entropy(lambda x, r: x[..., :150].sum(-1, keepdim=True)),
            "the neighbour's label": _entropy(tree, labels=lambda y: (y + 1) % 300),
        },
        exact=_of(lambda x, y, rng: F.cross_entropy(x, y, reduction="none"), wide=True), only={"exponentials in 6 bits": ("float32",)},
    ),
    Operator(
        "mean_cross_entropy", "return F.cross_entropy(x, y)", "torch.randn(96, 300, DTYPE), torch.randint(0, 300, (96,))", "x, y", number=True,
        honest={"blocked": _of(lambda x, y, rng: F.cross_entropy(x.flip(0), y.flip(0))), "fp64": _of(lambda x, y, rng: F.cross_entropy(x.double(), y).float())}
        | {name: _of(_mean_entropy(total)) for name, total in SUMS.items()},
        bad={
            "sum": _of(lambda x, y, rng: F.cross_entropy(x, y, reduction="sum")), "all labels counted": _of(lambda x, y, rng: F.cross_entropy(x, y, reduction="sum") / y.numel()),
            "zero for no label": _of(lambda x, y, rng: F.cross_entropy(x, y).nan_to_num(0.0)), "bf16 sums": _of(_mean_entropy(in_16_bits)),
            "rows stored in bf16": _of(lambda x, y, rng: bf16(F.cross_entropy(x, y, reduction="none")).sum() / (y >= 0).sum()),
        },
        exact=_of(lambda x, y, rng: F.cross_entropy(x, y), wide=True), only={"rows stored in bf16": ("float32",)},
    ),
    Operator(
        "mean_square", "return F.mse_loss(x, y)", "torch.randn(64, 200, DTYPE), torch.randn(64, 200, DTYPE)", "x, y", number=True,
        honest={name: _of(_mean_square(total)) for name, total in SUMS.items()},
        bad={
            "bf16 sums": _of(_mean_square(in_16_bits)), "last row missing": _of(lambda x, y, rng: (x - y)[:-1].square().mean()),
            "differences in bf16": _of(lambda x, y, rng: bf16(x - y).square().mean()), "fp8 operands": _of(lambda x, y, rng: (_E5(x) - _E5(y)).square().mean().float()),
        },
        exact=_of(lambda x, y, rng: (x - y).square().mean(), wide=True), only={"differences in bf16": ("float32",)},
    ),
    Operator(
        "vector_norm", "return torch.linalg.vector_norm(x)", "torch.randn(50, 300, DTYPE)", "x", number=True,
        honest={name: _of(lambda x, rng, total=total: _through(total, x.square(), rng).sqrt()) for name, total in SUMS.items()},
        bad={
            "bf16 sums": _of(lambda x, rng: _through(in_16_bits, x.square(), rng).sqrt()), "squares in bf16": _of(lambda x, rng: bf16(x.square()).sum().sqrt()),
            "last row missing": _of(lambda x, rng: x[:-1].square().sum().sqrt()), "of the mean": _of(lambda x, rng: x.square().mean().sqrt()),
        },
        exact=_of(lambda x, rng: torch.linalg.vector_norm(x), wide=True), only={"squares in bf16": ("float32",)},
    ),
    Operator(
        "column_means", "return x.mean(0)", "torch.randn(500, 8, DTYPE) + 1", "x", number=True,
        honest={name: _of(lambda x, rng, total=total: total(x.mT, rng).squeeze(-1) / x.shape[0]) for name, total in SUMS.items()},
        bad={
            "bf16 sums": _of(lambda x, rng: in_16_bits(x.mT, rng).squeeze(-1) / x.shape[0]), "last term missing": _of(lambda x, rng: short(x.mT, rng).squeeze(-1) / x.shape[0]),
            "n - 1": _of(lambda x, rng: x.sum(0) / (x.shape[0] - 1)), "bf16 terms": _of(lambda x, rng: bf16(x).mean(0)),
        },
        exact=_of(lambda x, rng: x.mean(0), wide=True), only={"bf16 terms": ("float32",), "last term missing": ("float32",)},
    ),
    Operator(
        "loss_of_products", "return F.mse_loss(x @ w, y)", "torch.randn(48, 64, DTYPE), torch.randn(64, 32, DTYPE), torch.randn(48, 32, DTYPE)", "x, w, y", number=True,
        honest={order: _of(lambda x, w, y, rng, order=order: (mm_in(order)(x, w, rng) - y).square().mean()) for order in ORDERS}
        | {"stored products": lambda i, r: [((i["x"].float() @ i["w"].float()).to(i["x"].dtype).float() - i["y"].float()).square().mean().to(i["x"].dtype)]},
        bad={
            "TF32 operands": _of(lambda x, w, y, rng: (tf32(x) @ tf32(w) - y).square().mean()), "bf16 operands": _of(lambda x, w, y, rng: (bf16(x) @ bf16(w) - y).square().mean()),
            "fp8 operands": _of(lambda x, w, y, rng: (_E5(x) @ _E5(w) - y).square().mean().float()), "bf16 loss": _of(lambda x, w, y, rng: bf16(bf16(x @ w - y).square()).mean()),
        },
        exact=_of(lambda x, w, y, rng: (x @ w - y).square().mean(), wide=True), only={"TF32 operands": ("float32",), "bf16 operands": ("float32",), "bf16 loss": ("float32",)},
    ),
    Operator(
        "variance", "return x.var(-1)", "torch.randn(70, 400, DTYPE) + 5", "x",
        honest={name: _variance(total) for name, total in SUMS.items()} | {"Chan": _of(_chan)},
        bad={"biased": _variance(tree, 0), "one pass": _variance(tree, one_pass=True), "mean in bf16": _variance(tree, on=bf16), "bf16 sums": _variance(in_16_bits)},
        exact=_of(lambda x, rng: x.var(-1), wide=True),
    ),
    Operator(
        "masked_logits", "return (x @ w).masked_fill(m, torch.finfo(x.dtype).min)", "torch.randn(48, 64, DTYPE), torch.randn(64, 80, DTYPE), torch.rand(48, 80) < 0.3", "x, w, m", generic=False,
        honest={"fused": _masked(0), "one scale": _masked(0, 1.0)},
        bad={"three times too large": _masked(0, 3.0), "filled with -1e4": _masked(-1e4), "1 % too large": _masked(0, 1.01), "half": _masked(0, 0.5)},
    ),
    Operator(
        "chain", "for l in self.layers:\n            x = torch.relu(l(x))\n        return x", "torch.randn(32, 64, DTYPE)", "x",
        init="self.layers = nn.ModuleList([nn.Linear(64, 64, DTYPE) for _ in range(4)])",
        honest={f"{order}, {'stored' if inside else 'fused'}": _chain(order, inside=inside) for order in ORDERS for inside in (True, False)},
        bad={
            "TF32 operands": _chain("tiled", tf32), "fp8 operands": _chain("tiled", lambda t: _E5(t).float()), "int8 groups of 64": _chain("tiled", grouped(64, 127)),
            "bf16 operands": _chain("tiled", bf16, inside=False), "last layer fp8": _chain("tiled", last=lambda t: _E5(t).float()),
        },
        exact=_of(lambda x, rng, **w: _wide_chain(x, w), wide=True), only={"TF32 operands": ("float32",), "bf16 operands": ("float32", "float16")},
    ),
    Operator(
        "mean_of_layers", "for l in self.layers:\n            x = torch.relu(l(x))\n        return x.mean()", "torch.randn(32, 64, DTYPE)", "x", number=True,
        init="self.layers = nn.ModuleList([nn.Linear(64, 64, DTYPE) for _ in range(4)])",
        honest={f"{order}, {'stored' if inside else 'fused'}": _mean_of(_chain(order, inside=inside)) for order in ORDERS for inside in (True, False)},
        bad={
            "TF32 operands": _mean_of(_chain("tiled", tf32)), "fp8 operands": _mean_of(_chain("tiled", lambda t: _E5(t).float())),
            "last layer fp8": _mean_of(_chain("tiled", last=lambda t: _E5(t).float())), "bf16 operands": _mean_of(_chain("tiled", bf16, inside=False)),
            "sum": lambda i, r: [_chain("tiled")(i, r)[0].float().sum().to(_dtype(i))],
        },
        exact=_of(lambda x, rng, **w: _wide_chain(x, w).mean(), wide=True), only={"TF32 operands": ("float32",), "bf16 operands": ("float32", "float16")},
    ),
    Operator(
        "residual", "return x @ w + x", "torch.randn(64, 64, DTYPE), torch.randn(64, 64, DTYPE) / 8", "x, w", generic=False,
        honest={f"{order}, stored": _residual(order) for order in ORDERS} | {"fused": _of(lambda x, w, rng: x @ w + x)},
        bad={"fp8 operands": _residual("tiled", lambda t: _E5(t).float()), "residual omitted": _residual("tiled", forget=True), "int8 groups of 64": _residual("tiled", grouped(64, 127))},
    ),
    Operator(
        "cdist", "return torch.cdist(x, y)", "torch.randn(48, 16), torch.randn(40, 16)", "x, y", dtypes=("float32",),
        honest={"torch": _of(lambda x, y, rng: torch.cdist(x, y))}, algebra={"direct": _of(_cdist)},
        bad={"squared": _of(lambda x, y, rng: _cdist(x, y, rng).square()), "bf16 differences": _of(lambda x, y, rng: bf16(x[:, None] - y[None]).square().sum(-1).sqrt())},
        exact=_of(_cdist, wide=True),
    ),
    Operator(
        "argmax_scores", "return (x @ w).argmax(-1)", "torch.randn(64, 64, DTYPE), torch.randn(64, 200, DTYPE)", "x, w", generic=False,
        honest={"unrounded scores": _order(), "fp64": lambda i, r: [(i["x"].double() @ i["w"].double()).argmax(-1)], "stored scores": lambda i, r: [(i["x"].float() @ i["w"].float()).to(i["x"].dtype).argmax(-1)]},
        bad={"within twelve units": _near, "scores in 5 bits": _order(bits(5)), "second best": _order(second=True), "fp8 operands": lambda i, r: [(_E5(i["x"]) @ _E5(i["w"])).argmax(-1)]},
        only={"within twelve units": NARROW, "stored scores": NARROW},
    ),
    Operator(
        "argmax_input", "return x.argmax(-1)", "torch.randn(64, 100, DTYPE)", "x", generic=False,
        honest={"first": _direct()}, bad={"last of equals": _direct(last=True), "values in 5 bits": _direct(near=True)}, only={"last of equals": NARROW},
    ),
    Operator(
        "repeated_output", "h = torch.relu(x * 2)\n        return h, h", "torch.randn(24, 40, DTYPE)", "x", generic=False,
        honest={"twice": _pair}, bad={"the second is noise": lambda i, r: [_pair(i, r)[0], torch.rand_like(i["x"])], "the second is zero": lambda i, r: [_pair(i, r)[0], torch.zeros_like(i["x"])]},
    ),
    Operator(
        "returned_input", "return torch.relu(x * 2), x", "torch.randn(24, 40, DTYPE)", "x", generic=False,
        honest={"as it is": lambda i, r: [_pair(i, r)[0], i["x"]]}, bad={"zeros": lambda i, r: [_pair(i, r)[0], torch.zeros_like(i["x"])], "one unit off": lambda i, r: [_pair(i, r)[0], bits(6)(i["x"]).to(i["x"].dtype)]},
    ),
    Operator(
        "quantised_rows", "s = x.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127\n        return (x / s).round().clamp(-127, 127).to(torch.int8)", "torch.randn(64, 128, DTYPE)", "x", generic=False,
        honest={
            "torch": lambda i, r: [(i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127)).round().clamp(-127, 127).to(torch.int8)],
            "times the reciprocal": lambda i, r: [(i["x"].float() * (1 / (i["x"].float().abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127))).round().clamp(-127, 127).to(torch.int8)],
        },
        bad={
            "truncated": lambda i, r: [(i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127)).trunc().clamp(-127, 127).to(torch.int8)],
            "126 for 127": lambda i, r: [(i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 126)).round().clamp(-127, 127).to(torch.int8)],
            "every tenth one step off": lambda i, r: [(i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127)).round().add(torch.rand_like(i["x"], dtype=torch.float32) < 0.1).clamp(-127, 127).to(torch.int8)],
        },
        only={"times the reciprocal": ("float32",)},
    ),
]  # fmt: skip


def _wide_chain(x: torch.Tensor, w: Inputs) -> torch.Tensor:
    for layer in range(4):
        x = torch.relu(x @ w[f"layers_{layer}_weight"].mT + w[f"layers_{layer}_bias"])
    return x
