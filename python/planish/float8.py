"""Floats of 8 bits. torch stores and converts them and computes next to nothing with them: whoever looks at their values takes them in single
precision, which holds each of them, and tells two of them apart by how many of the type's numbers lie between them."""

from __future__ import annotations

import torch

KINDS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
#: The place of a NaN, beyond all numbers.
NAN_PLACE = 512


def is_float8(dtype: torch.dtype) -> bool:
    return dtype in KINDS


def computable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a type that torch computes with; a tensor of any other dtype as it is."""
    return tensor.to(torch.float32) if tensor.dtype in KINDS else tensor


def stored(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`values` in `dtype`; of 8 bits the largest number in place of those beyond it. NaN stays."""
    if dtype not in KINDS:
        return values.to(dtype)
    most = torch.finfo(dtype).max
    return values.clamp(-most, most).to(dtype)


def settled(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is left of `values` where a program stores them in `dtype` of 8 bits, in their own dtype."""
    return values.to(dtype).to(values.dtype)


def places(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Each value's place (int16) among the numbers of `dtype`, to which it is rounded: 0 is at 0, neighbours are 1 apart."""
    codes = values.to(dtype).contiguous().view(torch.uint8).to(torch.int16)
    found = torch.where(codes >= 0x80, 0x80 - codes, codes)
    return found.masked_fill_(torch.isnan(values.to(dtype).to(torch.float32)), NAN_PLACE)
