"""The catalogue of reductions, normalisations and losses, and of a few library operators that stay aten steps."""

from __future__ import annotations

import torch

from .case import Leaf
from .maker import Draft, Maker, Refused, Value


def _dims(m: Maker, x: Value) -> str:
    """One dim, a tuple of them, or everything."""
    rank = x.tensor.ndim
    if rank == 0:
        return ""
    if m.chance(0.5):
        return m.choice(["-1", str(m.dim(x))])
    count = m.rng.randrange(1, rank + 1)
    tail = list(range(rank - count, rank))
    chosen = tail if m.chance(0.6) else sorted(m.rng.sample(range(rank), count))
    return repr(tuple(chosen))


def _kept(m: Maker) -> str:
    return ", keepdim=True" if m.chance(0.6) else ""


def fold(m: Maker) -> Draft:
    name = m.choice(["sum", "sum", "mean", "prod", "amax", "amin", "any", "all", "count"])
    empty = name in ("sum", "any", "all", "count")
    x = m.pick("f" if name == "mean" else "fib", exact=name in ("any", "all", "count"), accept=lambda t: t.numel() > 0 or empty)
    dims = _dims(m, x)
    exact = name in ("amax", "amin", "any", "all") or (name in ("sum", "prod") and x.kind != "f")
    if name == "count":
        return Draft(f"({{0}} != 0).sum({_dims(m, x) or ''}{_kept(m) if x.tensor.ndim else ''})", [x], keeps=True)
    if not dims or m.chance(0.1):
        return Draft(f"torch.{name}({{0}})", [x], keeps=exact)
    if name in ("any", "all", "prod"):
        dims = str(m.dim(x))
    if name == "prod" and x.kind == "f":
        return Draft(f"torch.prod({{0}}.clamp(-1.5, 1.5), {dims}{_kept(m)})", [x])
    dtype = ""
    if name in ("sum", "mean", "prod") and m.chance(0.15):
        dtype = f", dtype=torch.{m.dtype('f' if x.kind == 'f' else 'fi')}"
        exact = False
    return Draft(f"torch.{name}({{0}}, {dims}{_kept(m)}{dtype})", [x], keeps=exact, simpler=(f"torch.{name}({{0}}, {dims})",))


def extremum(m: Maker) -> Draft:
    """max over one dim gives values and indices."""
    x = m.pick("fi", rank=1, accept=lambda t: t.numel() > 0)
    if m.chance(0.3):
        return Draft(f"torch.{m.choice(['max', 'min'])}({{0}})", [x], keeps=True)
    return Draft(f"torch.{m.choice(['max', 'min'])}({{0}}, {m.dim(x)}{_kept(m)}).values", [x], keeps=True)


def spread(m: Maker) -> Draft:
    x = m.pick("f", rank=1, accept=lambda t: t.numel() > 1)
    name = m.choice(["var", "std", "var_mean", "std_mean"])
    how = m.choice(["", ", correction=0", ", unbiased=False", ", unbiased=True", ", correction=2"])
    keep = _kept(m)
    if "correction" not in how and m.chance(0.1):
        return Draft(f"torch.{name}({{0}}{how})", [x], outs=2 if "_" in name else 1)
    return Draft(f"torch.{name}({{0}}, {_dims(m, x)}{how}{keep})", [x], outs=2 if "_" in name else 1)


def norm(m: Maker) -> Draft:
    x = m.pick("f", rank=1, accept=lambda t: t.numel() > 0)
    order = m.choice(["2", "1", "float('inf')", "float('-inf')", "3", "0.5", "2.0"])
    dims = _dims(m, x)
    texts = [
        f"torch.linalg.vector_norm({{0}}, {order}, {dims}{_kept(m)})", f"torch.norm({{0}}, p={order}, dim={dims}{_kept(m)})",
        f"F.normalize({{0}}, p={order if order in ('1', '2') else '2.0'}, dim={m.dim(x)})", "torch.linalg.vector_norm({0})",
    ]  # fmt: skip
    return Draft(m.choice(texts), [x])


