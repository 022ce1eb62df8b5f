"""Data to test on: the task's own, and regimes that leave its usual values without leaving its domain.

Integers, booleans and floats of few values (masks, labels) always come from the task's own generator. Parameters and float
buffers are redrawn around what they are, so that a zero-initialised branch cannot hide; what is positive stays positive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch

from planish import float8
from planish.capture.arguments import values_read
from planish.capture.packed_attention import ATTENTION
from planish.oracle.interpret import Captured, op_name
from planish.oracle.masks import Mask
from planish.oracle.sample import FEW, has_few_values, sample

REGIMES = ("task", "normal", "uniform", "wide", "offset", "sparse", "rows", "large", "labels", "no_labels", "special", "infinite", "integers", "masks")
#: Those with NaN and Inf among the inputs.
NONFINITE = ("special", "infinite")
#: What is not finite there may be the task's own answer: an empty row over its norm, a mean of no labels.
UNDEFINED = ("rows", "large", "labels", "no_labels", "masks", *NONFINITE)
#: The argument of an operator that holds the segment of each element.
_SEGMENTS = {"scatter_add": "index", "index_add": "index", "scatter_reduce": "index", "index_put": "indices"}
#: Of integers that say where groups end (label_inputs()).
ENDS = "ends"


@dataclass(frozen=True)
class Offsets:
    """Of integers that say where sequences begin and, the last one, end: how long one may be."""

    most: int


Label = int | str | Offsets | None
_KEPT = {"view", "reshape", "_to_copy", "squeeze", "unsqueeze", "expand", "clone", "alias", "detach", "contiguous"}
_PIECE = 1 << 25


@dataclass(frozen=True)
class Profile:
    """What is known of one graph input's values."""

    redraw: bool  # a float that may take any value of its kind
    positive: bool
    low: float
    high: float
    mean: float
    std: float
    constant: bool
    zeros: float = 0.0  # their share of a sample


#: Of a parameter whose every number is larger: the gate that it opens or closes hides what is behind.
GATE = 3.0


