"""libplanish_rt through ctypes: devices, shared buffers, and the raw functions for whoever runs programs.

The library is found through PLANISH_RT (a file), beside this package (`planish/lib`), or in the newest `build/*/lib`
of a checkout. `Buffer` owns its memory: tensors made of it keep it alive, `free` ends it at once.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planish.errors import PlanishError

if TYPE_CHECKING:
    import torch

NAME = "libplanish_rt.so"
ABI_VERSION = 1
CPU = -1
CANARY = 0xA5  # of runtime/src/buffer.h


class Error(ctypes.Structure):
    """prt_error"""

    _fields_ = [("kind", ctypes.c_char * 32), ("message", ctypes.c_char * 2016)]


class DeviceInfo(ctypes.Structure):
    """prt_device_info"""

    _fields_ = [
        ("name", ctypes.c_char * 128),
        ("arch", ctypes.c_char * 16),
        ("uuid", ctypes.c_char * 48),
        ("sms", ctypes.c_int64),
        ("l2_bytes", ctypes.c_int64),
        ("shared_bytes_optin", ctypes.c_int64),
        ("memory_bytes", ctypes.c_int64),
        ("driver_version", ctypes.c_int64),
    ]


class KernelInfo(ctypes.Structure):
    """prt_kernel_info"""

    _fields_ = [(name, ctypes.c_int64) for name in ("registers", "local_bytes", "shared_bytes", "max_threads")]


class Timing(ctypes.Structure):
    """prt_timing"""

    _fields_ = [("runs", ctypes.c_int64)] + [(name, ctypes.c_double) for name in ("median_ms", "lo_ms", "hi_ms", "host_us")]


_PTR = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)
_ERR = ctypes.POINTER(Error)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "prt_abi_version": (ctypes.c_int, []),
    "prt_device_count": (ctypes.c_int, [ctypes.POINTER(ctypes.c_int), _ERR]),
    "prt_device_info_get": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(DeviceInfo), _ERR]),
    "prt_synchronize": (ctypes.c_int, [ctypes.c_int, _ERR]),
    "prt_buffer_create": (ctypes.c_int, [ctypes.c_int, ctypes.c_uint64, ctypes.c_int, _OUT, _ERR]),
    "prt_buffer_import": (
        ctypes.c_int,
        [ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, _OUT, _ERR],
    ),
    "prt_buffer_data": (_PTR, [_PTR]),
    "prt_buffer_fd": (ctypes.c_int, [_PTR]),
    "prt_buffer_offset": (ctypes.c_uint64, [_PTR]),
    "prt_buffer_map_bytes": (ctypes.c_uint64, [_PTR]),
    "prt_buffer_mend": (ctypes.c_int, [_PTR, _ERR]),
    "prt_buffer_guards": (ctypes.c_int, [_PTR, ctypes.POINTER(ctypes.c_int), _ERR]),
    "prt_buffer_free": (None, [_PTR]),
    "prt_program_load": (
        ctypes.c_int,
        [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, _OUT, _ERR],
    ),
    "prt_program_kernel_info": (ctypes.c_int, [_PTR, ctypes.c_int, ctypes.POINTER(KernelInfo), _ERR]),
    "prt_program_run": (
        ctypes.c_int,
        [_PTR, ctypes.POINTER(_PTR), ctypes.c_int, ctypes.c_int, ctypes.c_int, _PTR, _ERR],
    ),
    "prt_program_free": (None, [_PTR]),
    "prt_program_time": (
        ctypes.c_int,
        [
            *[_PTR, ctypes.POINTER(ctypes.POINTER(_PTR)), ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64],
            *[ctypes.c_double, ctypes.c_double, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)],
            *[ctypes.POINTER(Timing), _ERR],
        ],
    ),
}


def find_library() -> Path:
    """The library's file. Raises PlanishError(`missing_runtime`)."""
    named = os.environ.get("PLANISH_RT")
    if named:
        return Path(named)
    here = Path(__file__).resolve()
    candidates = [here.parent / "lib" / NAME]
    built = [*here.parents[2].glob(f"build/*/lib/{NAME}"), *here.parents[2].glob(f"build/lib/{NAME}")]
    candidates += sorted(built, key=lambda p: p.stat().st_mtime, reverse=True)
    for path in candidates:
        if path.exists():
            return path
    raise PlanishError("missing_runtime", f"{NAME} was not found", "run `make build`, or set PLANISH_RT to its path")


@cache
def lib() -> ctypes.CDLL:
    """The loaded library with typed functions. Raises PlanishError(`missing_runtime`)."""
    path = find_library()
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        raise PlanishError("missing_runtime", f"{path} cannot be loaded: {error}", "run `make build`") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(found, name, None)
        if function is None:
            raise PlanishError("missing_runtime", f"{path} lacks {name}", "run `make build`")
        function.restype = result
        function.argtypes = arguments
    if found.prt_abi_version() != ABI_VERSION:
        raise PlanishError("missing_runtime", f"{path} has ABI {found.prt_abi_version()}, {ABI_VERSION} is needed")
    return found


def check(code: int, error: Error) -> None:
    """Turns a failed call into PlanishError with the library's own kind."""
    if code != 0:
        raise PlanishError(error.kind.decode() or "internal", error.message.decode(errors="replace"))


def ordinal(device: str | torch.device | int) -> int:
    """-1 for the CPU, else the CUDA ordinal."""
    if isinstance(device, int):
        return device
    text = str(device)
    if text == "cpu":
        return CPU
    return int(text.partition(":")[2] or 0)


