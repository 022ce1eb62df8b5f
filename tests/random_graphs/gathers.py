"""The catalogue of operators that read places which the values of other tensors name."""

from __future__ import annotations

from .maker import Draft, Maker, Refused


def _places(m: Maker, extent: int, shape: list[int], wraps: bool = False) -> str:
    """A constant index tensor of that shape, its numbers in range."""
    count = 1
    for d in shape:
        count *= d
    numbers = [m.rng.randrange(-extent if wraps else 0, extent) for _ in range(count)]
    dtype = "" if m.chance(0.8) else ", dtype=torch.int32"
    return f"torch.tensor({numbers}, device={{0}}.device{dtype}).reshape({shape})"


def gather(m: Maker) -> Draft:
    x = m.pick(rank=1, accept=lambda t: 0 < t.numel() < 4000)
    t, dim = x.tensor, m.dim(x)
    extent = t.shape[dim]
    form = m.rng.randrange(7)
    if form == 0:
        return Draft(f"torch.index_select({{0}}, {dim}, {_places(m, extent, [m.rng.randrange(1, 6)])})", [x], keeps=True)
    if form == 1:
        shape = [m.rng.randrange(1, d + 1) for d in t.shape]
        shape[dim] = m.rng.randrange(1, 5)
        return Draft(f"torch.gather({{0}}, {dim}, {_places(m, extent, shape)}.long())", [x], keeps=True)
    if form == 2:
        shape = m.rng.choice([[3], [2, 2], [1], [4, 1]])
        return Draft(f"{{0}}[{_places(m, t.shape[0], shape, True)}]", [x], keeps=True)
    if form == 3 and t.ndim > 1:
        first, last = _places(m, t.shape[0], [2, 1], True), _places(m, t.shape[-1], [3], True)
        return Draft(f"{{0}}[{first}, ..., {last}]", [x], keeps=True)
    if form == 4 and t.ndim == 2:
        return Draft(f"F.embedding({_places(m, t.shape[0], [2, 3])}, {{0}})", [x], keeps=True)
    if form == 5:
        index = m.pick("i", exact=True, rank=1, accept=lambda i: 0 < i.numel() < 200)
        return Draft(f"torch.index_select({{0}}, {dim}, {{1}}.flatten().long() % {extent})", [x, index], keeps=True)
    if t.ndim < 2:
        raise Refused
    return Draft("{0}[:, torch.arange(2 * {0}.shape[1], device={0}.device) // 2]", [x], keeps=True)


def class_loss(m: Maker) -> Draft:
    """Rows folded, a class picked from each, and the batch folded."""
    x = m.pick("f", rank=2, accept=lambda t: 0 < t.numel() < 4000)
    t = x.tensor
    classes = t.shape[1]
    target = _places(m, classes, [t.shape[0], *t.shape[2:]]) + ".long()"
    how = f", reduction='{m.choice(['mean', 'sum', 'none'])}', ignore_index={m.choice(['-100', '0'])}"
    if m.chance(0.4):
        return Draft(f"F.nll_loss(F.log_softmax({{0}}, 1), {target}{how})", [x])
    return Draft(f"F.cross_entropy({{0}}, {target}{how}, label_smoothing={m.choice(['0.0', '0.125'])})", [x])


MOVES = [(3, gather)]
LOSSES = [(1, class_loss)]
