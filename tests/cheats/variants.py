"""Small tasks with honest re-implementations, which the gate must let through, and mutants, which it must catch.

A variant gets the graph's inputs by name and a random generator, and returns the outputs in order. Honest variants are what
generated kernels do: other tilings and orders of sums, fused multiply–add (one rounding for two operations), other exact formulas.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

Inputs = dict[str, torch.Tensor]
Variant = Callable[[Inputs, random.Random], list[torch.Tensor]]

_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass
class Case:
    """One task: `source` is the file's text."""

    name: str
    source: str
    honest: dict[str, Variant]
    mutants: dict[str, Variant] = field(default_factory=dict)


def tiled_sum(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Sum over the last dim as a block of threads does it: each takes every k-th element in turn, then a tree."""
    lanes = rng.choice([4, 8, 32, 64])
    pad = -x.shape[-1] % lanes
    parts = F.pad(x, (0, pad)).reshape(*x.shape[:-1], -1, lanes)
    total = parts[..., 0, :].clone()
    for i in range(1, parts.shape[-2]):
        total = total + parts[..., i, :]
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total


def blocked_sum(x: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Contiguous blocks summed one after the other."""
    size = rng.choice([16, 33, 100])
    return torch.stack([p.flip(-1).sum(-1) for p in x.split(size, -1)], -1).sum(-1, keepdim=True)


def fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """a*b + c with one rounding."""
    return (a.double() * b.double() + c.double()).to(a.dtype)


def tiled_mm(a: torch.Tensor, b: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """a @ b, accumulated over blocks of k."""
    size = rng.choice([8, 16, 48])
    total = torch.zeros(a.shape[:-1] + b.shape[-1:], dtype=a.dtype)
    for k in range(0, a.shape[-1], size):
        total = total + a[..., k : k + size] @ b[..., k : k + size, :]
    return total


def tf32(x: torch.Tensor) -> torch.Tensor:
    return ((x.contiguous().view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


def bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


_SUMS = {"tiled": tiled_sum, "blocked": blocked_sum}
Sum = Callable[[torch.Tensor, random.Random], torch.Tensor]


def _each(make: Callable[[Sum], Variant]) -> dict[str, Variant]:
    return {name: make(total) for name, total in _SUMS.items()}


def _model(init: str, forward: str, inputs: str, args: str = "x") -> str:
    body = "\n".join("        " + line for line in forward.strip().splitlines())
    inits = "\n".join("        " + line for line in init.strip().splitlines()) if init else ""
    return (
        f"{_HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{inits}\n"
        f"    def forward(self, {args}):\n{body}\ndef get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


def _softmax(total: Sum, drop: int = 0) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x = i["x"]
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return [e * (1 / total(e[..., : e.shape[-1] - drop], rng))]

    return run


def _logsumexp(total: Sum) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        top = i["x"].amax(-1, keepdim=True)
        base = torch.where(torch.isinf(top), 0.0, top)  # inf - inf is NaN
        return [(base + torch.log(total(torch.exp(i["x"] - base), rng))).squeeze(-1)]

    return run


def _layer_norm(total: Sum, one_pass: bool = False) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x, n = i["x"], i["x"].shape[-1]
        mean = total(x, rng) / n
        var = total(x * x, rng) / n - mean * mean if one_pass else total((x - mean) ** 2, rng) / n
        scaled = (x - mean) * torch.rsqrt(var + 1e-5)
        return [fma(scaled, i["ln.weight"].expand_as(x), i["ln.bias"].expand_as(x))]

    return run


def _rms_norm(total: Sum) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x = i["x"]
        return [x * torch.rsqrt(total(x * x, rng) / x.shape[-1] + 1e-6) * i["weight"]]

    return run


def _variance(total: Sum, divide: int = 1, one_pass: bool = False) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x, n = i["x"] + 50.0, i["x"].shape[-1]
        mean = total(x, rng) / n
        squares = total(x * x, rng) - n * mean * mean if one_pass else total((x - mean) ** 2, rng)
        return [(squares / (n - divide)).squeeze(-1)]

    return run


def _batch_norm(total: Sum, unbiased: bool = True, weight: float = 0.1) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x, n = i["x"], i["x"].shape[0]
        mean = total(x.t(), rng).squeeze(-1) / n
        var = total(((x - mean) ** 2).t(), rng).squeeze(-1) / n
        y = (x - mean) * torch.rsqrt(var + 1e-5) * i["bn.weight"] + i["bn.bias"]
        stored = var * (n / (n - 1)) if unbiased else var
        return [
            y,
            i["bn.running_mean"] * (1 - weight) + weight * mean,
            i["bn.running_var"] * (1 - weight) + weight * stored,
            i["bn.num_batches_tracked"] + 1,
        ]

    return run


def _attention(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
    """Online softmax over blocks of keys."""
    q, k, v = i["q"], i["k"], i["v"]
    block = rng.choice([8, 16])
    top = torch.full((*q.shape[:-1], 1), -torch.inf)
    norm, out = torch.zeros_like(top), torch.zeros_like(q)
    for start in range(0, k.shape[-2], block):
        s = q @ k[..., start : start + block, :].transpose(-1, -2) * q.shape[-1] ** -0.5
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        p, keep = torch.exp(s - new), torch.exp(top - new)
        norm, out, top = norm * keep + p.sum(-1, keepdim=True), out * keep + p @ v[..., start : start + block, :], new
    return [out / norm]


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return (0.5 * x) * (1 + torch.erf(x * 0.70710678118654752440))


def _conv(i: Inputs, rng: random.Random, rounding: Callable[[torch.Tensor], torch.Tensor] = lambda t: t) -> list[torch.Tensor]:
    """Implicit GEMM over unfolded columns."""
    x, w = rounding(i["x"]), rounding(i["conv.weight"])
    columns = F.unfold(x, 3, padding=1)
    y = tiled_mm(w.reshape(w.shape[0], -1), columns, rng).reshape(x.shape[0], w.shape[0], *x.shape[2:]) + i["conv.bias"].view(-1, 1, 1)
    return [y * torch.tanh(F.softplus(y))]


def _linear16(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
    return [torch.relu(tiled_mm(i["x"].float(), i["fc.weight"].float().t(), rng) + i["fc.bias"].float()).bfloat16()]


def _e4m3(x: torch.Tensor) -> torch.Tensor:
    m, e = torch.frexp(x.float())
    return torch.ldexp((m * 16).round() / 16, e)


def _deep(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
    x = i["x"]
    for layer in range(4):
        x = torch.tanh(tiled_mm(x, i[f"layers.{layer}.weight"].t(), rng) + i[f"layers.{layer}.bias"])
    return [x]


CASES = [
    Case(
        "row_sum",
        _model("", "return x.sum(-1)", "torch.randn(33, 1003)"),
        _each(lambda total: lambda i, r: [total(i["x"], r).squeeze(-1)]),
        {
            "dropped term": lambda i, r: [i["x"][:, :-1].sum(-1)],
            "bf16": lambda i, r: [bf16(i["x"]).sum(-1)],
        },
    ),
    Case("softmax", _model("", "return torch.softmax(x, -1)", "torch.randn(40, 777)"), _each(_softmax), {"dropped term": _softmax(tiled_sum, 1)}),
    Case(
        "layer_norm",
        _model("self.ln = nn.LayerNorm(500)", "return self.ln(x)", "torch.randn(40, 500) + 30"),
        _each(_layer_norm),
        {"one-pass variance": _layer_norm(tiled_sum, one_pass=True)},
    ),
    Case(
        "rms_norm",
        _model(
            "self.weight = nn.Parameter(torch.ones(511))",
            "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight",
            "torch.randn(40, 511)",
        ),
        _each(_rms_norm),
        {"weight forgotten": lambda i, r: [i["x"] * torch.rsqrt(i["x"].pow(2).mean(-1, keepdim=True) + 1e-6)]},
    ),
    Case(
        "logsumexp",
        _model("", "return torch.logsumexp(x, -1)", "torch.randn(64, 999)"),
        _each(_logsumexp),
        {"without the maximum, bf16": lambda i, r: [torch.logsumexp(bf16(i["x"]), -1)]},
    ),
    Case(
        "gelu_residual",
        _model("self.bias = nn.Parameter(torch.zeros(300))", "return F.gelu(x + self.bias) + r", "torch.randn(80, 300), torch.randn(80, 300)", "x, r"),
        {"erf": lambda i, r: [_gelu(i["x"] + i["bias"]) + i["r"]]},
        {
            "bf16 round trip": lambda i, r: [bf16(F.gelu(i["x"] + i["bias"])) + i["r"]],
            "bias forgotten": lambda i, r: [F.gelu(i["x"]) + i["r"]],
            "tanh formula": lambda i, r: [F.gelu(i["x"] + i["bias"], approximate="tanh") + i["r"]],
        },
    ),
    Case(
        "linear",
        _model("self.fc = nn.Linear(192, 96)", "return torch.relu(self.fc(x))", "torch.randn(64, 192)"),
        {"tiled": lambda i, r: [torch.relu(tiled_mm(i["x"], i["fc.weight"].t(), r) + i["fc.bias"])]},
        {
            "tf32 products": lambda i, r: [torch.relu(tf32(i["x"]) @ tf32(i["fc.weight"]).t() + i["fc.bias"])],
            "short k": lambda i, r: [torch.relu(i["x"][:, :-1] @ i["fc.weight"][:, :-1].t() + i["fc.bias"])],
        },
    ),
    Case(
        "variance",
        _model("", "return (x + 50).var(-1)", "torch.randn(50, 400)"),
        _each(_variance),
        {"biased": _variance(tiled_sum, 0), "one-pass": _variance(tiled_sum, one_pass=True)},
    ),
    Case(
        "batch_norm",
        _model("self.bn = nn.BatchNorm1d(24)", "return self.bn(x)", "torch.randn(128, 24)"),
        _each(_batch_norm),
        {"biased variance stored": _batch_norm(tiled_sum, unbiased=False), "momentum forgotten": _batch_norm(tiled_sum, weight=0.0)},
    ),
    Case(
        "attention",
        _model("", "return F.scaled_dot_product_attention(q, k, v)", ", ".join(["torch.randn(2, 4, 48, 32)"] * 3), "q, k, v"),
        {"online": _attention},
        {
            "tf32 products": lambda i, r: [torch.softmax(tf32(i["q"]) @ tf32(i["k"]).transpose(-1, -2) / 32**0.5, -1) @ i["v"]],
            "last key dropped": lambda i, r: [F.scaled_dot_product_attention(i["q"], i["k"][..., :-1, :], i["v"][..., :-1, :])],
        },
    ),
    Case(
        "conv_mish",
        _model("self.conv = nn.Conv2d(8, 12, 3, padding=1)", "return F.mish(self.conv(x))", "torch.randn(2, 8, 20, 20)"),
        {"implicit gemm": _conv},
        {"tf32 products": lambda i, r: _conv(i, r, tf32), "bf16": lambda i, r: _conv(i, r, bf16)},
    ),
    Case(
        "linear_bf16",
        _model("self.fc = nn.Linear(128, 64).bfloat16()", "return torch.relu(self.fc(x))", "torch.randn(64, 128).bfloat16()"),
        {"f32 sums": _linear16},
        {"fp8": lambda i, r: [torch.relu(_e4m3(i["x"]) @ _e4m3(i["fc.weight"]).t() + i["fc.bias"].float()).bfloat16()]},
    ),
    Case(
        "deep_tanh",
        _model(
            "self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])",
            "for l in self.layers:\n    x = torch.tanh(l(x))\nreturn x",
            "torch.randn(32, 64)",
        ),
        {"tiled": _deep},
        {"tf32 products": lambda i, r: [_deep({k: tf32(v) if v.ndim == 2 else v for k, v in i.items()}, r)[0]]},
    ),
    Case(
        "argmax",
        _model("", "return x.argmax(-1), x.amax(-1)", "torch.randint(0, 9, (64, 100)).float()"),
        {"first of the ties": lambda i, r: [i["x"].max(-1).indices, i["x"].amax(-1)]},
        {
            "last of the ties": lambda i, r: [i["x"].shape[-1] - 1 - i["x"].flip(-1).argmax(-1), i["x"].amax(-1)],
            "neighbour": lambda i, r: [(i["x"].argmax(-1) + 1) % 100, i["x"].amax(-1)],
        },
    ),
    Case(
        "l2_normalize",
        _model("", "return x / x.norm(dim=-1, keepdim=True)", "torch.randn(40, 301)"),
        _each(lambda total: lambda i, r: [i["x"] * torch.rsqrt(total(i["x"] ** 2, r))]),
        {"l1": lambda i, r: [i["x"] / i["x"].abs().sum(-1, keepdim=True)]},
    ),
]


def corrupt(outputs: list[torch.Tensor], how: str, rng: random.Random) -> list[torch.Tensor]:
    """Mutants of any honest output: `one wrong element`, `off-by-one tail` (the last element is its neighbour's), `bf16 output`."""
    out = [o.clone() for o in outputs]
    target = next(o for o in out if o.is_floating_point())
    flat = target.reshape(-1)
    scale = float(torch.nan_to_num(flat.double(), 0, 0, 0).square().mean().sqrt()) or 1.0
    if how == "one wrong element":
        where = rng.randrange(flat.numel())
        flat[where] = (
            0.01 * scale if not torch.isfinite(flat[where]) else flat[where] + (0.01 if target.dtype.itemsize > 2 else 0.2) * (scale + abs(flat[where]))
        )
    elif how == "off-by-one tail":
        flat[-1] = flat[-2] + (0.0 if abs(flat[-1] - flat[-2]) > 0.01 * scale else scale)
    else:
        flat.copy_(_e4m3(flat) if target.dtype == torch.bfloat16 else flat.bfloat16())
    return [flat.reshape(target.shape) if o is target else o for o in out]


CORRUPTIONS = ("one wrong element", "off-by-one tail", "lower-precision output")