def softmax(m: Maker) -> Draft:
    x = m.pick("f")
    dim = m.dim(x) if x.tensor.ndim else 0
    name = m.choice(["softmax", "log_softmax", "softmin", "softmax", "logsumexp"])
    if name == "logsumexp":
        return Draft(f"torch.logsumexp({{0}}, {_dims(m, x) or '0'}{_kept(m)})", [x])
    dtype = f", dtype=torch.{m.dtype('f')}" if m.chance(0.15) else ""
    return Draft(f"F.{name}({{0}}, {dim}{dtype})", [x], simpler=(f"F.{name}({{0}}, {dim})",))


def _weights(m: Maker, x: Value, shape: tuple[int, ...], count: int) -> list[Value]:
    name = str(x.tensor.dtype).removeprefix("torch.")
    return [m.leaf(Leaf("", "param", name, shape)) for _ in range(count)]


def normalisation(m: Maker) -> Draft:
    x = m.pick("f", rank=1, accept=lambda t: t.numel() > 0)
    t = x.tensor
    count = m.rng.randrange(1, t.ndim + 1) if m.chance(0.3) else 1
    shape = tuple(t.shape[-count:])
    eps = m.choice(["", ", eps=1e-3"])
    if m.chance(0.5):
        affine = _weights(m, x, shape, m.rng.randrange(3))
        places = "".join(f", {{{i + 1}}}" for i in range(len(affine))) or ", None"
        return Draft(f"F.layer_norm({{0}}, {shape}{places}{eps})", [x, *affine], simpler=(f"F.layer_norm({{0}}, {shape})",))
    affine = _weights(m, x, shape, m.rng.randrange(2))
    return Draft(f"F.rms_norm({{0}}, {shape}{', {1}' if affine else ', None'}{eps})", [x, *affine], simpler=(f"F.rms_norm({{0}}, {shape})",))


def channels(m: Maker) -> Draft:
    x = m.pick("f", rank=2, accept=lambda t: t.numel() > 1 and t.shape[1] > 0)
    t = x.tensor
    c = t.shape[1]
    form = m.rng.randrange(4)
    if form == 0:
        groups = m.rng.choice([g for g in (1, 2, 3, 4, c) if c % g == 0])
        affine = _weights(m, x, (c,), m.rng.choice([0, 2]))
        return Draft(f"F.group_norm({{0}}, {groups}{', {1}, {2}' if affine else ''})", [x, *affine], simpler=(f"F.group_norm({{0}}, {groups})",))
    if form == 1 and t.ndim >= 3:
        affine = _weights(m, x, (c,), m.rng.choice([0, 2]))
        return Draft(f"F.instance_norm({{0}}{', weight={1}, bias={2}' if affine else ''})", [x, *affine])
    name = str(t.dtype).removeprefix("torch.")
    mean = m.leaf(Leaf("", "buffer", name, (c,)))
    var = m.leaf(Leaf("", "buffer", name, (c,), "positive"))
    affine = _weights(m, x, (c,), m.rng.choice([0, 2]))
    if form == 3 and t.ndim >= 3 and t.numel() // (c * t.shape[0]) > 1:
        how = m.choice(["", ", use_input_stats=False", ", momentum=0.25"])
        return Draft(f"F.instance_norm({{0}}, {{1}}, {{2}}{', {3}, {4}' if affine else ''}{how})", [x, mean, var, *affine])
    training = form == 2 and t.numel() // c > 1
    how = ", training=True, momentum=0.25" if training else m.choice(["", ", eps=1e-3"])
    return Draft(f"F.batch_norm({{0}}, {{1}}, {{2}}{', {3}, {4}' if affine else ''}{how})", [x, mean, var, *affine])