def device_count() -> int:
    """CUDA devices that the driver shows; 0 without a driver."""
    count, error = ctypes.c_int(0), Error()
    check(lib().prt_device_count(ctypes.byref(count), ctypes.byref(error)), error)
    return count.value


def device_info(device: str | torch.device | int) -> dict[str, Any]:
    """prt_device_info as a dictionary, with the C names."""
    info, error = DeviceInfo(), Error()
    check(lib().prt_device_info_get(ordinal(device), ctypes.byref(info), ctypes.byref(error)), error)
    found: dict[str, Any] = {}
    for name, *_ in DeviceInfo._fields_:
        value = getattr(info, name)
        found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found


def synchronize(device: str | torch.device | int) -> None:
    error = Error()
    check(lib().prt_synchronize(ordinal(device), ctypes.byref(error)), error)


class Buffer:
    """Memory that another process can map. Not thread-safe. `bytes` is the tensor's extent (at least 1)."""

    def __init__(self, handle: int, device: int, nbytes: int) -> None:
        self._handle: int | None = handle
        self.device = device
        self.bytes = nbytes

    @classmethod
    def create(cls, device: str | torch.device | int, nbytes: int, seal: bool = False) -> Buffer:
        """`seal`: others may map it only read-only (inputs). Raises PlanishError(`out_of_memory`) naming the bytes."""
        out, error = ctypes.c_void_p(), Error()
        where = ordinal(device)
        nbytes = max(1, nbytes)
        check(lib().prt_buffer_create(where, nbytes, int(seal), ctypes.byref(out), ctypes.byref(error)), error)
        return cls(out.value or 0, where, nbytes)

    @classmethod
    def open(cls, device: str | int, fd: int, description: dict[str, Any], writable: bool | None = None) -> Buffer:
        """Maps what a description (docs/formats/wire.md) says; takes over `fd`."""
        out, error = ctypes.c_void_p(), Error()
        where = ordinal(device)
        may_write = bool(description["writable"]) if writable is None else writable
        sizes = [int(description[name]) for name in ("bytes", "offset", "map_bytes")]
        check(lib().prt_buffer_import(where, fd, *sizes, int(may_write), ctypes.byref(out), ctypes.byref(error)), error)
        return cls(out.value or 0, where, sizes[0])

    def _live(self) -> int:
        if self._handle is None:
            raise PlanishError("internal", "the buffer was freed")
        return self._handle

    @property
    def address(self) -> int:
        return int(lib().prt_buffer_data(self._live()) or 0)

    @property
    def fd(self) -> int:
        """Stays the buffer's."""
        return int(lib().prt_buffer_fd(self._live()))

    @property
    def offset(self) -> int:
        return int(lib().prt_buffer_offset(self._live()))

    @property
    def map_bytes(self) -> int:
        return int(lib().prt_buffer_map_bytes(self._live()))

    def guards_intact(self) -> bool:
        intact, error = ctypes.c_int(0), Error()
        check(lib().prt_buffer_guards(self._live(), ctypes.byref(intact), ctypes.byref(error)), error)
        return bool(intact.value)

    def mend_guards(self) -> None:
        """Writes the guards anew; for a buffer that this process created."""
        error = Error()
        check(lib().prt_buffer_mend(self._live(), ctypes.byref(error)), error)

    def raw(self) -> torch.Tensor:
        """The extent as uint8 on the buffer's device, without a copy; valid until `free`."""
        import torch

        if self.device == CPU:
            array = (ctypes.c_uint8 * self.bytes).from_address(self.address)
            array._planish_owner = self  # type: ignore[attr-defined] # the tensor holds the array, the array the buffer
            return torch.frombuffer(array, dtype=torch.uint8)
        return torch.as_tensor(_CudaArray(self, self.address, self.bytes), device=f"cuda:{self.device}")

    def guards(self) -> list[torch.Tensor]:
        """What lies in the mapping before and behind the extent, as uint8 without copies; of a CUDA buffer, valid until `free`. Empty parts
        are left out. Every byte of them is CANARY until somebody writes there."""
        import torch

        behind = self.map_bytes - self.offset - self.bytes
        parts = ((self.address - self.offset, self.offset), (self.address + self.bytes, behind))
        return [torch.as_tensor(_CudaArray(self, at, count), device=f"cuda:{self.device}") for at, count in parts if count]

    def tensor(self, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
        """The typed view, without a copy. Raises PlanishError(`bad_argument`) when it would leave the buffer."""
        import torch

        if 0 in shape:
            return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=self.torch_device)
        extent = extent_bytes(dtype.itemsize, shape, strides)
        if extent > self.bytes:
            raise PlanishError("bad_argument", f"a tensor of {extent} bytes does not fit in {self.bytes}")
        return self.raw()[:extent].view(dtype).as_strided(tuple(shape), tuple(strides))

    @property
    def torch_device(self) -> str:
        return "cpu" if self.device == CPU else f"cuda:{self.device}"

    def free(self) -> None:
        """Unmaps at once; tensors made of it must not be touched afterwards."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            lib().prt_buffer_free(handle)

    def __del__(self) -> None:
        try:
            self.free()
        except Exception:  # at interpreter exit the library may be gone
            return


class _CudaArray:
    """What torch.as_tensor reads to wrap device memory in place; torch keeps it, and so the buffer, alive."""

    def __init__(self, buffer: Buffer, address: int, count: int) -> None:
        self._buffer = buffer
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def extent_bytes(itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    """Bytes from the first to behind the last element."""
    if 0 in shape:
        return 0
    return (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))) * itemsize
