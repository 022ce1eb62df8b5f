"""Between which whole numbers the elements of a graph's integer tensors lie, whatever is put in."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from planish.capture.known_values import KnownValues

_aten = torch.ops.aten
Range = tuple[int | None, int | None]
_ANY: Range = (None, None)

#: Which give elements of their first argument, or of a list of tensors, and no others.
_SAME = frozenset(
    getattr(_aten, name)
    for name in """view reshape expand permute transpose t unsqueeze squeeze slice select clone detach alias flatten contiguous gather index index_select
    cat stack repeat _unsafe_view amax amin flip roll unfold split chunk unbind lift_fresh_copy""".split()
)
_PLACES_BEHIND = frozenset({_aten.topk, _aten.sort, _aten.max, _aten.min, _aten.kthvalue, _aten.mode, _aten.median})  # that give values, then places
_PLACES = frozenset({_aten.argmax, _aten.argmin, _aten.argsort})
_TRUTHS = frozenset(getattr(_aten, name) for name in "eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf".split())


class Ranges:
    """Asked node by node; what it does not know may be anything."""

    def __init__(self, known: KnownValues) -> None:
        self._known, self._found = known, dict[fx.Node, Range]()

    def of(self, node: fx.Node) -> Range:
        if node not in self._found:
            self._found[node] = _ANY
            self._found[node] = self._within_type(node, self._look(node))
        return self._found[node]

    def _look(self, node: fx.Node) -> Range:
        value = self._known.value(node)
        if value is not None and value.numel() and not value.is_floating_point():
            return int(value.min()), int(value.max())
        if node.op != "call_function":
            return _ANY
        args: Any = node.args
        if node.target is operator.getitem:
            source = args[0]
            if _packet(source) in _PLACES_BEHIND and args[1] == 1:
                return 0, self._length(source) - 1
            return self.of(source) if _packet(source) in _SAME else _ANY
        packet = _packet(node)
        if packet in _PLACES:
            whole = len(args) < 2 or args[1] is None
            return 0, (args[0].meta["val"].numel() if whole and packet is not _aten.argsort else self._length(node)) - 1
        if packet in _TRUTHS:
            return 0, 1
        if packet in _SAME:
            return self._united([args[0]] if isinstance(args[0], fx.Node) else list(args[0]))
        rule = _RULES.get(packet)
        return rule(self, node) if rule is not None else _ANY

    def _length(self, node: Any) -> int:
        """Of the dim along which the operator, with (self, …, dim, …) for its arguments, looks."""
        schema = [a.name for a in node.target._schema.arguments]
        at = schema.index("dim")
        dim = node.args[at] if at < len(node.args) else node.kwargs.get("dim", -1)
        shape = node.args[0].meta["val"].shape
        return int(shape[dim]) if len(shape) else 1

    def _united(self, nodes: list[Any]) -> Range:
        found = [self.of(n) if isinstance(n, fx.Node) else (n, n) if isinstance(n, int) else _ANY for n in nodes]
        lows, highs = [low for low, _ in found if low is not None], [high for _, high in found if high is not None]
        return (min(lows) if len(lows) == len(found) else None), (max(highs) if len(highs) == len(found) else None)

    @staticmethod
    def _within_type(node: fx.Node, found: Range) -> Range:
        """A cast that could not hold the numbers gives others."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
            return found if not isinstance(value, torch.Tensor) else _ANY
        if value.dtype == torch.bool:
            return 0, 1
        least, most = torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max
        if any(end is not None and not least <= end <= most for end in found):
            return _ANY
        return found


def _packet(node: Any) -> Any:
    return getattr(node.target, "overloadpacket", None) if isinstance(node, fx.Node) else None


def _number(node: fx.Node, at: int, name: str) -> Any:
    return node.args[at] if at < len(node.args) else node.kwargs.get(name)


def _remainder(_: Ranges, node: fx.Node) -> Range:
    by = node.args[1]
    return (0, by - 1) if isinstance(by, int) and by > 0 and not node.args[0].meta["val"].is_floating_point() else _ANY  # type: ignore[union-attr]


def _masked(ranges: Ranges, node: fx.Node) -> Range:
    sides = [ranges.of(a) if isinstance(a, fx.Node) else (a, a) for a in node.args[:2]]
    most = [high for low, high in sides if isinstance(low, int) and low >= 0 and isinstance(high, int)]
    return (0, min(most)) if most else _ANY


def _clamped(ranges: Ranges, node: fx.Node) -> Range:
    if node.target is not _aten.clamp.default:
        return _ANY
    low, high = ranges.of(node.args[0])  # type: ignore[arg-type]
    least, most = _number(node, 1, "min"), _number(node, 2, "max")
    if isinstance(least, int):
        low, high = max(least, low) if low is not None else least, None if high is None else max(least, high)
    if isinstance(most, int):
        low, high = None if low is None else min(low, most), min(most, high) if high is not None else most
    return low, high


def _cast(ranges: Ranges, node: fx.Node) -> Range:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return _ANY if source.meta["val"].is_floating_point() else ranges.of(source)


def _shifted(ranges: Ranges, node: fx.Node) -> Range:
    low, high = ranges.of(node.args[0])  # type: ignore[arg-type]
    by = node.args[1]
    return (low >> by, high >> by) if isinstance(by, int) and 0 <= by < 32 and low is not None and high is not None and low >= 0 else _ANY


def _divided(ranges: Ranges, node: fx.Node) -> Range:
    low, high = ranges.of(node.args[0])  # type: ignore[arg-type]
    by, how = node.args[1], _number(node, 2, "rounding_mode")
    whole = how in ("floor", "trunc") or _packet(node) is _aten.floor_divide
    return (low // by, high // by) if whole and isinstance(by, int) and by > 0 and low is not None and high is not None and low >= 0 else _ANY


def _summed(ranges: Ranges, node: fx.Node) -> Range:
    a, b = (ranges.of(x) if isinstance(x, fx.Node) else (x, x) if isinstance(x, int) else _ANY for x in node.args[:2])
    if node.kwargs.get("alpha", 1) != 1:
        return _ANY
    sign = 1 if _packet(node) is _aten.add else -1
    b = b if sign == 1 else (None if b[1] is None else -b[1], None if b[0] is None else -b[0])
    return (None if a[0] is None or b[0] is None else a[0] + b[0]), (None if a[1] is None or b[1] is None else a[1] + b[1])


def _chosen(ranges: Ranges, node: fx.Node) -> Range:
    return ranges._united(list(node.args[1:3]))


def _searched(_: Ranges, node: fx.Node) -> Range:
    ends = node.args[0] if _packet(node) is _aten.searchsorted else node.args[1]
    return (0, int(ends.meta["val"].shape[-1])) if isinstance(ends, fx.Node) else _ANY


_RULES: dict[Any, Callable[[Ranges, fx.Node], Range]] = {
    _aten.remainder: _remainder,
    _aten.bitwise_and: _masked,
    _aten.clamp: _clamped,
    _aten._to_copy: _cast,
    _aten.bitwise_right_shift: _shifted,
    _aten.__rshift__: _shifted,
    _aten.div: _divided,
    _aten.floor_divide: _divided,
    _aten.add: _summed,
    _aten.sub: _summed,
    _aten.where: _chosen,
    _aten.searchsorted: _searched,
    _aten.bucketize: _searched,
}