def profile(tensor: torch.Tensor, positive: bool = False) -> Profile:
    """Looks at the values (a sample of large tensors decides whether they are few)."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return Profile(False, False, 0, 0, 0, 0, False)
    tensor = float8.computable(tensor)
    some = sample(tensor).double()
    if not bool(torch.isfinite(some).all()):
        return Profile(False, False, 0, 0, 0, 0, False)
    low, high = float(tensor.min()), float(tensor.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return Profile(False, False, 0, 0, 0, 0, False)
    constant = low == high
    few = not constant and tensor.numel() >= 4 * FEW and has_few_values(some)
    zeros = float((some == 0).double().mean())
    return Profile(not few, positive or low > 0, low, high, float(some.mean()), float(some.std(correction=0)), constant, zeros)


def variances(captured: Captured) -> set[int]:
    """Values that some batch norm reads as a variance: they must stay positive."""
    found: set[int] = set()
    for node in captured.graph["nodes"]:
        for arg in node["args"]:
            if arg.get("name") in ("running_var", "var", "save_var") and "value" in arg:
                found.add(arg["value"])
    return found


def label_inputs(captured: Captured) -> dict[int, Label]:
    """User inputs of integers that are labels, of which one value means none (they are compared with a constant, which decides whether they or
    something else are used), with that value; or the segments of a sum (None); or the ends of groups (ENDS); or the offsets of sequences (Offsets)."""
    graph = captured.graph
    made = {out: node for node in graph["nodes"] for out in node["outs"] if out is not None}
    users = {i["value"] for i in graph["inputs"] if i["kind"] == "user" and "i" in graph["values"][i["value"]]["dtype"]}

    def source(value: int | None) -> int | None:
        """The user input that it is, through views and casts."""
        for _ in range(8):
            if value is None or value in users:
                return value
            before = made.get(value)
            kept = before is not None and before["op"].split(".")[1] in _KEPT
            value = next((arg["value"] for arg in before["args"] if "value" in arg), None) if kept and before is not None else None
        return None

    found: dict[int, Label] = {}
    for node in graph["nodes"]:
        name, args = node["op"].split(".")[1], {arg["name"]: arg for arg in node["args"]}
        if name == "where":
            test = made.get(args["condition"].get("value", -1))
            if test is None or test["op"] not in ("aten.ne.Scalar", "aten.eq.Scalar"):
                continue
            compared = {arg["name"]: arg for arg in test["args"]}
            value, constant = source(compared["self"].get("value")), compared["other"].get("int")
            if value is not None and constant is not None and value in (source(args["self"].get("value")), source(args["other"].get("value"))):
                found[value] = int(constant)
        elif name == "_grouped_mm":
            value = source(args["offs"].get("value"))
            if value is not None:
                found[value] = ENDS
        elif name == ATTENTION:
            for offsets, most in (("cum_seq_q", "max_q"), ("cum_seq_k", "max_k")):
                value, known = source(args[offsets].get("value")), args[most].get("int")
                if value is not None and known is not None:
                    before = found.get(value)
                    found[value] = Offsets(min(known, before.most) if isinstance(before, Offsets) else known)
        elif name in _SEGMENTS and (name != "index_put" or args["accumulate"].get("bool")):
            index = args[_SEGMENTS[name]]
            for value in [source(v) for v in [index.get("value"), *index.get("values", [])]]:
                if value is not None:
                    found.setdefault(value, None)
    return found


def applies(regime: str, labels: Mapping[int, Label], integers: Mapping[int, bool], masks: Mapping[int, Mask]) -> bool:
    """Whether a task with these labels (label_inputs), integers (integers.py) and masks (masks.py) has such data. That none of many labels counts is a
    case of its own, which a tenth never is."""
    if regime in ("integers", "masks"):
        return bool(integers if regime == "integers" else masks)
    if regime == "no_labels":
        return any(isinstance(ignored, int) for ignored in labels.values())
    return regime != "labels" or bool(labels)


def no_labels(like: torch.Tensor, ignored: Label) -> torch.Tensor:
    """All of them ignored; segments and groups as they are."""
    return torch.full_like(like, ignored) if isinstance(ignored, int) else like


def draw_labels(like: torch.Tensor, ignored: Label, generator: torch.Generator) -> torch.Tensor:
    """Labels of which a tenth is ignored; segments of which all but one are empty; ends of groups of which all but one are empty, or (in every
    second set) about half; offsets of sequences likewise."""
    fresh, count = like.clone(), like.numel()
    if count == 0:
        return fresh
    if isinstance(ignored, str):
        return _draw_ends(like, generator)
    if isinstance(ignored, Offsets):
        return _draw_offsets(like, ignored.most, generator)
    if ignored is None:
        where = int(torch.randint(0, count, (), generator=generator, device=generator.device))
        return fresh.fill_(int(like.reshape(-1)[where]))
    drop = torch.empty(fresh.shape, device=generator.device).uniform_(generator=generator) < 0.1
    return fresh.masked_fill_(drop.to(fresh.device), ignored)


def _draw_ends(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Ends of as many groups, of as many rows in all."""
    last, count = int(like.reshape(-1)[-1]), like.numel()
    one, few = (int(torch.randint(0, n, (), generator=generator, device=generator.device)) for n in (count, 2))
    if few == 0:  # all rows are in one group
        return (torch.arange(count, device=like.device) >= one).to(like.dtype).mul_(last).reshape(like.shape)
    places = torch.randint(0, last + 1, (count,), generator=generator, device=generator.device)
    places = torch.where(torch.arange(count, device=places.device) % 2 == one % 2, places, 0)  # the others end where the one before does
    ends = places.sort().values
    ends[-1] = last
    return ends.to(like.dtype).to(like.device).reshape(like.shape)


def _draw_offsets(like: torch.Tensor, most: int, generator: torch.Generator) -> torch.Tensor:
    """Offsets of as many sequences, of as many tokens in all and none longer than `most`: in every second set as many as can be are empty, else about half
    are as short as the others let them."""

    def below(n: int) -> int:
        return int(torch.randint(0, n, (), generator=generator, device=generator.device))

    offsets = [int(n) for n in like.tolist()]
    count, left = len(offsets) - 1, offsets[-1] - offsets[0]
    if left > count * most or any(b - a > most or b < a for a, b in pairwise(offsets)):
        return like.clone()  # whoever made them knows better
    lengths, few = [0] * count, below(2) == 0
    order = torch.randperm(count, generator=generator, device=generator.device).tolist()
    for turn, n in enumerate(order):
        low, high = max(0, left - (count - turn - 1) * most), min(most, left)
        lengths[n] = high if few else low if turn % 2 else low + below(high - low + 1)
        left -= lengths[n]
    fresh = torch.tensor([offsets[0], *lengths], device=like.device).cumsum(0)
    return torch.empty_like(like).copy_(fresh)


def bounded_domain(captured: Captured) -> bool:
    """Some operation asserts that its input is a probability (on a GPU the assertion kills the process): stay in the observed range."""
    return any(op_name(n) == "binary_cross_entropy" for n in captured.nodes)


