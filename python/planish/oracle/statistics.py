"""What is asked of an output besides its two measures: each element's error over the noise that an honest program has there, by many
statistics, so that a part that is wrong does not hide behind a larger one, nor a bias or a lost bit behind the size of the noise (docs/accuracy.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from planish.oracle.erring import spacing
from planish.oracle.measure import all_finite, masks

_MOST = {"cpu": 1 << 19, "cuda": 1 << 22}  # elements that are looked at so: of larger outputs random rows
_ROW = 1 << 18
_CHUNK = 1 << 16
_RUN = 64
_CLAMP, _BIAS_CLAMP = 16.0, 6.0
_QUANTILES = (0.5, 0.9, 0.99, 0.999)
_PLACES = (1.0, 0.95, 0.75, 0.5)  # of the parts by their error: the largest, and those that 5, 25 and 50 % exceed
_RANKED = 1 << 15
_SORTED = 1 << 12  # fewer are sorted as quickly as they are searched
_FEWEST_BIASED = 32
FEWEST = 64  # elements that say something of their distribution
_BITS = {2: (1, 2, 3), 4: (8, 13)}
_PART = 4  # elements at least
_POOLED, _ENOUGH = 8, 16  # data sets at least, and at most: those of a proof, and not all that is timed after it
_HALF_UNIT = 1.01 * math.sqrt(3.0)  # what a correctly rounded number is off by at most, in units of v without noise
_LEAN = 0.05  # of a unit of v
_LEAN_BETWEEN = 0.03  # the same, where all of v is noise: programs that round at other places between lean by that, eager among them
_INCOMPARABLE = 4.0  # eager itself is off by so much: that data set says nothing of others
# What is lost where kernels make zeros of subnormal numbers, and multiply those by others.
_FLUSHED = {torch.float32: 1e3 * torch.finfo(torch.float32).tiny, torch.bfloat16: 1e3 * torch.finfo(torch.float32).tiny}


@dataclass(frozen=True)
class Factors:
    """How many times the largest of the null a statistic may be, by the dtype (docs/accuracy.md has how often each refused honest code)."""

    largest: float
    quantile: float
    part: float


NARROW, WIDE = Factors(2.0, 1.5, 1.5), Factors(3.0, 2.0, 2.0)


@dataclass
class Found:
    """The statistics of one candidate or draw. `sizes`: elements that each bias is the mean of; `of`: over how many parts it is the largest."""

    values: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def larger(self, other: Found) -> Found:
        return Found({k: max(v, other.values.get(k, v)) for k, v in self.values.items()}, self.sizes)


@dataclass(frozen=True)
class Small:
    """The errors of an output of a few numbers over their noise, away from zero: [elements] of a candidate, [draws, elements] of what is known to be
    honest (eager, correct rounding, replays). `noise` [elements]: its part, of 1, that is not of the last rounding."""

    errors: torch.Tensor
    honest: torch.Tensor
    noise: torch.Tensor


class Pool:
    """What one output of a few numbers was off by on each data set of a proof. On a single one an error of a part of the last place, always to one
    side, is like rounding, and so is one bit less; over all of them neither is."""

    def __init__(self) -> None:
        self._sets: dict[tuple[int, str], Small] = {}

    def add(self, key: tuple[int, str], found: Small) -> None:
        """What `Yardstick.errors` gives; the last of a data set counts."""
        self._sets.pop(key, None)
        if float(found.honest[0].abs().max()) <= _INCOMPARABLE:
            self._sets[key] = found

    def takes(self, key: tuple[int, str]) -> bool:
        """Whether a data set's errors are still asked for."""
        return key in self._sets or len(self._sets) < _ENOUGH

    def __len__(self) -> int:
        return len(self._sets)

    def judge(self, dtype: torch.dtype) -> tuple[float, str]:
        """(the larger statistic over its limit, its name); (0, "") where there are too few data sets."""
        if len(self._sets) < _POOLED:
            return 0.0, ""
        some = self._sets.values()
        most = max(s.honest.shape[0] for s in some)
        # A replay that was not drawn there, since nobody needed it, is as good as correct rounding.
        null = torch.cat([torch.cat([s.honest, s.honest[1:2].expand(most - s.honest.shape[0], -1)]) for s in some], -1)
        errors = torch.cat([s.errors for s in some])
        narrow = dtype.itemsize <= 2
        factor = (NARROW if narrow else WIDE).part
        ratio = float(_rms(errors) / (factor * _rms(null).max().clamp_min(1.0)))
        found = [(ratio, "pooled")]
        if narrow:
            lean, honest = (_beyond(e, null[1]).mean(-1).abs() for e in (errors, null))
            by_chance = math.sqrt(float(sum(s.noise.sum() for s in some))) / errors.numel()
            found.append((float(lean / (1.5 * (honest.max() + _LEAN + by_chance))), "pooled bias"))
        return max(found)


