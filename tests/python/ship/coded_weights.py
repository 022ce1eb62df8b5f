"""Weights in codes as quantising libraries keep them: a class of tensors that holds others, by torch's protocol for such classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

aten = torch.ops.aten


class Coded(Tensor):
    """A matrix as int8 codes with a scale a row; products with it, as `nn.Linear` has them, take it apart."""

    @staticmethod
    def __new__(cls, codes: Tensor, scale: Tensor, offset: int = 0) -> Coded:
        return Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype, device=codes.device)  # type: ignore[attr-defined, no-any-return]

    def __init__(self, codes: Tensor, scale: Tensor, offset: int = 0) -> None:
        self.codes, self.scale, self.offset = codes, scale, offset

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["codes", "scale"], (self.offset,)

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, Tensor], context: Any, size: Any, stride: Any) -> Coded:
        return cls(inner["codes"], inner["scale"], *context)

    def wide(self) -> Tensor:
        return (self.codes.to(self.dtype) - self.offset) * self.scale

    @classmethod
    def of(cls, weight: Tensor, offset: int = 0) -> Coded:
        scale = weight.detach().abs().amax(1, keepdim=True) / 100
        return cls((weight.detach() / scale).round().to(torch.int8) + offset, scale, offset)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (aten.detach.default, aten.clone.default, aten.alias.default, aten._to_copy.default):
            codes = func(args[0].codes)
            return cls(codes, func(args[0].scale), args[0].offset)
        if func is aten.mul_.Tensor:
            args[0].scale.mul_(args[1])
            return args[0]
        if func in (aten.mul.Tensor, aten.copy_.default) and isinstance(args[0], cls) and not isinstance(args[1], cls) and args[1] is not None:
            return cls(args[0].codes, args[0].scale * args[1], args[0].offset)
        return func(*pytree.tree_map_only(cls, cls.wide, args), **(kwargs or {}))


class Nested(Coded):
    """The same with a scale that is in codes itself."""

    @classmethod
    def of(cls, weight: Tensor, offset: int = 0) -> Nested:
        plain = Coded.of(weight, offset)
        return cls(plain.codes, Coded.of(plain.scale), offset)

    def wide(self) -> Tensor:
        return (self.codes.to(self.dtype) - self.offset) * self.scale.wide()  # type: ignore[attr-defined]


def in_codes(model: nn.Module, kind: type[Coded] = Coded, offset: int = 0) -> nn.Module:
    """Every linear layer's weight in codes."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight = nn.Parameter(kind.of(layer.weight, offset), requires_grad=False)
    return model