def fragile_indices(captured: Captured) -> bool:
    """Some index is computed from floats by a cast: other data than the task's own could index out of bounds."""
    graph = captured.graph
    cast: set[int] = set()
    indexing = {"embedding", "gather", "index", "index_select", "index_put", "scatter", "scatter_add", "scatter_reduce", "take", "_unsafe_index"}
    for node in graph["nodes"]:
        name = node["op"].split(".")[1]
        reads = values_read(node)
        outs = [o for o in node["outs"] if o is not None]
        if name in indexing and any(v in cast and "i" in graph["values"][v]["dtype"] for v in reads):
            return True
        floats = any(graph["values"][v]["dtype"] in ("f64", "f32", "f16", "bf16") for v in reads)
        made_here = name in ("_to_copy", "convert_element_type", "bucketize", "searchsorted") and floats
        for out in outs:
            integral = graph["values"][out]["dtype"] in ("i64", "i32", "i16", "i8", "u8")
            if integral and (made_here or any(v in cast for v in reads)):
                cast.add(out)
    return False


def redraw_parameter(tensor: torch.Tensor, known: Profile, generator: torch.Generator, regime: str = "task") -> torch.Tensor:
    """Other values of the same kind; the same tensor when its values are few or special (masks, -inf). In the regime `uniform` what is large throughout
    is about one: a sigmoid of -50, and of what is near, hides what it multiplies."""
    if not known.redraw:
        return tensor
    if regime == "uniform" and (known.low > GATE or known.high < -GATE):
        return torch.empty_like(tensor).uniform_(0.5, 1.5, generator=generator).copysign_(tensor)
    if float8.is_float8(tensor.dtype):
        return float8.stored(redraw_parameter(float8.computable(tensor), known, generator, regime), tensor.dtype)
    noise = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).normal_(generator=generator)
    if known.positive:
        return tensor.abs().clamp_min(1e-3) * noise.mul_(0.3).exp_()
    if known.constant:
        return tensor + noise.mul_(max(0.25 * abs(known.mean), 0.1))
    fresh = noise.mul_(known.std).add_(known.mean)
    return fresh.masked_fill_(tensor == 0, 0) if 0.01 < known.zeros < 0.99 else fresh


def draw_input(like: torch.Tensor, known: Profile, regime: str, generator: torch.Generator, bounded: bool, nonfinite: bool) -> torch.Tensor:
    """A user input of `like`'s shape, strides and dtype in the regime, on the generator's device. `like`, which may be a meta tensor
    otherwise, is returned when its values must stay the task's own."""
    if regime in ("task", "integers") or not known.redraw:
        return like
    if float8.is_float8(like.dtype):
        wide = torch.empty_strided(like.shape, like.stride(), dtype=torch.float32, device="meta")
        return float8.stored(draw_input(wide, known, regime, generator, bounded, nonfinite), like.dtype)
    fresh = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=generator.device)
    offset = 10.0 + 90.0 * float(torch.rand((), generator=generator, device=generator.device))
    view = fresh.as_strided((_extent(fresh),), (1,)) if fresh.numel() else fresh.reshape(-1)
    for start in range(0, view.numel(), _PIECE):
        _fill(view[start : start + _PIECE], regime, offset, generator)
    if regime == "rows":
        _structure(view, fresh, generator)
    elif regime == "infinite" and not bounded:
        _infinite(fresh)
    if bounded:
        fresh.clamp_(known.low, known.high)
    elif regime == "special" and view.numel():
        _specials(view, generator, nonfinite)
    return fresh


def _fill(piece: torch.Tensor, regime: str, offset: float, generator: torch.Generator) -> None:
    match regime:
        case "uniform":
            piece.uniform_(-1, 1, generator=generator)
        case "wide":
            piece.uniform_(-4, 4, generator=generator)
            signs = torch.randint(0, 2, piece.shape, dtype=torch.int8, device=piece.device, generator=generator)
            piece.mul_(math.log(10)).exp_().mul_(signs.mul_(2).sub_(1))
        case "offset":
            piece.normal_(generator=generator).mul_(0.5).add_(offset)
        case "large":
            piece.normal_(generator=generator).mul_(_LARGE[piece.dtype])
        case "sparse":
            keep = torch.empty(piece.shape, dtype=torch.bool, device=piece.device).bernoulli_(0.1, generator=generator)
            piece.normal_(generator=generator).mul_(keep)
        case _:
            piece.normal_(generator=generator)