def folded_norm(m: Maker) -> Draft:
    """A norm or softmax and what folds it over other dims, once or twice: its result need not be written."""
    x = m.pick("f", rank=3, accept=lambda t: t.numel() > 1 and 0 not in t.shape)
    t = x.tensor
    c, last = t.shape[1], t.shape[-1]
    form = m.rng.randrange(8)
    groups = m.rng.choice([g for g in (1, 2, 3, 4, c) if c % g == 0])
    affine = [] if form > 4 else _weights(m, x, (last if form in (1, 2) else c,), m.rng.choice([0, 1 if form == 2 else 2]))
    places = "".join(f", {{{i + 1}}}" for i in range(len(affine))) or ", None"
    if form == 3 and t[0, 0].numel() < 2:
        raise Refused
    y = [
        f"F.group_norm({{0}}, {groups}{places})",
        f"F.layer_norm({{0}}, ({last},){places})",
        f"F.rms_norm({{0}}, ({last},){places})",
        f"F.instance_norm({{0}}{', weight={1}, bias={2}' if affine else ''})",
        f"F.batch_norm({{0}}, None, None{', {1}, {2}' if affine else ''}, training=True)",
        "({0} * ({0} * {0}).mean(-1, keepdim=True).add(1e-3).rsqrt())",
        f"{{0}}.softmax({m.dim(x)})",
        f"{{0}}.log_softmax({m.dim(x)})",
    ][form]
    if m.chance(0.5):
        y = f"F.{m.choice(['silu', 'hardswish', 'relu', 'softplus'])}({y})"

    def fold(text: str) -> str:
        name = m.choice(["mean", "sum", "amax", "logsumexp", "softmax"])
        dims = f"{m.rng.randrange(t.ndim)}"
        if name == "softmax":
            return f"{text}.softmax({dims})"
        if m.chance(0.4):
            dims = m.choice(["(-2, -1)", "(0, -1)", "(0, 1)", "(0, -2)"])
        return f"torch.{name}({text}, {dims}{_kept(m)})"

    if m.chance(0.7):
        return Draft(fold(y), [x, *affine], simpler=(y,))
    return Draft(f"(lambda y: ({fold('y')}, {fold('y')}))({y})", [x, *affine], outs=2, simpler=(f"(lambda y: (y, y))({y})",))


def parted_rows(m: Maker) -> Draft:
    """A norm or softmax of rows, an activation perhaps, and folds of parts of these rows, which one pass may do."""
    plane = m.rng.choice([(64,), (128,), (8, 16), (2, 64), (4, 32), (256,), (28, 28), (60,)])
    c = m.rng.choice([2, 4, 6])
    x = m.leaf(Leaf("", m.choice(["input", "input", "const"]), m.dtype("f"), (m.rng.choice([1, 2, 3]), c, *plane)))
    t = x.tensor
    form = m.rng.randrange(5)
    groups = m.rng.choice([g for g in (1, 2, 3) if c % g == 0])
    affine = _weights(m, x, (c,), m.rng.choice([0, 2])) if form == 0 else []
    y = [
        f"F.group_norm({{0}}, {groups}{', {1}, {2}' if affine else ''})",
        f"F.layer_norm({{0}}, {tuple(t.shape[1:])})",
        "({0} * ({0} * {0}).mean(tuple(range(1, {0}.ndim)), keepdim=True).add(1e-3).rsqrt())",
        "{0}.flatten(1).softmax(1).view({0}.shape)",
        "({0} - {0}.amax(tuple(range(1, {0}.ndim)), keepdim=True))",
    ][form]
    if m.chance(0.5):
        y = f"F.{m.choice(['silu', 'hardswish', 'relu', 'softplus'])}({y})"

    def fold() -> str:
        dims = m.choice([repr(tuple(range(2, t.ndim))), repr(tuple(range(2, t.ndim))), "-1", repr(tuple(range(1, t.ndim))), "1"])
        return f"torch.{m.choice(['mean', 'sum', 'amax', 'amin'])}(y, {dims}{_kept(m)})"

    kept = m.choice(["", "", "", "y", fold()])
    outs = [one for one in (fold(), kept) if one]
    text = f"(lambda y: {outs[0] if len(outs) == 1 else '(' + ', '.join(outs) + ')'})({y})"
    return Draft(text, [x, *affine], outs=len(outs), simpler=(f"(lambda y: {fold()})({y})", y))


