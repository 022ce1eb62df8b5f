# ruff: noqa: E501
"""Further operators with honest rewrites and bad ones: elements by their rank, weights in codes of 8 and 4 bits, products in groups, results of 8 bits."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from rewrites import Inputs, Operator, Variant, bits, mm_in

Pair = tuple[torch.Tensor, torch.Tensor]


def _with_indices(rank: Callable[[torch.Tensor], Pair], of: Callable[[Inputs], torch.Tensor] = lambda i: i["x"]) -> Variant:
    """(values, indices) of what is ranked; the values are those of the indices, stored."""

    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        values, indices = rank(of(i))
        return [values.to(i["x"].dtype), indices]

    return run


def _by_argmax(count: int) -> Callable[[torch.Tensor], Pair]:
    """The largest, again and again; NaN is larger than all."""

    def run(x: torch.Tensor) -> Pair:
        left, found = x.double().clamp(-1e300, 1e300).nan_to_num(1e301), []
        for _ in range(count):
            found.append(left.argmax(-1, keepdim=True))
            left = left.scatter(-1, found[-1], -torch.inf)
        indices = torch.cat(found, -1)
        return x.gather(-1, indices), indices

    return run


def _stable(count: int | None = None) -> Callable[[torch.Tensor], Pair]:
    def run(x: torch.Tensor) -> Pair:
        values, indices = x.sort(dim=-1, descending=count is not None, stable=True)
        return values[..., :count], indices[..., :count]

    return run


def _next_rank(x: torch.Tensor) -> Pair:
    values, indices = x.topk(6, -1)
    return torch.cat([values[..., :4], values[..., 5:]], -1), torch.cat([indices[..., :4], indices[..., 5:]], -1)


def _moved(indices: torch.Tensor) -> torch.Tensor:
    return indices.roll(1, -1)


def _coarse(rank: Callable[[torch.Tensor], Pair], keep: int) -> Callable[[torch.Tensor], Pair]:
    def run(x: torch.Tensor) -> Pair:
        indices = rank(bits(keep)(x).to(x.dtype))[1]
        return x.gather(-1, indices), indices

    return run


def _scores(i: Inputs) -> torch.Tensor:
    return i["x"].float() @ i["w"].float()


def _stored_scores(i: Inputs) -> torch.Tensor:
    return _scores(i).to(i["x"].dtype)


def _one_twice(x: torch.Tensor) -> Pair:
    values, indices = x.sort(dim=-1, stable=True)
    indices[..., 1] = indices[..., 0]
    return values, indices


def _last_two_swapped(x: torch.Tensor) -> Pair:
    values, indices = x.sort(dim=-1, stable=True)
    order = [*range(x.shape[-1] - 2), x.shape[-1] - 1, x.shape[-1] - 2]
    return values[..., order], indices[..., order]


# -- places among boundaries --

_EDGES = "torch.linspace(-2, 2, 33, DTYPE, device=x.device)"


def _places(before: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], count: int = 33, on: Callable[[torch.Tensor], torch.Tensor] = lambda t: t) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        edges = torch.linspace(-2, 2, 33, dtype=i["x"].dtype, device=i["x"].device)[:count]
        return [before(edges, on(i["x"])[..., None]).sum(-1)]

    return run


# -- weights in codes --

_PACKED = "torch.randint(0, 256, (96, 96), dtype=torch.uint8)"
_UNPACK = "torch.stack([self.p & 15, self.p >> 4], -1).reshape(96, 192)"


def _bytes(
    scale: Callable[[torch.Tensor], torch.Tensor] = lambda s: s,
    codes: Callable[[torch.Tensor], torch.Tensor] = lambda q: q,
    behind: bool = True,
    product: str = "tiled",
) -> Variant:
    """`behind`: the product is scaled, and not the codes."""

    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x, q, s = i["x"].float(), codes(i["q"].float()), scale(i["s"].float())
        w = q if behind else q * s[:, None]
        y = mm_in(product)(x, w.mT, rng)
        return [(y * s if behind else y).to(i["x"].dtype)]

    return run


def _nibbles(
    zero: float = 8, swapped: bool = False, scale: Callable[[torch.Tensor], torch.Tensor] = lambda s: s, stored: bool = False, product: str = "tiled"
) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        low, high = (i["p"] & 15).float(), (i["p"] >> 4).float()
        parts = [high, low] if swapped else [low, high]
        q = torch.stack(parts, -1).reshape(96, 192) - zero
        w = (q.reshape(96, 6, 32) * scale(i["s"].float())[..., None]).reshape(96, 192)
        w = w.to(i["x"].dtype).float() if stored else w
        return [mm_in(product)(i["x"].float(), w.mT, rng).to(i["x"].dtype)]

    return run


# -- products of rows in groups --

_ENDS = (16, 40, 40, 72)


def _groups(
    ends: tuple[int, ...] = _ENDS, which: tuple[int, ...] = (0, 1, 2, 3), product: str = "tiled", on: Callable[[torch.Tensor], torch.Tensor] = lambda t: t
) -> Variant:
    def run(i: Inputs, rng: random.Random) -> list[torch.Tensor]:
        x, w, start, found = on(i["x"].float()), on(i["w"].float()), 0, []
        for end, group in zip(ends, which, strict=True):
            found.append(mm_in(product)(x[start:end].float(), w[group].float(), rng))
            start = end
        return [torch.cat(found).to(i["x"].dtype)]

    return run


_LOOP = "torch.cat([x[a:b] @ w[g] for g, (a, b) in enumerate([(0, 16), (16, 40), (40, 40), (40, 72)])])"


# -- results of 8 bits --

_E4M3 = torch.float8_e4m3fn


def _eight(scaled: Callable[[torch.Tensor], torch.Tensor], store: Callable[[torch.Tensor], torch.Tensor] = lambda t: t.clamp(-448, 448).to(_E4M3)) -> Variant:
    return lambda i, r: [store(scaled(i["x"].float()))]


def _one_step(every: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The neighbour of every so many, towards zero."""

    def run(t: torch.Tensor) -> torch.Tensor:
        raw = t.clamp(-448, 448).to(_E4M3).view(torch.uint8).flatten().clone()
        lower = raw[::every]
        raw[::every] = torch.where((lower & 127 > 0) & (lower & 127 < 127), lower - 1, lower)
        return raw.view(t.shape).view(_E4M3)

    return run


