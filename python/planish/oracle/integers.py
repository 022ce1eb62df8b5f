"""Integers and truths that only meet arithmetic: they may be others than the task's own generator gives, which says nothing of what is no index.

A sum in 16 bits, a remainder with the sign of another, a comparison of equal numbers are right for the small positive numbers that `randint` gives, and
for no others. What chooses elements (an index, a length, a mask of floats) has a domain that nobody declares, and stays the generator's.
"""

from __future__ import annotations

from typing import Any

import torch

from planish.capture.arguments import values_read
from planish.oracle.interpret import Captured

_SHAPED = {
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice", "select", "clone", "alias", "detach", "cat",
    "stack", "flip", "roll", "repeat", "constant_pad_nd", "split", "split_with_sizes", "chunk", "unbind", "contiguous", "_to_copy", "tril", "triu",
}  # fmt: skip
_ELEMENTWISE = {
    "add", "sub", "rsub", "mul", "neg", "abs", "sign", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "logical_and", "logical_or", "logical_xor",
    "logical_not", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "where", "eq", "ne", "lt", "le", "gt", "ge", "__and__", "__or__", "__xor__",
}  # fmt: skip
_REDUCING = {
    "sum",
    "prod",
    "amax",
    "amin",
    "max",
    "min",
    "any",
    "all",
    "cumsum",
    "argmax",
    "argmin",
    "sort",
    "argsort",
    "topk",
    "mm",
    "bmm",
    "matmul",
    "_int_mm",
}
#: Whose other operand must be a number: a divisor may not be zero, a shift has a range.
_BY_A_NUMBER = {"div", "floor_divide", "remainder", "fmod", "__rshift__", "__lshift__", "bitwise_right_shift", "bitwise_left_shift"}
#: Of floats and integers together: the integer is a number among others, and no choice.
_MIXED = {"add", "sub", "rsub", "mul", "_to_copy"}
_POSITIONS = {"argmax", "argmin", "argsort"}

#: Of draws from all numbers of a type, kinds of rows.
_KINDS = 6


def arithmetic(captured: Captured) -> dict[int, bool]:
    """User inputs of integers or truths of which nothing but arithmetic is made, and whether any number of their type will do: where they become floats,
    only those between the least and the greatest of the generator's, but for 8 bits."""
    values = captured.graph["values"]
    found: dict[int, bool] = {}
    for item in captured.graph["inputs"]:
        value = item["value"]
        if item["kind"] == "user" and _is_whole(values[value]["dtype"]) and len(values[value]["shape"]) > 0:
            floats = _follow(captured, value, {i["value"] for i in captured.graph["inputs"] if i["kind"] == "user"})
            if floats is not None and not (floats and values[value]["dtype"] == "bool"):
                found[value] = not floats or values[value]["dtype"] in ("i8", "u8")
    return found


def _is_whole(dtype: str) -> bool:
    return dtype in ("i64", "i32", "i16", "i8", "u8", "bool")


def _follow(captured: Captured, value: int, users: set[int]) -> bool | None:
    """Whether what comes of it becomes floats; None where more than arithmetic is made of it."""
    values = captured.graph["values"]
    derived, floats = {value}, False
    for node in captured.graph["nodes"]:
        reads = set(values_read(node))
        if not reads & derived:
            continue
        name = node["op"].split(".")[1]
        outs = [o for o in node["outs"] if o is not None]
        becomes = any(not _is_whole(values[v]["dtype"]) for v in (*reads, *outs))
        if name in _BY_A_NUMBER:
            args: dict[str, Any] = {arg["name"]: arg for arg in node["args"]}
            if "int" not in args.get("other", {}) or args["other"]["int"] == 0 or becomes:
                return None
        elif name not in _SHAPED | _ELEMENTWISE | _REDUCING or (becomes and name not in _MIXED):
            return None
        if becomes:
            if any(values[v]["dtype"] == "bool" for v in reads & derived):
                return None
            floats = True
            continue
        # Beside a tensor that the program makes (positions, edges) it is a length, or a label.
        if name in _ELEMENTWISE and not all(values[v]["shape"] == [] or _comes_of(captured, v, users) for v in reads - derived):
            return None
        if name not in _POSITIONS:
            derived.update(o for i, o in enumerate(outs) if not (name in ("sort", "topk", "max", "min") and i == 1))
    return floats


def _comes_of(captured: Captured, value: int, users: set[int]) -> bool:
    """Whether a value is computed from a user input."""
    made = {o: node for node in captured.graph["nodes"] for o in node["outs"] if o is not None}
    ahead, seen = [value], set()
    while ahead:
        at = ahead.pop()
        if at in users:
            return True
        if at in made and at not in seen:
            seen.add(at)
            ahead.extend(values_read(made[at]))
    return False


def draw(like: torch.Tensor, whole: bool, generator: torch.Generator, common: torch.Generator) -> torch.Tensor:
    """Any numbers of the type (`whole`), or of those between the least and the greatest of `like`. `common` is one for all inputs: every fifth row is
    its, or has its neighbours, as numbers of two inputs are seldom equal or near else."""
    fresh, theirs = _rows(like, whole, generator), _rows(like, whole, common)
    if like.dtype is not torch.bool:
        beside = torch.empty_like(theirs).copy_(torch.randint(-1, 2, theirs.shape, generator=generator, device=generator.device))
        moved = theirs + beside
        inside = (moved >= int(theirs.min())) & (moved <= int(theirs.max())) & ((moved > theirs) == (beside > 0))
        theirs = torch.where(inside, moved, theirs)
    at = (..., slice(None, None, 5), slice(None)) if like.ndim > 1 else (slice(None, None, 5),)
    fresh[at] = theirs[at]
    return fresh


def _rows(like: torch.Tensor, whole: bool, generator: torch.Generator) -> torch.Tensor:
    """Rows of the least number throughout, of the greatest, of either, of few near zero, and of all of them."""
    if like.dtype is torch.bool:
        low, high = 0, 1
    elif whole:
        low, high = torch.iinfo(like.dtype).min, torch.iinfo(like.dtype).max
    else:
        low, high = int(like.min()), int(like.max())
    count = like.shape[-1] if like.ndim > 1 else max(1, like.shape[0] // 8)
    shape, device = (-(-like.numel() // count), count), generator.device
    bits = torch.randint(0, 1 << 62, shape, generator=generator, device=device)
    lowest = torch.randint(0, 4, shape, generator=generator, device=device)
    drawn = bits * 4 + lowest if like.dtype is torch.int64 and whole else bits % (high - low + 1) + low
    turn = int(torch.randint(0, _KINDS, (), generator=generator, device=device))
    kinds = ((torch.arange(shape[0], device=device) + turn) % _KINDS)[:, None]
    few = (bits % 5 - 2 + max(low, min(0, high))).clamp(low, high)
    either = torch.where(bits % 2 == 0, low, high)
    for kind, row in enumerate((torch.full_like(bits, low), torch.full_like(bits, high), either, few)):
        drawn = torch.where(kinds == kind, row, drawn)
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
    return made.copy_(drawn.reshape(-1)[: like.numel()].reshape(like.shape).to(like.dtype))
