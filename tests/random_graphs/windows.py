"""The catalogue of operators that fold a window around each place: pooling, and convolutions of one channel with itself."""

from __future__ import annotations

from .maker import Draft, Maker, Refused, Value


def _moving(m: Maker, dims: int) -> Value:
    """A value with `dims` dims to move over and one or two in front; half of the time another one is viewed so."""
    return m.pick("f", rank=dims + 1, accept=lambda t: dims + 1 <= t.ndim <= dims + 2 and 0 < t.numel() < 1 << 13)


def _window(m: Maker, extents: list[int], most: int = 5) -> tuple[list[int], list[int], list[int]]:
    """Sizes, paddings and dilations that fit."""
    sizes, paddings, dilations = [], [], []
    for extent in extents:
        dilation = 1 if m.chance(0.75) else 2
        size = m.rng.randrange(1, most + 1)
        padding = m.rng.randrange(size // 2 + 1) if m.chance(0.5) else 0
        if extent + 2 * padding < dilation * (size - 1) + 1:
            raise Refused
        sizes.append(size)
        paddings.append(padding)
        dilations.append(dilation)
    return sizes, paddings, dilations


def _strides(m: Maker, sizes: list[int]) -> list[int]:
    return [m.rng.choice([1, 1, 2, s]) for s in sizes]


def max_pool(m: Maker) -> Draft:
    dims = m.rng.choice([1, 2, 2, 3])
    x = _moving(m, dims)
    sizes, paddings, dilations = _window(m, list(x.tensor.shape[-dims:]), 5 if dims < 3 else 3)
    ceil = m.choice(["False", "False", "True"])
    text = f"F.max_pool{dims}d({{0}}, {sizes}, {_strides(m, sizes)}, {paddings}, {dilations}, {ceil}"
    if m.chance(0.25):
        return Draft(f"{text}, return_indices=True)", [x], outs=2)
    return Draft(f"{text})", [x], keeps=True)


def avg_pool(m: Maker) -> Draft:
    dims = m.rng.choice([1, 2, 2, 3])
    x = _moving(m, dims)
    most = 13 if m.chance(0.15) and dims == 2 else 5 if dims < 3 else 3
    sizes, paddings, _ = _window(m, list(x.tensor.shape[-dims:]), most)
    form = f"{m.choice(['False', 'False', 'True'])}, {m.choice(['True', 'False'])}"
    divisor = f", {m.rng.randrange(1, 9)}" if dims > 1 and m.chance(0.2) else ""
    return Draft(f"F.avg_pool{dims}d({{0}}, {sizes}, {_strides(m, sizes)}, {paddings}, {form}{divisor})", [x])


def adaptive(m: Maker) -> Draft:
    dims = m.rng.choice([1, 2, 2, 3])
    x = _moving(m, dims)
    sizes = [m.rng.choice([d for d in range(1, e + 1) if e % d == 0]) if m.chance(0.8) else m.rng.randrange(1, e + 1) for e in x.tensor.shape[-dims:]]
    return Draft(f"F.adaptive_avg_pool{dims}d({{0}}, {sizes})", [x])


def stencil(m: Maker) -> Draft:
    """Each output channel reads one input channel."""
    dims = m.rng.choice([1, 2, 2, 3])
    x = _moving(m, dims)
    channels, copies = x.tensor.shape[-dims - 1], m.rng.choice([1, 1, 2])
    sizes, paddings, dilations = _window(m, list(x.tensor.shape[-dims:]), 5 if dims < 3 else 3)
    count = channels * copies
    for s in sizes:
        count *= s
    if count > 4096:
        raise Refused
    weight = f"(torch.arange({count}, device={{0}}.device, dtype={{0}}.dtype) % 7 - 3).mul(0.25).reshape({[channels * copies, 1, *sizes]})"
    padding = "'same'" if m.chance(0.2) else str(paddings)
    strides = [1] * dims if padding == "'same'" else _strides(m, sizes)
    bias = f"torch.arange({channels * copies}, device={{0}}.device, dtype={{0}}.dtype)" if m.chance(0.5) else "None"
    return Draft(f"F.conv{dims}d({{0}}, {weight}, {bias}, {strides}, {padding}, {dilations}, {channels})", [x])


CATALOGUE = [(3, max_pool), (3, avg_pool), (1, adaptive), (3, stencil)]
