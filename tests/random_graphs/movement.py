"""The catalogue of views, of operators that move elements, and of those that make tensors from nothing."""

from __future__ import annotations

from .maker import Draft, Maker, Refused, Value


def reshape(m: Maker) -> Draft:
    x = m.pick(rank=1)
    t = x.tensor
    form = m.rng.randrange(7)
    if form == 0:
        return Draft("{0}.flatten()", [x], keeps=True)
    if form == 1 and t.ndim > 1:
        start = m.rng.randrange(t.ndim - 1)
        return Draft(f"{{0}}.flatten({start}, {m.rng.randrange(start + 1, t.ndim)})", [x], keeps=True)
    if form == 2:
        dims = [(i, k) for i, d in enumerate(t.shape) for k in (2, 3, 4, 5) if d > k and d % k == 0]
        if not dims:
            raise Refused
        dim, by = m.rng.choice(dims)
        return Draft(f"{{0}}.unflatten({dim}, {m.rng.choice([(by, -1), (-1, by)])})", [x], keeps=True)
    if form == 3 and t.numel():
        # The same elements in an unrelated shape.
        by = m.rng.choice([k for k in (1, 2, 3, 4, 5, 6, 7) if t.numel() % k == 0])
        return Draft(f"{{0}}.reshape({m.rng.choice([(by, -1), (-1, by)])})", [x], keeps=True)
    if form == 4:
        return Draft(f"{{0}}.unsqueeze({m.rng.randrange(-t.ndim - 1, t.ndim + 1)})", [x], keeps=True)
    if form == 5:
        return Draft(m.choice(["{0}.squeeze()", f"{{0}}.squeeze({m.dim(x)})"]), [x], keeps=True)
    return Draft("{0}.reshape(-1)", [x], keeps=True)


def permute(m: Maker) -> Draft:
    x = m.pick(rank=2)
    rank = x.tensor.ndim
    form = m.rng.randrange(5)
    if form == 0 and rank == 2:
        return Draft("{0}.t()", [x], keeps=True)
    if form == 1:
        return Draft(f"{{0}}.transpose({m.dim(x)}, {m.dim(x)})", [x], keeps=True)
    if form == 2:
        return Draft(f"torch.movedim({{0}}, {m.dim(x)}, {m.dim(x)})", [x], keeps=True)
    if form == 3:
        return Draft("{0}.mT", [x], keeps=True)
    order = list(range(rank))
    m.rng.shuffle(order)
    return Draft(f"{{0}}.permute({', '.join(map(str, order))})", [x], keeps=True)


def expand(m: Maker) -> Draft:
    x = m.pick(accept=lambda t: t.numel() < 2000 and t.ndim < 4)
    t = x.tensor
    if m.chance(0.3):
        return Draft(m.choice(["{0}.expand_as({1})", "torch.broadcast_to({0}, {1}.shape)"]), [x, m.partner(x)], keeps=True)
    ones = [i for i, d in enumerate(t.shape) if d == 1]
    sizes = [-1] * t.ndim
    if ones and m.chance(0.7):
        sizes[m.rng.choice(ones)] = m.rng.choice([2, 3, 5])
    else:
        sizes.insert(0, m.rng.choice([1, 2, 3]))
    return Draft(f"{{0}}.expand({', '.join(map(str, sizes))})", [x], keeps=True)


def cut(m: Maker) -> Draft:
    x = m.pick(rank=1)
    t, dim = x.tensor, m.dim(x)
    extent = t.shape[dim]
    form = m.rng.randrange(6)
    if form == 0 and extent:
        return Draft(f"{{0}}.select({dim}, {m.rng.randrange(-extent, extent)})", [x], keeps=True)
    if form == 1 and extent:
        start = m.rng.randrange(extent)
        return Draft(f"{{0}}.narrow({dim}, {start}, {m.rng.randrange(extent - start + 1)})", [x], keeps=True)
    if form == 2:
        return Draft(f"{{0}}[{m.choice(['::2', '1:', ':-1', '-3:', '1::3', ':', '1:-1'])}]", [x], keeps=True)
    if form == 3:
        return Draft(f"{{0}}[..., {m.choice(['::2', '1:', ':-1', '-3:', '1::3', '0', 'None', '-1:'])}]", [x], keeps=True)
    if form == 4 and t.ndim > 1:
        return Draft(f"{{0}}[{m.choice(['1:, ::2', ':, 0', '0, 1:', '-1, None', ':, -2:'])}]", [x], keeps=True)
    if t.ndim > 1 and m.chance(0.5):
        a, b = m.rng.sample(range(t.ndim), 2)
        return Draft(f"torch.diagonal({{0}}, {m.choice(['0', '1', '-1'])}, {a}, {b})", [x], keeps=True)
    size = m.rng.randrange(1, min(4, extent) + 1) if extent else 1
    step = m.choice(["1", "2", "3"])
    # torch's export of a write into windows that overlap or leave gaps sums them, or clears the gaps: only a copy is written to then.
    tiles = int(step) == size and extent % size == 0
    return Draft(f"{{0}}.unfold({dim}, {size}, {step}){'' if tiles else '.clone()'}", [x], keeps=True)