def loss(m: Maker) -> Draft:
    x = m.pick("f")
    same = [v for v in m.values if v.tensor.shape == x.tensor.shape and v.tensor.dtype == x.tensor.dtype]
    y = m.rng.choice(same)
    how = f", reduction='{m.choice(['mean', 'sum', 'none'])}'"
    texts = [f"F.mse_loss({{0}}, {{1}}{how})", f"F.l1_loss({{0}}, {{1}}{how})", f"F.smooth_l1_loss({{0}}, {{1}}{how}, beta={m.choice(['1.0', '0.5'])})",
             f"F.huber_loss({{0}}, {{1}}{how}, delta={m.choice(['1.0', '0.5'])})", f"F.kl_div({{0}}, {{1}}{how})"]  # fmt: skip
    if x.tensor.ndim:
        texts.append(f"F.cosine_similarity({{0}}, {{1}}, {m.dim(x)})")
    return Draft(m.choice(texts), [x, y])


def running(m: Maker) -> Draft:
    """Running values of every kind: from either end, with and without the element at hand, masked."""
    name = m.choice(["cumsum", "cumsum", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
    extreme = name in ("cummax", "cummin")
    kinds = "f" if name == "logcumsumexp" else "fi" if extreme else "fib"
    x = m.pick(kinds, rank=1, accept=lambda t: t.numel() > 0)
    dim = m.dim(x)
    text = "{0}.clamp(-1.5, 1.5)" if name == "cumprod" and x.kind == "f" else "{0}"
    if name == "cumsum" and m.chance(0.2):
        text = f"torch.where({text} > 0, {text}, 0)" if x.kind == "i" else f"({text} * 0.5)" if x.kind == "f" else text
    call = f"torch.{name}({text}, {dim})"
    if extreme:
        if m.chance(0.3):
            x = m.pick("fi", rank=1, exact=True, accept=lambda t: t.numel() > 0 and not bool(torch.isnan(t).any()))
            return Draft(f"torch.{name}({{0}}, {m.dim(x)}).indices", [x])
        call += ".values"
    form = m.rng.randrange(5)
    if form == 0:
        call = call.replace(text, f"{text}.flip({dim})", 1) + f".flip({dim})"
    elif form == 1 and name == "cumsum" and x.kind != "b":
        call = f"({call} - {text})"
    elif form == 2 and dim in (-1, x.tensor.ndim - 1):
        call = f"F.pad({call}, (1, -1))"
    exact = extreme or x.kind != "f"
    return Draft(call, [x], keeps=exact, simpler=(f"torch.{name}({{0}}, {dim})" + (".values" if extreme else ""),))


def library(m: Maker) -> Draft:
    """Steps that no kernel takes: partition has to order around them."""
    x = m.pick("f", rank=2, accept=lambda t: 0 < t.numel() < 4000)
    t = x.tensor
    form = m.rng.randrange(4)
    if form == 0:
        return Draft("torch.matmul({0}, {0}.transpose(-1, -2))", [x])
    if form == 1:
        weight, bias = _weights(m, x, (5, t.shape[-1]), 1), _weights(m, x, (5,), 1)
        return Draft("F.linear({0}, {1}, {2})", [x, *weight, *bias])
    if form == 2:
        x = m.pick("f", rank=1, exact=True, accept=lambda t: t.numel() > 0 and not bool(torch.isnan(t).any()))
        return Draft(f"torch.argmax({{0}}, {m.dim(x)}{_kept(m)})", [x])
    if t.ndim < 3:
        raise Refused
    return Draft("F.avg_pool1d({0}.flatten(0, -3), 2)", [x])


def both_ways(m: Maker) -> Draft:
    """The same data folded along two dims, now and then of what one of them made, or seen transposed."""
    x = m.pick("f", rank=2, accept=lambda t: t.numel() > 0)
    first, second = m.rng.sample(range(x.tensor.ndim), 2)
    other = "{0}"
    if m.chance(0.3):
        other = f"{{0}}.transpose({first}, {second})"
        second = first
    if m.chance(0.25):
        y = f"F.{m.choice(['softmax', 'log_softmax'])}({{0}}, {first})"
        return Draft(f"({y}, {y}.sum({second}))", [x], outs=2) if m.chance(0.5) else Draft(f"{y}.sum({second})", [x])
    names = ["sum", "mean", "amax", "amin", "logsumexp"]
    return Draft(f"(torch.{m.choice(names)}({{0}}, {first}), torch.{m.choice(names)}({other}, {second}{_kept(m)}))", [x], outs=2)


def stored_fold(m: Maker) -> Draft:
    """Elements that are results of their own, and what is folded of them: an activation and its sums, a gradient and that of a bias."""
    x = m.pick("f", rank=1, accept=lambda t: t.numel() > 0)
    t = x.tensor
    same = [v for v in m.values if v.tensor.shape == t.shape and v.tensor.dtype == t.dtype]
    other = m.rng.choice(same)
    y = m.choice(["F.relu({0})", "F.silu({0})", "({0} * {1})", "({0} + {1})", "({1} * torch.sigmoid({0}))", "F.gelu({0}) * {1}", "({0} * 0.5 + 1)"])

    def folded() -> str:
        name = m.choice(["sum", "sum", "mean", "amax", "square", "logsumexp", "var"])
        seen = "y"
        if m.chance(0.2) and t.ndim > 1:
            seen = m.choice(["y.flatten(0, 1)", "y.flatten(-2)", "y.transpose(0, -1)", "y.unsqueeze(1)"])
        rank = t.ndim - seen.startswith("y.flatten") + seen.startswith("y.unsq")
        count = m.rng.choice([1, 1, 1, 2, rank])
        dims = repr(tuple(sorted(m.rng.sample(range(rank), min(rank, count)))))
        kept = _kept(m)
        if name == "square":
            return f"({seen} * {seen}).mean({dims}{kept})"
        if name == "var":
            return f"{seen}.var({dims}, correction=0{kept})"
        return f"torch.{name}({seen}, {dims}{kept})"

    if m.chance(0.25):
        return Draft(f"(lambda y: (y, {folded()}, {folded()}))({y})", [x, other], outs=3, simpler=(f"(lambda y: (y, y, y.sum()))({y})",))
    return Draft(f"(lambda y: (y, {folded()}))({y})", [x, other], outs=2, simpler=(f"(lambda y: (y, y.sum()))({y})",))


def ranked(m: Maker) -> Draft:
    """Elements by their rank, and of exact rows without equals also where they are."""
    if m.chance(0.3):
        x = m.pick("i", rank=1, exact=True, accept=lambda t: t.numel() > 0)
        return Draft(f"torch.sort({{0}}, dim={m.dim(x)}, stable=True, descending={m.chance(0.5)}).indices", [x], keeps=True)
    x = m.pick("fi", rank=1, accept=lambda t: t.numel() > 0)
    dim = m.dim(x)
    size = x.tensor.shape[dim]
    rank = m.rng.randint(1, size)
    call = m.choice([
        f"torch.sort({{0}}, {dim}, descending={m.chance(0.5)})", f"torch.topk({{0}}, {rank}, {dim}, largest={m.chance(0.7)})",
        f"torch.kthvalue({{0}}, {rank}, {dim}{_kept(m)})",
    ])  # fmt: skip
    return Draft(f"{call}.values", [x], keeps=True)


CATALOGUE = [
    (7, fold), (2, extremum), (2, spread), (2, norm), (4, softmax), (4, normalisation), (3, channels), (2, folded_norm), (1, loss), (3, running),
    (1, library), (3, both_ways), (3, stored_fold), (2, parted_rows), (2, ranked),
]  # fmt: skip
