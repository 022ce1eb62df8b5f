"""Masks: inputs of few values that say which elements count. Their generator seldom gives one that covers a whole row, or none of it.

A row of a softmax of which nothing counts, a mean of no elements, a mask that is built in because it is always the same: no other data tell these from
what the task does. Only values that the input already has are used, so that whatever reads it an element at a time stays in its domain.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch

from planish.capture.arguments import values_read
from planish.oracle.interpret import Captured
from planish.oracle.sample import FEW, sample

#: Operators that choose elements by an operand, or count by it: where a mask comes to one, it is no mask.
_CHOOSING = {
    "embedding", "gather", "index", "index_select", "index_put", "scatter", "scatter_add", "scatter_reduce", "take", "_unsafe_index", "masked_scatter",
    "masked_select", "nonzero", "index_add", "index_copy", "index_fill", "repeat_interleave", "_grouped_mm", "searchsorted", "bucketize", "one_hot",
    "nll_loss_forward", "nll_loss2d_forward", "segment_reduce", "bincount", "put", "constant_pad_nd", "_embedding_bag", "_embedding_bag_forward_only",
    "div", "remainder", "fmod", "floor_divide", "_flash_attention_forward",
}  # fmt: skip
_KINDS = 4


@dataclass(frozen=True)
class Mask:
    """The least and the greatest value that rows are covered with; None: no row is."""

    low: float
    high: float | None


def found(captured: Captured, own: Mapping[int, torch.Tensor], others: Collection[int]) -> dict[int, Mask]:
    """The user inputs that are masks, but `others`. `own` are the task's own values."""
    masks: dict[int, Mask] = {}
    for item in captured.graph["inputs"]:
        value = item["value"]
        if item["kind"] == "user" and value not in others and own[value].ndim > 0 and own[value].numel() > 0:
            mask = _mask(own[value])
            if mask is not None and not _chooses(captured, value):
                masks[value] = mask
    return masks


def _mask(tensor: torch.Tensor) -> Mask | None:
    if tensor.dtype is torch.bool:
        return Mask(0, 1)
    if tensor.dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        some = sample(tensor)
        values = some.unique()
        low, high = float(values.min()), float(values.max())
        if math.isnan(low) or low == high or tensor.numel() < 4 * FEW:
            return None
        if values.numel() <= FEW:
            return Mask(low, high)
        return Mask(low, None) if low == -math.inf else None  # beside a bias
    if not tensor.is_floating_point() and not tensor.is_complex() and tensor.ndim > 1 and int(tensor.min()) in (0, 1) and int(tensor.max()) == 1:
        return Mask(0, 1)
    return None


def _chooses(captured: Captured, value: int) -> bool:
    """Whether integers or truths that are computed from it choose elements. What becomes a float is a number among others."""
    values = captured.graph["values"]
    derived = {value}
    for node in captured.graph["nodes"]:
        reads = derived.intersection(values_read(node))
        if not reads:
            continue
        whole = any(values[v]["dtype"] not in ("f64", "f32", "f16", "bf16") for v in reads)
        if whole and node["op"].split(".")[1] in _CHOOSING:
            return True
        derived.update(o for o in node["outs"] if o is not None and values[o]["dtype"] not in ("f64", "f32", "f16", "bf16"))
    return False


def draw(like: torch.Tensor, mask: Mask, generator: torch.Generator) -> torch.Tensor:
    """Of every four rows one that is the least value throughout, and one that is the greatest; the others are `like`'s, or (of truths and of integers)
    any. What an expanded tensor repeats stays equal."""
    whole = [slice(0, 1) if step == 0 and n > 1 else slice(None) for n, step in zip(like.shape, like.stride(), strict=True)]
    fresh = like[tuple(whole)].clone()
    count = fresh.shape[-1]
    rows = fresh.numel() // count
    device = fresh.device
    turn = int(torch.randint(0, _KINDS, (), generator=generator, device=generator.device))
    kinds = ((torch.arange(rows, device=device) + turn) % _KINDS).reshape(*fresh.shape[:-1], 1)
    if not fresh.is_floating_point():
        drawn = torch.randint(0, 2, fresh.shape, generator=generator, device=generator.device).to(device)
        fresh = torch.where(kinds == _KINDS - 1, drawn.to(fresh.dtype), fresh)
    fresh = fresh.masked_fill(kinds == 0, mask.low)
    if mask.high is not None:
        fresh = fresh.masked_fill(kinds == 1, mask.high)
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
    made[tuple(whole)] = fresh
    return made