FURTHER = [
    Operator(
        "topk_input", "v, k = x.topk(5, -1)\n        return v, k", "torch.randn(48, 90, DTYPE)", "x", generic=False,
        honest={"stable sort": _with_indices(_stable(5)), "the largest again and again": _with_indices(_by_argmax(5)), "torch": _with_indices(lambda x: x.topk(5, -1))},
        bad={
            "sixth for the fifth": _with_indices(_next_rank), "indices moved by one": _with_indices(lambda x: (x.topk(5, -1).values, _moved(x.topk(5, -1).indices))),
            "values in 5 bits": _with_indices(_coarse(lambda x: x.topk(5, -1), 5)), "unordered": _with_indices(lambda x: (x.topk(5, -1).values.flip(-1), x.topk(5, -1).indices.flip(-1))),
            "smallest": _with_indices(lambda x: x.topk(5, -1, largest=False)), "half the row": _with_indices(lambda x: x[..., :45].topk(5, -1)),
            "one index for all": _with_indices(lambda x: (x.topk(5, -1).values, x.argmax(-1, keepdim=True).expand(-1, 5))),
        },
    ),
    Operator(
        "topk_scores", "v, k = (x @ w).topk(3, -1)\n        return v, k", "torch.randn(48, 64, DTYPE), torch.randn(64, 90, DTYPE)", "x, w", generic=False,
        honest={
            "stored scores": _with_indices(lambda s: s.topk(3, -1), _stored_scores), "unrounded scores": _with_indices(lambda s: s.topk(3, -1), _scores),
            "fp64": _with_indices(lambda s: s.topk(3, -1), lambda i: i["x"].double() @ i["w"].double()), "stable sort": _with_indices(_stable(3), _stored_scores),
        },
        bad={
            "scores in 5 bits": _with_indices(_coarse(lambda s: s.topk(3, -1), 5), _scores), "the second twice": _with_indices(lambda s: (s.topk(3, -1).values, s.topk(3, -1).indices[..., [0, 1, 1]]), _scores),
            "second and third exchanged": _with_indices(lambda s: (s.topk(3, -1).values, s.topk(3, -1).indices[..., [0, 2, 1]]), _scores), "last column missing": _with_indices(lambda s: s[..., :-1].topk(3, -1), _scores),
            "values of others": _with_indices(lambda s: (s.topk(3, -1).values * 1.02, s.topk(3, -1).indices), _scores),
        },
    ),
    Operator(
        "sort_input", "v, k = x.sort(dim=-1, stable=True)\n        return v, k", "torch.randn(40, 70, DTYPE)", "x", generic=False,
        honest={"stable": _with_indices(_stable())},
        bad={
            "one index twice": _with_indices(_one_twice), "last two exchanged": _with_indices(_last_two_swapped), "equals the other way round": _with_indices(lambda x: (x.sort(-1).values, x.shape[-1] - 1 - x.flip(-1).sort(dim=-1, stable=True).indices)),
            "descending": _with_indices(lambda x: x.sort(dim=-1, descending=True, stable=True)), "values in 5 bits": _with_indices(_coarse(lambda x: x.sort(dim=-1, stable=True), 5)),
        },
    ),
    Operator(
        "kth_value", "return x.kthvalue(9, -1).values", "torch.randn(60, 70, DTYPE)", "x", generic=False,
        honest={"by a sort": lambda i, r: [i["x"].sort(-1).values[..., 8]]},
        bad={
            "the tenth": lambda i, r: [i["x"].sort(-1).values[..., 9]], "the ninth largest": lambda i, r: [i["x"].sort(-1, descending=True).values[..., 8]], "one bit less": lambda i, r: [bits(7 if i["x"].dtype == torch.bfloat16 else 10)(i["x"].sort(-1).values[..., 8]).to(i["x"].dtype)],
        },
    ),
    Operator(
        "searchsorted", f"return torch.searchsorted({_EDGES}, x)", "torch.randn(64, 100, DTYPE)", "x", generic=False,
        honest={"counted": _places(lambda e, x: ~(e >= x)), "torch": lambda i, r: [torch.searchsorted(torch.linspace(-2, 2, 33, dtype=i["x"].dtype, device=i["x"].device), i["x"])]},
        bad={
            "on the right": _places(lambda e, x: ~(e > x)), "last boundary missing": _places(lambda e, x: ~(e >= x), 32), "values in 6 bits": _places(lambda e, x: ~(e >= x), on=lambda t: bits(6)(t).to(t.dtype)),
            "NaN before all": _places(lambda e, x: e < x), "one too many": lambda i, r: [_places(lambda e, x: ~(e >= x))(i, r)[0] + 1],
        },
    ),
    Operator(
        "codes_of_8_bits", "return x @ (self.q.to(x.dtype) * self.s[:, None]).mT", "torch.randn(64, 192, DTYPE)", "x",
        init="self.q, self.s = nn.Buffer(torch.randint(-127, 128, (96, 192), dtype=torch.int8)), nn.Parameter(torch.rand(96, DTYPE) * 0.01 + 0.002)",
        honest={"products scaled": _bytes(), "codes scaled": _bytes(behind=False), "split-k": _bytes(product="split-k"), "outer products": _bytes(product="outer products")},
        bad={
            "the neighbour's scale": _bytes(lambda s: s.roll(1)), "one scale for all": _bytes(lambda s: s.mean().expand_as(s)), "codes of 7 bits": _bytes(codes=lambda q: (q / 2).trunc() * 2), "codes of 4 bits": _bytes(codes=lambda q: (q / 16).round() * 16),
            "unsigned codes": _bytes(codes=lambda q: q.abs()), "scales in 6 bits": _bytes(lambda s: bits(6)(s).float()), "last code missing": _bytes(codes=lambda q: torch.cat([q[:, :-1], torch.zeros_like(q[:, :1])], -1)), "no scale": _bytes(torch.ones_like),
        },
        exact=lambda i, r: [i["x"].double() @ (i["q"].double() * i["s"].double()[:, None]).mT],
    ),
    Operator(
        "codes_of_4_bits", f"q = {_UNPACK}.to(x.dtype) - 8\n        return x @ (q.reshape(96, 6, 32) * self.s[..., None]).reshape(96, 192).mT", "torch.randn(64, 192, DTYPE)", "x",
        init=f"self.p, self.s = nn.Buffer({_PACKED}), nn.Parameter(torch.rand(96, 6, DTYPE) * 0.1 + 0.02)",
        honest={"in registers": _nibbles(), "weights stored": _nibbles(stored=True), "split-k": _nibbles(product="split-k")},
        bad={
            "nibbles exchanged": _nibbles(swapped=True), "zero at 7": _nibbles(zero=7), "no zero": _nibbles(zero=0), "last group's scale for all": _nibbles(scale=lambda s: s[:, -1:].expand_as(s)), "the neighbour's scale": _nibbles(scale=lambda s: s.roll(1, -1)),
            "scales in 6 bits": _nibbles(scale=lambda s: bits(6)(s).float()),
        },
        exact=lambda i, r: [i["x"].double() @ ((torch.stack([i["p"] & 15, i["p"] >> 4], -1).reshape(96, 192).double() - 8).reshape(96, 6, 32) * i["s"].double()[..., None]).reshape(96, 192).mT],
    ),
    Operator(
        "products_in_groups", f"return {_LOOP}", "torch.randn(72, 48, DTYPE), torch.randn(4, 48, 40, DTYPE)", "x, w",
        honest={order: _groups(product=order) for order in ("tiled", "split-k", "permuted", "outer products")},
        bad={
            "a row to the group before": _groups((17, 40, 40, 72)), "the empty group's weights": _groups(which=(0, 1, 2, 2)), "groups exchanged": _groups(which=(1, 0, 2, 3)), "fp8 operands": _groups(on=bits(4)),
            "last group missing": lambda i, r: [torch.cat([_groups()(i, r)[0][:40], torch.zeros_like(i["x"][40:, :40])])],
        },
        exact=lambda i, r: [torch.cat([i["x"][a:b].double() @ i["w"][g].double() for g, (a, b) in enumerate([(0, 16), (16, 40), (40, 40), (40, 72)])])],
    ),
    Operator(
        "eight_bits", "return (x * 3).clamp(-448, 448).to(torch.float8_e4m3fn)", "torch.randn(64, 128, DTYPE) * 8", "x", generic=False,
        honest={"torch": lambda i, r: [(i["x"] * 3).clamp(-448, 448).to(_E4M3)], "fused": _eight(lambda x: x * 3), "fp64": lambda i, r: [(i["x"].double() * 3).clamp(-448, 448).float().to(_E4M3)]},
        bad={
            "every tenth one step off": _eight(lambda x: x * 3, _one_step(10)), "towards zero": _eight(lambda x: bits(4)(x * 3 * (1 - 2**-5)).float()), "two bits of mantissa": _eight(lambda x: bits(3)(x * 3).float()),
            "saturated at 240": _eight(lambda x: x * 3, lambda t: t.clamp(-240, 240).to(_E4M3)), "subnormal numbers zero": _eight(lambda x: x * 3, lambda t: torch.where(t.abs() < 2**-6, 0.0, t).clamp(-448, 448).to(_E4M3)), "scale forgotten": _eight(lambda x: x),
        },
    ),
    Operator(
        "eight_bit_rows", "s = x.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 448\n        return (x / s).to(torch.float8_e4m3fn), s", "torch.randn(64, 128, DTYPE)", "x", generic=False,
        honest={"torch": lambda i, r: [(i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 448)).to(_E4M3), i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 448]},
        bad={
            "scale of 240": lambda i, r: [(i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 240)).to(_E4M3), i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 448],
            "one scale for all": lambda i, r: [(i["x"] / (i["x"].abs().amax().clamp_min(1e-6) / 448)).to(_E4M3), (i["x"].abs().amax() / 448).expand(64, 1)],
            "every tenth one step off": lambda i, r: [_one_step(10)((i["x"] / (i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 448)).float()), i["x"].abs().amax(-1, keepdim=True).clamp_min(1e-6) / 448],
        },
    ),
    Operator(
        "running_maximum", "return (x @ w).cummax(-1).values", "torch.randn(40, 32, DTYPE), torch.randn(32, 60, DTYPE)", "x, w", generic=False,
        honest={"stored scores": lambda i, r: [_stored_scores(i).cummax(-1).values], "unrounded scores": lambda i, r: [_scores(i).cummax(-1).values.to(i["x"].dtype)]},
        bad={"of the row": lambda i, r: [_stored_scores(i).amax(-1, keepdim=True).expand(-1, 60)], "one late": lambda i, r: [torch.cat([_stored_scores(i)[..., :1], _stored_scores(i).cummax(-1).values[..., :-1]], -1)], "scores in 5 bits": lambda i, r: [bits(5)(_scores(i)).cummax(-1).values.to(i["x"].dtype)]},
    ),
    Operator(
        "sums_by_index", "return torch.zeros(20, 16, DTYPE, device=x.device).index_add(0, k, x)", "torch.randn(90, 16, DTYPE), torch.randint(0, 20, (90,))", "x, k",
        honest={
            "fp64": lambda i, r: [torch.zeros(20, 16, dtype=torch.float64, device=i["x"].device).index_add(0, i["k"], i["x"].double()).to(i["x"].dtype)],
            "from the end": lambda i, r: [torch.zeros(20, 16, device=i["x"].device).index_add(0, i["k"].flip(0), i["x"].float().flip(0)).to(i["x"].dtype)],
        },
        algebra={"by a product": lambda i, r: [((i["k"][None] == torch.arange(20, device=i["k"].device)[:, None]).double() @ i["x"].double()).to(i["x"].dtype)]},
        bad={
            "the last of equals": lambda i, r: [torch.zeros_like(i["x"][:20]).index_copy(0, i["k"], i["x"])], "last row missing": lambda i, r: [torch.zeros(20, 16, device=i["x"].device).index_add(0, i["k"][:-1], i["x"][:-1].float()).to(i["x"].dtype)],
            "means": lambda i, r: [(torch.zeros(20, 16, device=i["x"].device).index_add(0, i["k"], i["x"].float()) / i["k"].bincount(minlength=20).clamp_min(1)[:, None]).to(i["x"].dtype)],
        },
        exact=lambda i, r: [torch.zeros(20, 16, dtype=torch.float64, device=i["x"].device).index_add(0, i["k"], i["x"].double())],
    ),
]  # fmt: skip
