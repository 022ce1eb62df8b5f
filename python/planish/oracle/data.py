"""One data set of a region: input and output buffers that a runner can map."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from planish import float8, rt
from planish.oracle import layout
from planish.oracle.checksum import checksum
from planish.oracle.interpret import dtype_of
from planish.oracle.measure import int_view
from planish.oracle.statistics import Pool

_NAN_BITS = {torch.float64: 0x7FF8, torch.float32: 0x7FC0, torch.float16: 0x7E00, torch.bfloat16: 0x7FC0}


@dataclass
class Slot:
    """One tensor of a data set: its buffer and the typed view on it."""

    name: str
    value: int
    buffer: rt.Buffer
    view: torch.Tensor
    poison: int | None = None

    def description(self, role: str) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": role,
            "dtype": _name_of(self.view.dtype),
            "shape": list(self.view.shape),
            "strides": list(self.view.stride()),
            "bytes": self.buffer.bytes,
            "offset": self.buffer.offset,
            "map_bytes": self.buffer.map_bytes,
            "device": "cpu" if self.buffer.device == rt.CPU else "cuda",
            "writable": role == "output",
        }


@dataclass
class DataSet:
    """Owns its buffers. `seed`, `regime` and `own_parameters` (the task's parameters are not drawn anew; a number: they
    are those of this variation) name the contents."""

    region: str
    seed: int
    regime: str
    inputs: list[Slot]
    outputs: list[Slot]
    sums: list[int] = field(default_factory=list)
    own_parameters: bool | int = False
    pools: dict[int, Pool] = field(default_factory=dict)  # of outputs of a few numbers, over all contents that it had
    redrawn: int = 0  # times that other contents took the place of the seed's own
    bytes: int = 0  # of all buffers, while it has them

    @classmethod
    def create(
        cls,
        device: torch.device,
        name: tuple[str, int, str],
        values: Sequence[dict[str, Any]],
        inputs: Sequence[int],
        outputs: Sequence[tuple[int, int]],
    ) -> DataSet:
        """`name` is (region, seed, regime), `inputs` are value ids, `outputs` (position, value id). Raises PlanishError(`out_of_memory`)."""
        made = cls(
            *name,
            [_slot(device, f"in{i}", v, values[v], True) for i, v in enumerate(inputs)],
            [_slot(device, f"out{i}", v, values[v], False) for i, v in outputs],
        )
        made.bytes = sum(slot.buffer.map_bytes for slot in (*made.inputs, *made.outputs))
        return made

    def write(self, tensors: dict[int, torch.Tensor]) -> None:
        """Fills the inputs and notes their checksums."""
        for slot in self.inputs:
            layout.copy_into(slot.view, tensors[slot.value])
        self.sums = [checksum(slot.buffer.raw()) for slot in self.inputs]

    def poison(self) -> None:
        """Overwrites the outputs with a pattern that no computation gives: a NaN with a random payload, an unlikely integer."""
        # A candidate that broke a guard must not be held against the next one.
        for slot in (*self.inputs, *self.outputs):
            slot.buffer.mend_guards()
        for slot in self.outputs:
            slot.poison = _pattern(slot.view.dtype)
            if slot.view.numel():
                size, dtype = slot.view.element_size(), slot.view.dtype
                raw = slot.buffer.raw()
                whole = dtype if dtype in (torch.int8, torch.int16, torch.int32, torch.int64) else int_view(dtype)
                words = raw[: raw.numel() // size * size].view(whole)
                words.fill_(slot.poison)
        if self.outputs and self.outputs[0].view.is_cuda:
            torch.cuda.synchronize()

    def output_digest(self) -> str:
        """Of the elements of all outputs, to the bit; not of what lies between them."""
        return ",".join(f"{checksum(as_bytes(slot.view)):016x}" for slot in self.outputs)

    def input_tensors(self) -> dict[int, torch.Tensor]:
        return {slot.value: slot.view for slot in self.inputs}

    def changed_input(self) -> str | None:
        """The name of an input whose bytes are not what was written."""
        for slot, before in zip(self.inputs, self.sums, strict=True):
            if checksum(slot.buffer.raw()) != before:
                return slot.name
        return None

    def broken_guard(self) -> str | None:
        slots = (*self.inputs, *self.outputs)
        if slots and slots[0].view.is_cuda and canaries_intact([slot.buffer for slot in slots]):
            return None
        for slot in slots:
            if not slot.buffer.guards_intact():
                return slot.name
        return None

    def fds(self) -> list[int]:
        return [slot.buffer.fd for slot in (*self.inputs, *self.outputs)]

    def descriptions(self) -> list[dict[str, Any]]:
        return [s.description("input") for s in self.inputs] + [s.description("output") for s in self.outputs]

    def free(self) -> None:
        for slot in (*self.inputs, *self.outputs):
            slot.view = torch.empty(0)
            slot.buffer.free()
        self.bytes = 0


def canaries_intact(buffers: Sequence[rt.Buffer]) -> bool:
    """Of CUDA buffers, whether nobody wrote beside them. Looked at where they lie: a mapping has at least 2 MiB, so that copying the guards
    of a network's parameters to the host takes a second, again and again."""
    extremes: dict[torch.dtype, list[torch.Tensor]] = {torch.int64: [], torch.uint8: []}
    for buffer in buffers:
        for guard in buffer.guards():
            words = guard.data_ptr() % 8 == 0 and guard.numel() % 8 == 0
            part = guard.view(torch.int64) if words else guard
            extremes[part.dtype].extend(torch.aminmax(part))
    found = [torch.stack(some) == _canary(dtype) for dtype, some in extremes.items() if some]
    return all(bool(same.all()) for same in found)


def _canary(dtype: torch.dtype) -> int:
    return int.from_bytes(bytes([rt.CANARY]) * dtype.itemsize, "little", signed=dtype.is_signed)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in the order of their indices, as contiguous uint8."""
    return tensor.reshape(-1).contiguous().view(torch.uint8)


def _slot(device: torch.device, name: str, value: int, meta: dict[str, Any], seal: bool) -> Slot:
    dtype, shape, strides = dtype_of(meta["dtype"]), meta["shape"], meta["strides"]
    # At least one element, so that an empty tensor still has an address.
    nbytes = max(rt.extent_bytes(dtype.itemsize, shape, strides), dtype.itemsize)
    buffer = rt.Buffer.create(str(device), nbytes, seal=seal)
    return Slot(name, value, buffer, buffer.tensor(dtype, shape, strides))


def _pattern(dtype: torch.dtype) -> int:
    if dtype == torch.bool:
        return 0xA5
    if float8.is_float8(dtype):
        return 0x80 if str(dtype).endswith("fnuz") else 0xFF  # a NaN
    bits = dtype.itemsize * 8
    if dtype in _NAN_BITS:
        payload = random.getrandbits(bits - 16) | 1 if bits > 16 else 0
        low = random.randrange(1, 60) if bits == 16 else 0
        return (_NAN_BITS[dtype] + low << max(0, bits - 16)) | payload
    if dtype == torch.uint8:
        return random.randrange(0x81, 0xFF)
    if not dtype.is_floating_point and not dtype.is_complex:
        return -random.randrange(1 << (bits - 2), 1 << (bits - 1))
    return 0x7F if bits == 8 else 0x7FF8A5A5A5A5A5A5 >> (64 - min(bits, 64))


def _name_of(dtype: torch.dtype) -> str:
    from planish.oracle.interpret import DTYPES

    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype).removeprefix("torch."))