def pieces(m: Maker) -> Draft:
    x = m.pick(rank=1, accept=lambda t: t.numel() > 0)
    dim = m.dim(x)
    extent = x.tensor.shape[dim]
    form = m.rng.randrange(4)
    if form == 0 and extent <= 4:
        return Draft(f"torch.unbind({{0}}, {dim})", [x], keeps=True, outs=extent)
    if form == 1 and extent > 1:
        chunks = m.rng.randrange(2, 4)
        return Draft(f"torch.chunk({{0}}, {chunks}, {dim})", [x], keeps=True, outs=-(-extent // -(-extent // chunks)))
    if form == 2 and extent > 1:
        first = m.rng.randrange(1, extent)
        return Draft(f"torch.split({{0}}, [{first}, {extent - first}], {dim})", [x], keeps=True, outs=2)
    size = max(1, (extent + 2) // 3)
    return Draft(f"torch.split({{0}}, {size}, {dim})", [x], keeps=True, outs=-(-extent // size))


def join(m: Maker) -> Draft:
    x = m.pick(accept=lambda t: t.numel() < 4000)
    if m.chance(0.35):
        others = [v for v in m.values if v.tensor.shape == x.tensor.shape]
        chosen = [x, *m.rng.choices(others, k=m.rng.randrange(0, 3))]
        dim = m.rng.randrange(-x.tensor.ndim - 1, x.tensor.ndim + 1)
        return Draft(f"torch.stack([{_places(chosen)}], {dim})", chosen, keeps=_same(chosen))
    dim = m.dim(x)
    fixed = _without(x, dim)
    others = [v for v in m.values if v.tensor.ndim == x.tensor.ndim and _without(v, dim) == fixed]
    chosen = [x, *m.rng.choices(others, k=m.rng.randrange(1, 4))]
    m.rng.shuffle(chosen)
    return Draft(f"torch.cat([{_places(chosen)}], {dim})", chosen, keeps=_same(chosen))


def _places(values: list[Value]) -> str:
    return ", ".join(f"{{{i}}}" for i in range(len(values)))


def _same(values: list[Value]) -> bool:
    return len({v.tensor.dtype for v in values}) == 1


def _without(value: Value, dim: int) -> list[int]:
    shape = list(value.tensor.shape)
    del shape[dim]
    return shape


def move(m: Maker) -> Draft:
    x = m.pick(rank=1, accept=lambda t: t.numel() < 8000)
    t, dim = x.tensor, m.dim(x)
    form = m.rng.randrange(10)
    if form == 0:
        dims = m.rng.sample(range(t.ndim), m.rng.randrange(1, t.ndim + 1))
        return Draft(f"torch.flip({{0}}, {dims})", [x], keeps=True)
    if form == 1:
        shift = m.rng.choice([1, -1, 2, 5, -7, 0])
        return Draft(m.choice([f"torch.roll({{0}}, {shift}, {dim})", f"torch.roll({{0}}, {shift})"]), [x], keeps=True)
    if form == 2 and t.ndim > 1:
        return Draft("torch.roll({0}, (1, -2), (0, -1))", [x], keeps=True)
    if form in (3, 4):
        widths = [m.rng.choice([0, 1, 2, 3, 0, -1]) for _ in range(2 * m.rng.randrange(1, min(t.ndim, 3) + 1))]
        value = "" if m.chance(0.5) else f", value={'True' if x.kind == 'b' else m.number(x)}"
        return Draft(f"F.pad({{0}}, {widths}{value})", [x], keeps=True, simpler=(f"F.pad({{0}}, {widths})",))
    if form == 5:
        counts = [m.rng.choice([1, 2, 3]) for _ in range(t.ndim + m.rng.randrange(2))]
        if t.numel() * max(counts) ** len(counts) > 1 << 15:
            raise Refused
        return Draft(f"{{0}}.repeat({', '.join(map(str, counts))})", [x], keeps=True)
    if form == 6 and t.ndim > 1:
        return Draft(f"torch.{m.choice(['tril', 'triu'])}({{0}}, {m.choice(['0', '1', '-1', '2'])})", [x], keeps=True)
    if form == 7 and t.ndim > 1:
        return Draft("torch.rot90({0})", [x], keeps=True)
    if form == 8 and t.shape[dim] > 1 and x.kind == "f":
        # Gathers stay aten steps between kernels.
        index = [m.rng.randrange(t.shape[dim]) for _ in range(3)]
        return Draft(f"torch.index_select({{0}}, {dim}, torch.tensor({index}, device={{0}}.device))", [x], keeps=True)
    return Draft(m.choice(["{0}.clone()", "{0}.contiguous()", "{0}.detach()", "{0}.clone(memory_format=torch.contiguous_format)"]), [x], keeps=True)


def scatter(m: Maker) -> Draft:
    x = m.pick(rank=1, accept=lambda t: t.numel() > 0)
    dim = m.dim(x)
    extent = x.tensor.shape[dim]
    if m.chance(0.5):
        index = m.rng.randrange(extent)
        return Draft(f"torch.select_scatter({{0}}, {{0}}.select({dim}, {m.rng.randrange(extent)}) * 2, {dim}, {index})", [x])
    if extent < 2:
        raise Refused
    start, step = m.rng.randrange(1, extent), m.rng.choice([1, 1, 2])
    return Draft(f"torch.slice_scatter({{0}}, {{0}}.narrow({dim}, 0, {-(-(extent - start) // step)}), {dim}, {start}, {extent}, {step})", [x], keeps=True)


def creation(m: Maker) -> Draft:
    x = m.pick(accept=lambda t: t.numel() < 4000)
    number = m.number(x)
    texts = [
        "torch.zeros_like({0})", "torch.ones_like({0})", f"torch.full_like({{0}}, {number})", f"{{0}}.new_full({{0}}.shape, {number})",
        "{0}.new_zeros({0}.shape)", "{0}.new_ones(())", f"torch.zeros_like({{0}}, dtype=torch.{m.dtype('fib')})",
        f"torch.full(({m.choice(['2', '5', '1'])},), {m.real()}, device={{0}}.device)", f"torch.tensor({m.real()}, device={{0}}.device)",
    ]  # fmt: skip
    if x.tensor.ndim:
        extent = f"{{0}}.shape[{m.dim(x)}]"
        device = "device={0}.device"
        texts += [f"torch.arange({extent}, {device})", f"torch.arange({extent}, {device}, dtype=torch.{m.dtype('fi')})",
                  f"torch.arange(1, 2 * {extent}, 2, {device})",
                  f"torch.eye({extent}, {device})", f"torch.arange(0, {extent} * 0.5, 0.5, {device})",
                  f"torch.ones({extent}, 1, {device}).tril(-1)"]  # fmt: skip
    return Draft(m.choice(texts), [x], keeps=True)


def mask(m: Maker) -> Draft:
    """A triangle from positions, as attention masks are made."""
    x = m.pick("f", rank=2)
    rows, cols = "torch.arange({0}.shape[-2], device={0}.device)", "torch.arange({0}.shape[-1], device={0}.device)"
    return Draft(f"({rows}[:, None] {m.choice(['>=', '<', '!='])} {cols}[None, :])", [x], keeps=True)


def in_place(m: Maker) -> Draft:
    x = m.pick("fi", accept=lambda t: 0 not in t.stride() or t.numel() < 2)
    y = m.partner(x, x.kind)
    texts = [
        "{0}.add_({1})", "{0}.mul_({1})", "{0}.copy_({1})", "{0}.sub_({1})", f"{{0}}.fill_({m.number(x)})", "{0}.neg_()", "{0}.clamp_(-2, 2)",
        f"{{0}}.add_({m.number(x)})", "{0}.zero_()", "torch.maximum({0}, {1}, out={0})",
    ]  # fmt: skip
    if x.tensor.ndim:
        texts += ["{0}[..., 0] = 1", "{0}[1:].add_(1)", "{0}[::2].mul_(2)", "{0}[..., :1].copy_({0}[..., -1:])", "{0}.select(-1, 0).zero_()"]
    if x.kind == "f":
        texts += ["{0}.mul_(0.5).add_({1}, alpha=0.5)", "{0}.relu_()", "{0}.sigmoid_()"]
    return Draft(m.choice(texts), [x, y], outs=0)


CATALOGUE = [
    (5, reshape), (4, permute), (3, expand), (5, cut), (2, pieces), (4, join), (5, move), (1, scatter), (2, creation), (1, mask), (1, in_place),
]  # fmt: skip