def _infinite(fresh: torch.Tensor) -> None:
    """Of normal values, of every eight parts of the first dims one that is -Inf throughout, one that is Inf, and one that is -Inf but for an element;
    and one with a NaN twice in each row. The same ones of all inputs, so that what is not a number meets its like. A largest number that is sought from
    the least finite one on, a sum of exponentials below nothing but -Inf, and the first of several NaN are told apart by no other data."""
    lead = next((k for k in range(1, fresh.ndim) if math.prod(fresh.shape[:k]) >= _PARTS), 0)
    if lead == 0 or not fresh.is_contiguous() or fresh.numel() == 0:
        return
    parts = fresh.flatten(0, lead - 1).flatten(1)
    parts[0::_PARTS] = -math.inf
    parts[1::_PARTS] = math.inf
    parts[2::_PARTS, : parts.shape[1] // 2] = -math.inf
    parts[2::_PARTS, parts.shape[1] // 2 + 1 :] = -math.inf
    rows = fresh.flatten(0, lead - 1)[3::_PARTS].flatten(0, -2)
    rows[..., fresh.shape[-1] // 3] = math.nan
    rows[..., fresh.shape[-1] - 1] = math.nan


_PARTS = 8

#: Whose exponential is no number of 32 bits, and that of its opposite nothing.
_FAR = 150.0
#: Their squares are beyond the largest number, their sums are not.
_LARGE = {torch.float64: 1e160, torch.float32: 2e19, torch.bfloat16: 2e19, torch.float16: 300.0}


def _structure(view: torch.Tensor, fresh: torch.Tensor, generator: torch.Generator) -> None:
    """Of normal values, rows that are zero (of either sign), of one constant, a thousand or 16 times larger, a thousand times smaller, full of
    ties, far below zero, and with one large number at the end, and columns that are a thousand times smaller. Exponentials of 16 times normal values are
    small, and not nothing; those of a whole row far below zero are nothing, unless its largest number is taken off first; and a largest number that is
    sought everywhere but in the last elements is missed."""
    scale = 1e3 if torch.finfo(fresh.dtype).max > 1e6 else 16.0
    dense = fresh if fresh.ndim > 1 and fresh.is_contiguous() else None
    rows = dense.view(-1, fresh.shape[-1]) if dense is not None else view.view(1, -1)
    if rows.shape[0] == 1:  # of one row its parts
        width = max(1, rows.shape[1] // 8)
        rows = rows[:, : rows.shape[1] // width * width].view(-1, width)
    turn = int(torch.randint(0, 8, (), generator=generator, device=generator.device))
    kinds = (torch.arange(rows.shape[0], device=rows.device) + turn) % 8
    if rows.shape[1] > 8:
        rows[:, turn::8].mul_(1 / scale)
    grid = (rows * 4).round_().div_(4)  # rounds to -0 as well
    constant = rows[:, :1].expand_as(rows)
    larger = torch.where((torch.arange(rows.shape[0], device=rows.device) // 8 % 2 == turn % 2)[:, None], rows * scale, rows * 16.0)
    for kind, values in ((0, rows * 0.0), (1, constant), (2, larger), (3, rows / scale), (4, grid)):
        rows.copy_(torch.where((kinds == kind)[:, None], values, rows))
    rows.sub_((kinds == 5).to(rows.dtype)[:, None] * _FAR)
    rows[:, -1].masked_fill_(kinds == 6, _FAR)


def equal_rows(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """In place: every fifth row (of one dim: element) is the generator's, which is one for all inputs of this shape and dtype. Numbers of two inputs
    are never equal else, so that `>` and `>=`, or what becomes of a difference of zero, would not be told apart."""
    if tensor.ndim > 0 and tensor.is_contiguous():
        rows = tensor[::5] if tensor.ndim == 1 else tensor[..., ::5, :]
        rows.copy_(torch.empty(rows.shape, dtype=tensor.dtype, device=tensor.device).normal_(generator=generator))


def with_partner(inputs: Mapping[int, torch.Tensor]) -> set[int]:
    """Floating inputs that have another of their shape and dtype."""
    kinds = {value: (tensor.shape, tensor.dtype) for value, tensor in inputs.items() if tensor.dtype in _LARGE}
    return {value for value, kind in kinds.items() if list(kinds.values()).count(kind) > 1}


def _specials(view: torch.Tensor, generator: torch.Generator, nonfinite: bool) -> None:
    """About 1 % of ±0, denormals and large values; where the task bears it, one or two each of ±Inf and NaN."""
    count = view.numel()
    info = torch.finfo(view.dtype)
    values = [0.0, -0.0, info.smallest_normal / 4, -info.smallest_normal / 4, 100.0, -100.0, 1e4 if info.max > 1e6 else 1e2]
    for value in values:
        where = torch.randint(0, count, (max(1, min(count // 700, 1 << 16)),), generator=generator, device=view.device)
        view[where] = value
    if nonfinite:
        where = torch.randint(0, count, (3,), generator=generator, device=view.device)
        view[where] = torch.tensor([math.inf, -math.inf, math.nan], dtype=view.dtype, device=view.device)


def _extent(tensor: torch.Tensor) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
