"""Large tensors of a GPU in one file beside a pickle of their module.

torch.save() brings one storage after the other to the host, into memory that it takes for it, and behind that to the disk, with a checksum:
1.2 GB a second. Here they travel through pinned memory in pieces, several at once, and who reads the file maps it: processes that read the same
weights share them, and nothing is read twice before it goes to the GPU.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy
import torch

LARGE = 1 << 20  # bytes of a storage that is worth a place of its own
_PIECE = 1 << 24
_AT_ONCE = 8


class Writer:
    """Gives storages their places in the file while a module is pickled, and writes them there afterwards. Holds them until then."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[torch.UntypedStorage, int]] = {}
        self._end = 0

    def place(self, storage: torch.UntypedStorage) -> int:
        """Where in the file its bytes begin."""
        known = self._places.get(storage._cdata)
        if known is None:
            known = self._places[storage._cdata] = (storage, self._end)
            self._end += -(-storage.nbytes() // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        return known[1]

    def write(self, path: Path) -> None:
        """Writes the file, or none where nothing has a place. Raises OSError."""
        path.unlink(missing_ok=True)  # never over one that another process maps
        if not self._places:
            return
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.truncate(file, self._end)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                staged = [_Stage() for _ in range(_AT_ONCE)]
                under_way: list[Future[None] | None] = [None] * _AT_ONCE
                pieces = ((storage, place, at) for storage, place in self._places.values() for at in range(0, storage.nbytes(), _PIECE))
                for number, (storage, place, at) in enumerate(pieces):
                    slot = number % _AT_ONCE
                    if (before := under_way[slot]) is not None:
                        before.result()
                    staged[slot].take(storage, at)
                    under_way[slot] = pool.submit(staged[slot].write, file, place + at)
                for last in under_way:
                    if last is not None:
                        last.result()
        finally:
            os.close(file)


class _Stage:
    """A piece on its way through the host's memory."""

    def __init__(self) -> None:
        self._memory = torch.empty(_PIECE, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        self._size = 0
        self._there: torch.cuda.Event | None = None

    def take(self, storage: torch.UntypedStorage, at: int) -> None:
        self._size = min(_PIECE, storage.nbytes() - at)
        piece = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, at, (self._size,), (1,))  # type: ignore[call-overload]
        self._memory[: self._size].copy_(piece, non_blocking=True)
        if storage.device.type == "cuda":
            self._there = torch.cuda.Event()
            self._there.record(torch.cuda.current_stream(storage.device))

    def write(self, file: int, at: int) -> None:
        if self._there is not None:
            self._there.synchronize()
        left = memoryview(self._memory.numpy().data)[: self._size]
        while left:
            written = os.pwrite(file, left, at)
            left, at = left[written:], at + written


_writer: ContextVar[Writer | None] = ContextVar("_writer", default=None)
_read: ContextVar[tuple[Path, dict[int, torch.UntypedStorage]] | None] = ContextVar("_read", default=None)


@contextmanager
def collected(path: Path | None) -> Iterator[None]:
    """Large tensors of a GPU that are pickled in the body are written to `path` behind it, where there is one."""
    writer = Writer() if path is not None else None
    token = _writer.set(writer)
    try:
        yield
    finally:
        _writer.reset(token)
    if writer is not None and path is not None:
        writer.write(path)


@contextmanager
def read_from(path: Path) -> Iterator[None]:
    """What is unpickled in the body finds its weights in this file."""
    token = _read.set((path, {}))
    try:
        yield
    finally:
        _read.reset(token)


def digest(*paths: Path) -> str:
    """Of the files that exist: the SHA-256 of those of their pieces, several at once."""
    pieces = [(path, at) for path in paths if path.exists() for at in range(0, path.stat().st_size, _PIECE)]

    def of(piece: tuple[Path, int]) -> bytes:
        with piece[0].open("rb") as file:
            file.seek(piece[1])
            return hashlib.sha256(file.read(_PIECE)).digest()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return hashlib.sha256(b"".join(pool.map(of, pieces))).hexdigest()


def takes(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory is written by itself. On the CPU it is not: mapped from a file, weights would not lie in the pages that they have
    in the user's process, which is what is timed."""
    return tensor.is_cuda and tensor.untyped_storage().nbytes() >= LARGE


def reduced(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """How a plain tensor is pickled; None where that is pickle's own business."""
    writer = _writer.get()
    if writer is None or tensor.layout is not torch.strided or tensor.requires_grad or tensor.is_quantized or vars(tensor):
        return None
    if tensor.is_conj() or tensor.is_neg() or not takes(tensor):
        return None
    storage = tensor.untyped_storage()
    about = (writer.place(storage), storage.nbytes(), tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
    return _mapped, about


def _mapped(place: int, size: int, dtype: torch.dtype, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """Called by pickle: the tensor on the CPU, over the file's pages, which stay the file's until they are written to."""
    reading = _read.get()
    if reading is None:
        raise RuntimeError("its weights lie in a file that is not known here")
    path, storages = reading
    if place not in storages:
        storages[place] = torch.from_numpy(numpy.memmap(path, dtype=numpy.uint8, mode="c", offset=place, shape=(size,))).untyped_storage()
    return torch.empty(0, dtype=dtype).set_(storages[place], offset, shape, stride)  # type: ignore[call-overload,no-any-return]