class View:
    """The elements of an output that are looked at: all in their dims, or random rows of a large one. `seed` chooses them."""

    def __init__(self, shape: Sequence[int], device: torch.device, seed: int) -> None:
        """`shape` is in storage order."""
        self.rows: torch.Tensor | None = None
        self.shape = tuple(shape)
        count = math.prod(shape)
        most = _MOST["cuda" if device.type == "cuda" else "cpu"]
        if count <= most:
            return
        size, at = 1, len(shape)
        while at > 0 and size * shape[at - 1] <= _ROW:
            at -= 1
            size *= shape[at]
        if at == len(shape) or count // size < 2:
            at, size = len(shape), _CHUNK
        rest = self.shape[at:] or (_CHUNK,)
        total, wanted = count // size, max(1, most // size)
        generator = torch.Generator(device).manual_seed(seed)
        found = torch.randint(0, total, (wanted,), generator=generator, device=device).unique() if total > wanted else torch.arange(total, device=device)
        self.rows, self._size = found, size
        self.shape = (int(found.numel()), *rest)

    def take(self, flat: torch.Tensor) -> torch.Tensor:
        """Those of a flat tensor, flat."""
        if self.rows is None:
            return flat
        whole = flat[: flat.numel() // self._size * self._size].view(-1, self._size)
        return whole[self.rows].reshape(-1)


class Yardstick:
    """The noise of each element that is looked at, and what its statistics are in draws that are known to be honest."""

    def __init__(self, view: View, exact: torch.Tensor, eager: torch.Tensor, clean: bool) -> None:
        """`exact` (fp64) and `eager` are flat and whole."""
        self.view = view
        self.dtype = eager.dtype
        self.exact = view.take(exact).to(torch.float64)
        eager = view.take(eager)
        self.compared = None if clean else masks(self.exact, eager)[0]
        if self.compared is not None:
            self.exact = torch.where(self.compared, self.exact, 0.0)
        self.spacing = spacing(self.exact, self.dtype).to(torch.float64)
        self._squares: torch.Tensor | None = None  # of what draws moved, by element: their sum
        self._draws = 0
        self._honest = [eager, self.exact.to(self.dtype)]
        self.null = Found()
        self._prepare()
        some = self.exact[:: max(1, self.exact.numel() // 4096)]
        self.various = int(some.abs().unique().numel()) * 4 >= some.numel()

    @property
    def factors(self) -> Factors:
        return NARROW if self.dtype.itemsize <= 2 else WIDE

    def bytes(self) -> int:
        """What it keeps."""
        drawn = () if self._squares is None else (self._squares, self.wide_v)
        return sum(t.numel() * t.element_size() for t in (self.exact, self.spacing, self.v, *drawn, *self._honest))

    def learn(self, replays: Sequence[torch.Tensor], null: Sequence[torch.Tensor]) -> None:
        """Adds draws (fp64, as `view` takes them): the first to the noise of each element, the others to what is known to be honest."""
        self._squares = torch.zeros_like(self.exact) if self._squares is None else self._squares
        for replay in replays:
            moved = replay - self.exact
            self._squares += torch.nan_to_num_(moved.square_(), 0.0, 0.0, 0.0)
            self._draws += 1
        self._honest += [draw.to(self.dtype) for draw in null]
        self._prepare()

    def _prepare(self) -> None:
        """v, and for the largest error one that a neighbourhood has part in: of a few draws some hardly move an element that the next one will."""
        rounded = self.spacing.square().div_(12).add_(_FLUSHED.get(self.dtype, 0.0) ** 2)
        tiny = torch.finfo(torch.float64).tiny
        if self._squares is None:  # nothing has moved, nor has a neighbour
            self.v = self.wide_v = rounded.sqrt_().clamp_min_(tiny)
        else:
            moved = self._squares / max(1, self._draws)
            near = _runs(moved).mean(-1)
            near = near.repeat_interleave(_RUN)[: moved.numel()] if near.numel() > 1 else near.expand(moved.numel())
            # Where no draw moved the element (a ReLU's zeros), the next one may, by what moves its neighbours.
            still = moved == 0
            self.v = (rounded + torch.where(still, near, moved)).sqrt_().clamp_min_(tiny)
            self.wide_v = (rounded + torch.where(still, near, moved + near / 4)).sqrt_().clamp_min_(tiny)
        # Only 16 bits are asked for a bias.
        self._between = float(self._not_last().mean()) if self.dtype.itemsize <= 2 and self.v.numel() else 0.0
        self.null = Found()
        for draw in self._honest:
            self.null = self.measure(draw).larger(self.null)

    def errors(self, values: torch.Tensor) -> Small | None:
        """Of an output of a few numbers. None of more of them, or where one cannot be compared."""
        if self.exact.numel() >= FEWEST or (self.compared is not None and not bool(self.compared.all())):
            return None
        scale = torch.where(self.exact < 0, -self.v, self.v)
        z = [((draw.to(torch.float64) - self.exact) / scale).clamp(-_CLAMP, _CLAMP) for draw in (values, *self._honest)]
        return Small(z[0], torch.stack(z[1:]), self._not_last())

    def _not_last(self) -> torch.Tensor:
        """The share of v² that is not the last rounding's, by element."""
        return (1 - self.spacing.square() / (12 * self.v.square())).clamp_min_(0)

    def measure(self, values: torch.Tensor) -> Found:
        """The statistics of what `view` takes of a candidate, or of a draw in the output's dtype."""
        found = Found()
        error = values.to(torch.float64) - self.exact
        if self.compared is not None:
            error = torch.where(self.compared, error, 0.0)
        error = error.nan_to_num_(math.inf, math.inf, -math.inf)
        over = error / self.v
        largest = (over if self.wide_v is self.v else error / self.wide_v).abs().max()
        z = over.to(torch.float32)
        scalars: dict[str, torch.Tensor] = {"largest": largest}
        if z.numel() >= FEWEST:
            ranked = _at_ranks(z[:: max(1, z.numel() // _RANKED)].abs(), _QUANTILES)
            scalars |= {f"{100 * q:g} %": value for q, value in zip(_QUANTILES, ranked, strict=True)}
        squares = z.clamp(-_CLAMP, _CLAMP).square()
        scalars["whole"] = squares.mean().sqrt()
        for name, parts in self._parts(squares):
            sums, _ = parts.sort()
            for place in _PLACES:
                scalars[f"{name}, {100 * place:g} %"] = sums[min(sums.numel() - 1, int(place * sums.numel()))].sqrt()
        if self.dtype.itemsize <= 2:
            self._biases(z, scalars, found)
        self._lattice(values, scalars, found)
        told = torch.stack([s.to(torch.float64) for s in scalars.values()]).tolist()
        found.values = dict(zip(scalars, told, strict=True))
        return found

    def _parts(self, squares: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        """Means over the rows, the runs of 64, and each index of each dim."""
        shape, count = self.view.shape, squares.numel()
        found: list[tuple[str, torch.Tensor]] = []
        sizes = [n for n in shape if n > 1]
        if len(sizes) < 1 or count < 2 * _PART:
            return found
        shaped = squares.view(sizes)
        for dim, size in enumerate(sizes):
            if len(sizes) > 1 and count // size >= _PART:
                found.append((f"index of dim {dim - len(sizes)}", shaped.mean([d for d in range(len(sizes)) if d != dim])))
        if len(sizes) > 2 and sizes[-1] >= _PART:
            found.append(("row", shaped.mean(-1).view(-1)))
        if count >= 2 * _RUN:
            found.append(("run of 64", squares[: count // _RUN * _RUN].view(-1, _RUN).mean(-1)))
        return found

    def _biases(self, z: torch.Tensor, scalars: dict[str, torch.Tensor], found: Found) -> None:
        if z.numel() < _FEWEST_BIASED:
            return
        z = z.clamp(-_BIAS_CLAMP, _BIAS_CLAMP)
        towards = z * self.exact.sign().to(z.dtype)
        sizes = [n for n in self.view.shape if n > 1]
        for name, values in (("bias", z), ("bias of the size", towards)):
            scalars[name] = values.mean().abs()
            found.sizes[name] = (values.numel(), 1)
            for dim, size in enumerate(sizes):
                n = values.numel() // size
                if len(sizes) > 1 and n >= _FEWEST_BIASED:
                    key = f"{name}, index of dim {dim - len(sizes)}"
                    scalars[key] = values.view(sizes).mean([d for d in range(len(sizes)) if d != dim]).abs().max()
                    found.sizes[key] = (n, size)

    def _lattice(self, values: torch.Tensor, scalars: dict[str, torch.Tensor], found: Found) -> None:
        """The share of elements whose last bits are zero, which rounding to a coarser format leaves."""
        bits = _BITS.get(self.dtype.itemsize)
        if bits is None or values.numel() < FEWEST:
            return
        words = values.contiguous().view(torch.int16 if self.dtype.itemsize == 2 else torch.int32)
        if not values.is_cuda and all_finite(values):  # those that are not zero have no more to show, and what is counted needs no mask
            alive = values.count_nonzero()
            ends = {t: alive - (words & ((1 << t) - 1)).count_nonzero() for t in bits}
        else:
            other = (values != 0) & torch.isfinite(values)
            alive = other.sum()
            ends = {t: (((words & ((1 << t) - 1)) == 0) & other).sum() for t in bits}
        for t, count in ends.items():
            name = f"{t} bits of zeros"
            scalars[name] = count / alive.clamp_min(1)
            found.sizes[name] = (values.numel(), 1)

    def judge(self, found: Found) -> tuple[float, str]:
        """(the largest statistic over its limit, its name)."""
        worst, name = 0.0, ""
        for key, value in found.values.items():
            limit = self._limit(key, found)
            ratio = 0.0 if limit is None else value / limit if limit > 0 else (math.inf if value > 0 else 0.0)
            if not ratio <= worst:
                worst, name = ratio if ratio == ratio else math.inf, key
        return worst, name

    def _limit(self, key: str, found: Found) -> float | None:
        null, factors = self.null.values.get(key, 0.0), self.factors
        if key == "largest":
            return factors.largest * max(null, 1.5)
        if key.startswith("bias"):
            if not self.various:
                return None
            n, parts = found.sizes[key]
            return 1.5 * (null + _LEAN_BETWEEN * self._between + (3 + math.sqrt(2 * math.log(max(1, parts)))) / math.sqrt(n))
        if key.endswith("of zeros"):
            if not self.various:
                return None
            n, _ = found.sizes[key]
            return null + (0.03 if self.dtype.itemsize <= 2 else 0.2) + 4 * math.sqrt(null * (1 - null) / n)
        if key[0].isdigit():
            return factors.quantile * max(null, 0.25)
        return factors.part * max(null, 0.5)


def needs_noise(errors: torch.Tensor) -> bool:
    """Whether correct rounding alone does not explain them."""
    return bool((errors.abs() > _HALF_UNIT).any())


def _beyond(errors: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """By how much they are larger than those of correct rounding, with their sign: next to nothing where honest noise makes the other number of a tie."""
    return errors.sign() * (errors.abs() - rounded.abs()).clamp_min(0)


def _at_ranks(values: torch.Tensor, shares: Sequence[float]) -> list[torch.Tensor]:
    """What lies at these shares, which rise, of the values by their size; a NaN is the largest. On a CPU without sorting what lies below."""
    count = values.numel()
    places = [min(count - 1, int(share * count)) for share in shares]
    if values.is_cuda or count < _SORTED:
        ranked, _ = values.sort()
        return [ranked[place] for place in places]
    found = []
    for place in places:
        values = values.topk(count - place, sorted=False).values
        found.append(values.kthvalue(1).values)
    return found


def _rms(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean(-1).sqrt()


def _runs(values: torch.Tensor) -> torch.Tensor:
    """[runs, 64]; the last one is filled up with what it ends with."""
    count = values.numel()
    if count <= _RUN:
        return values.view(1, -1)
    missing = -count % _RUN
    return (torch.cat([values, values[-missing:]]) if missing else values).view(-1, _RUN)
