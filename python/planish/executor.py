"""Runs a planish.program/1 document inside torch.

This file is copied into every shipped folder, so it depends on torch, the standard library and libplanish_rt.so (through
ctypes) and on nothing else of Planish. An Executor belongs to one device. `run` may be called from any number of threads:
each call takes its own pointer table, and every temporary comes from torch's allocator on the current stream, so CUDA
graphs, several streams and several threads need no locks.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import json
import math
import mmap
import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Tensor = torch.Tensor

_DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
_ALIGN = 256  # of temporaries inside the arena
_BRIEF = 1 << 16  # bytes that the CPU works through sooner than threads take turns
_INPUT_ALIGN = 16  # what kernels may assume about every pointer
_PROBE = 1 << 26  # large enough that malloc maps it anew
_POOLED = 1 << 20  # bytes from which on CPU memory is kept between calls


class ExecutorError(RuntimeError):
    """A program that cannot be loaded or run. `kind` is one of the runner's error kinds (docs/formats/wire.md)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of a document name: `f32`, …, or torch's own name."""
    dtype = _DTYPES.get(name) or getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ExecutorError("bad_program", f"unknown dtype '{name}'")
    return dtype


_raise_versions = getattr(torch._C, "_increment_version", None)  # of each tensor in an iterable, by one


class _Error(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char * 32), ("message", ctypes.c_char * 2016)]


class _Replay(ctypes.Structure):
    _fields_ = [("way", ctypes.c_int), ("launches_us", ctypes.c_double), ("graph_us", ctypes.c_double), ("reason", ctypes.c_char * 496)]


_libc = ctypes.CDLL(None)
_libraries: dict[str, ctypes.CDLL] = {}


def _library(path: Path | str) -> ctypes.CDLL:
    """libplanish_rt.so, loaded once a path."""
    # As it was given, where that is absolute: links stay, as one into /proc leads to a file in memory, and so do the detours by which a
    # single file makes its names unlike each other.
    key = str(path) if os.path.isabs(path) else os.path.abspath(path)
    if key not in _libraries:
        try:
            lib = ctypes.CDLL(key)
        except OSError as error:
            raise ExecutorError("load_failed", f"cannot load the runtime {key}: {error}") from None
        voidp, integer = ctypes.c_void_p, ctypes.c_int
        lib.prt_program_load.argtypes = [integer, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char_p),
                                         integer, ctypes.POINTER(voidp), ctypes.POINTER(_Error)]  # fmt: skip
        # prt_program_run gets ready-made ctypes objects: without argtypes ctypes converts nothing at each call.
        lib.prt_program_run.restype = integer
        lib.prt_threads.argtypes = [integer]
        lib.prt_program_free.argtypes = [voidp]
        lib.prt_program_free.restype = None
        _libraries[key] = lib
    return _libraries[key]


@dataclass(frozen=True)
class Binding:
    """A tensor that the caller passes to `run`: what it is, and what the program assumes of it. `buffer` is the program
    buffer it is bound to, or -1 for one that is only written back to."""

    buffer: int
    kind: str  # user | param | buffer
    index: int  # user leaf, else -1
    name: str  # qualified name, else ""
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Effect:
    """A tensor of the caller's that a call changes. `value` is the program buffer with the new value, `position` the target's place in
    `bindings`. `versions`: by how much eager's call raises the target's version counter. `differentiable`: whether the new value, in
    eager, belongs to autograd's graph where gradients are on. `read`: whether results depend on the value before. `direct`: kernels
    write the new value into the target itself, as nothing reads what was there from then on; else it is copied there after the last
    step: a call that fails has changed nothing. `native`: by the runtime, as a step of the program."""

    value: int
    position: int
    versions: int
    differentiable: bool
    read: bool
    direct: bool
    native: bool


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to just after the last one of a strided tensor."""
    if any(n == 0 for n in shape):
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def same_layout(tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether every element lies where the declared strides say (dimensions of size 1 have no say)."""
    return tensor.shape == shape and all(n <= 1 or a == b for n, a, b in zip(shape, tensor.stride(), strides, strict=True))


def aligned(t: Tensor) -> Tensor:
    """The tensor, or where it begins at an odd place a copy that does not, with the same strides: of an odd slice, or of one of the odd
    weights of a recurrent network, which PyTorch keeps one behind the other for cuDNN."""
    if not t.data_ptr() % _INPUT_ALIGN:
        return t
    copy = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
    once, source = copy, t
    for dim, stride in enumerate(t.stride()):  # of an expanded dim the one element that there is
        if stride == 0 and t.shape[dim] > 1:
            once, source = once.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    once.copy_(source)
    return copy


def read_scalar(arg: dict[str, Any]) -> Any:
    """The Python value of a non-tensor leaf or argument: {"int": 3}, {"float": "0x1p+0"}, {"none": true}, …"""
    (key, value), *more = ((k, v) for k, v in arg.items() if k != "name")
    if more:
        raise ExecutorError("bad_program", f"argument has more than one value: {arg}")
    if key in ("int", "bool", "str", "ints", "bools"):
        return value
    if key == "float":
        return float.fromhex(value)
    if key == "floats":
        return [float.fromhex(v) for v in value]
    if key == "dtype":
        return torch_dtype(value)
    if key == "none":
        return None
    if key == "numbers":  # of a tensor that the program is for: its integers or truths, on the CPU
        return torch.tensor(value["ints"], dtype=torch_dtype(value["dtype"])).reshape(value["shape"])
    if key == "enum":
        return getattr(torch, value.removeprefix("torch.")) if value.startswith("torch.") else torch.device(value)
    raise ExecutorError("bad_program", f"unknown argument kind '{key}'")


def find_op(name: str) -> Any:
    """The overload `aten.mm.default` names."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.rpartition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except (AttributeError, RuntimeError):
        raise ExecutorError("bad_program", f"torch {torch.__version__} has no operator '{name}'") from None


def _viewed(given: Tensor, size: Sequence[int]) -> Tensor:
    """`aten.view`, or a copy where the memory does not allow it: a program's values may lie otherwise than those that were captured (channels last,
    and what a part of it is given by itself)."""
    try:
        return given.view(size)
    except RuntimeError:
        return given.reshape(size)


def _groups_normed(given: Tensor, *arguments: Any) -> Any:
    """`aten.native_group_norm`, which refuses images with channels last on a GPU, and on a CPU what lies in neither order: strides of dims of size 1
    count there."""
    if given.device.type == "cpu" and given.dim() == 4 and not given.is_contiguous() and given.is_contiguous(memory_format=torch.channels_last):
        places = given.permute(0, 2, 3, 1)
        given = places.reshape(-1).view(places.shape).permute(0, 3, 1, 2)
    else:
        given = given.contiguous()
    return torch.ops.aten.native_group_norm.default(given, *arguments)


# Programs say how their values lie, which need not be as they were captured; these operators go by that.
_ANY_LAYOUT: dict[str, Callable[..., Any]] = {
    "aten.view.default": _viewed,
    "aten._unsafe_view.default": _viewed,
    "aten.native_group_norm.default": _groups_normed,
}


@functools.cache
def _huge_pages_are_cheap() -> bool:
    """Whether fresh memory of huge pages is filled in less time than fresh memory of torch's, measured once a process when a caller first
    keeps results. It depends on the machine: on one they take two thirds of the time, on one without any at hand several times as long."""
    spent = [math.inf, math.inf]
    for _ in range(2):
        for way in range(2):
            block = _Block(_PROBE, huge=way == 1)
            start = time.perf_counter()
            block.tensor.fill_(1)
            spent[way] = min(spent[way], time.perf_counter() - start)
            del block
    return spent[1] < spent[0]


class _Pool:
    """CPU memory of large outputs and temporaries, kept from call to call.

    torch gives such memory back to the system when a tensor dies, and gets it anew, page fault by page fault, at the next call: for
    kernels that stream that is most of the time. Here torch's own storage of a result stays when the result has died, and a later call
    takes it when nothing else refers to it any more, as torch's allocator does with memory on CUDA. At most `keep` storages of a size
    stay. One that was resized, shared with other processes or handed to NumPy (which ends its resizing) is never taken again: results
    can do whatever eager's can. `PLANISH_OUTPUT_POOL=0` turns it off.

    Any thread may ask, and any may let a result die.
    """

    keep = 2

    def __init__(self) -> None:
        self._kept: dict[int, list[_Block]] = {}  # by bytes; some may still be referred to, by views
        self._lent: dict[int, tuple[weakref.ref[Tensor], list[_Block], _Block]] = {}  # by the weak reference's id
        self._made: dict[int, int] = {}
        self._least = _POOLED if os.environ.get("PLANISH_OUTPUT_POOL", "1") != "0" and hasattr(torch._C, "_storage_Use_Count") else 1 << 62
        if self._least == _POOLED:
            self._alone = _references(_Block(1, False))

    def empty(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """An uninitialised CPU tensor. Raises what torch does when there is no memory."""
        size = extent(shape, strides) * dtype.itemsize
        if size < self._least:
            return torch.empty_strided(shape, strides, dtype=dtype)
        kept = self._kept.setdefault(size, [])
        block = self._take(kept) or self._fresh(size)
        tensor = torch.empty(0, dtype=dtype).set_(block.tensor.untyped_storage(), 0, shape, strides)  # type: ignore[call-overload]
        died = weakref.ref(tensor, self._put)
        self._lent[id(died)] = (died, kept, block)
        return tensor

    def _take(self, kept: list[_Block]) -> _Block | None:
        for _ in range(len(kept)):
            try:
                block = kept.pop()  # atomic: no two callers look at one block
            except IndexError:
                return None
            if _references(block) != self._alone:
                kept.insert(0, block)
            elif block.untouched():
                return block
        return None

    def _put(self, died: weakref.ref[Tensor]) -> None:
        _, kept, block = self._lent.pop(id(died))
        kept.append(block)
        if len(kept) > self.keep:
            busy = next((b for b in kept[:-1] if _references(b) != self._alone), kept[0])
            with contextlib.suppress(ValueError):  # another thread was faster
                kept.remove(busy)

    def _fresh(self, size: int) -> _Block:
        """The first blocks of a size stay for long and are worth huge pages. Further ones are there because the caller keeps results:
        where finding huge pages takes longer than what eager pays, they are as eager's are."""
        made = self._made[size] = self._made.get(size, 0) + 1
        try:
            return _Block(size, made <= self.keep or _huge_pages_are_cheap())
        except RuntimeError:
            for kept in list(self._kept.values()):
                kept.clear()
            return _Block(size, False)


class _Block:
    """A storage of torch's, through a tensor of ours."""

    __slots__ = ("address", "huge", "size", "tensor")

    def __init__(self, size: int, huge: bool) -> None:
        self.size = size
        self.huge = huge
        self.tensor = torch.empty(size, dtype=torch.uint8)
        self.address = self.tensor.data_ptr()
        if huge:
            first = -(-self.address // mmap.PAGESIZE) * mmap.PAGESIZE
            # Where the kernel has none it refuses, and ordinary pages do.
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(self.address + size - first), getattr(mmap, "MADV_HUGEPAGE", 14))

    def untouched(self) -> bool:
        """Whether nobody resized or moved it, or ended that it can be."""
        storage = self.tensor.untyped_storage()
        return storage.nbytes() == self.size and storage.data_ptr() == self.address and storage.resizable()


def _references(block: _Block) -> tuple[int, int]:
    """How many tensors, and how many Python objects, refer to a block's storage; some of them ours."""
    storage = block.tensor.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(storage)


class _Call:
    """What one call at a time uses: the pointer table, where the runtime puts an error, and the stream."""

    __slots__ = ("error", "error_at", "stream", "table")

    def __init__(self, buffers: int) -> None:
        self.table = (ctypes.c_void_p * max(1, buffers))()
        self.error = _Error()
        self.error_at = ctypes.byref(self.error)
        self.stream: Any = None


# An action works on the environment (one tensor or None a buffer), the pointer table and the rest of this call.
_Action = Callable[[list[Any], Any, _Call], None]


class Executor:
    """A loaded program. `bindings` says which tensors `run` takes, in order; outputs come back in document order."""

    def __init__(
        self,
        program: dict[str, Any],
        binaries: Sequence[str],
        blobs: Path | str | Callable[[str], bytes],
        rt: Path | str | None,
        device: Any,
        effects: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """`blobs` is the folder of the constants, or what gives one's bytes by name. `rt` may be None for a program of aten steps alone.
        `effects`: what ship.json says of outputs that are effects, as far as it says something; where it is None nothing of the caller's is
        ever changed, and `execute` is all that may be called. Raises ExecutorError."""
        self.device = torch.device(device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        if program.get("schema") != "planish.program/1":
            raise ExecutorError("bad_program", f"not a planish.program/1 document: schema {program.get('schema')!r}")
        program, self.generator = _without_states(program)
        self._buffers: list[dict[str, Any]] = program["buffers"]
        self._shapes = [tuple(b["shape"]) for b in self._buffers]
        self._strides = [tuple(b["strides"]) for b in self._buffers]
        self._dtypes = [torch_dtype(b["dtype"]) for b in self._buffers]
        self._steps: list[dict[str, Any]] = program["steps"]
        self._outputs: list[dict[str, Any]] = program["outputs"]
        self.handle: Any = None
        self.runs = 0  # calls of `run`; those that the C form answers are not among them
        self._lib: Any = None
        native = any(s["kind"] != "aten" for s in self._steps)
        self.bindings = self._find_bindings()
        self._tangled: set[int] = set()
        self.effects, self._copies = ([], []) if effects is None else self._find_effects(native, effects)
        self._leave_out_copies()
        if native:
            self._load(program, binaries, rt)
        read = blobs if callable(blobs) else lambda name: (Path(blobs) / name).read_bytes()
        self._constants = [(i, self._constant(i, read)) for i, b in enumerate(self._buffers) if b["role"] == "const"]
        # The address that stands for a buffer without elements: never read, but not null.
        self._nowhere = torch.empty(_ALIGN, dtype=torch.uint8, device=self.device)
        self._idle: list[_Call] = []  # taken by a call and put back after it; at most as many as there were calls at once
        self._cuda = self.device.type == "cuda"
        self._pool = _Pool() if self.device.type == "cpu" else None
        self._plan()

    # ---- construction ----

    def _load(self, program: dict[str, Any], binaries: Sequence[str], rt: Path | str | None) -> None:
        if rt is None:
            raise ExecutorError("load_failed", "the program has kernels, but no runtime library was given")
        self._lib = _library(rt)
        if self._copies:
            changed = {step["to"] for step in self._copies}
            buffers = [b | {"role": "state"} if i in changed else b for i, b in enumerate(self._buffers)]
            program = program | {"buffers": buffers}
        if self._copies or self._steps is not program["steps"]:
            program = program | {"steps": self._steps + self._copies}
        text = json.dumps(program).encode()
        paths = (ctypes.c_char_p * max(1, len(binaries)))(*[str(b).encode() for b in binaries])
        handle, error = ctypes.c_void_p(), _Error()
        ordinal = self.device.index if self.device.type == "cuda" else -1
        if self._lib.prt_program_load(ordinal, text, len(text), paths, len(binaries), ctypes.byref(handle), ctypes.byref(error)):
            raise ExecutorError(error.kind.decode() or "load_failed", error.message.decode(errors="replace"))
        self.handle = handle

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            if self.device.type == "cuda":
                try:
                    torch.cuda.synchronize(self.device)  # kernels may still run from the code that is about to be unloaded
                except Exception:  # at interpreter exit, or after a fatal error of the context
                    return
            self._lib.prt_program_free(self.handle)
            self.handle = None

    def _binding(self, buffer: int, like: int, source: dict[str, Any]) -> Binding:
        return Binding(buffer, source["kind"], source.get("index", -1), source.get("name", ""), self._dtypes[like],
                       self._shapes[like], self._strides[like])  # fmt: skip

    def _find_bindings(self) -> list[Binding]:
        """What the program reads of the caller's, and after that what it only changes."""
        found = [self._binding(i, i, b["source"]) for i, b in enumerate(self._buffers) if b["role"] in ("input", "param", "state")]
        self._targets: list[int] = []  # of each output that is an effect: its target's place among these
        for out in self._outputs:
            if out["kind"] == "mutate_buffer":
                source = {"kind": "buffer", "name": out["target"]}
            elif out["kind"] == "mutate_input":
                source = {"kind": "user", "index": out["target"]}
            else:
                continue
            key = (source["kind"], source.get("index", -1), source.get("name", ""))
            position = next((p for p, b in enumerate(found) if (b.kind, b.index, b.name) == key), None)
            if position is None:
                position = len(found)
                found.append(self._binding(-1, out["buffer"], source))
            self._targets.append(position)
        return found

    def _find_effects(self, native: bool, facts: Sequence[dict[str, Any]]) -> tuple[list[Effect], list[dict[str, Any]]]:
        """The effects, and the steps behind the program's own that copy new values to their targets. `native`: there is a runtime."""
        effects: list[Effect] = []
        copies: list[dict[str, Any]] = []
        outputs = [o for o in self._outputs if o["kind"] in ("mutate_buffer", "mutate_input")]
        known_facts = {(f["kind"], f["target"]): f for f in facts}
        changed = {self.bindings[position].buffer for position in self._targets}
        self._tangled = {o["buffer"] for o in outputs} & changed - {-1}  # new values that are others' values before: copied while all are there
        for out, position in zip(outputs, self._targets, strict=True):
            value, target = out["buffer"], self.bindings[position]
            about = known_facts.get((out["kind"], out["target"]), {})
            if target.buffer == value:
                continue  # writing a state back onto itself is nothing to do
            alike = (target.dtype, target.shape, target.strides) == (self._dtypes[value], self._shapes[value], self._strides[value])
            dense = 0 not in target.shape and not any(n > 1 and stride == 0 for n, stride in zip(target.shape, target.strides, strict=True))
            known = native and not self._tangled and alike and dense and self._buffers[value]["dtype"] in _DTYPES and _raise_versions is not None
            direct = known and self._may_be_written(value, target.buffer, bool(out.get("in_place")))
            if known and not direct:
                if target.buffer < 0:  # the runtime knows tensors by their buffer
                    target = dataclasses.replace(target, buffer=len(self._buffers))
                    self.bindings[position] = target
                    like = self._buffers[value]
                    self._buffers = [*self._buffers, {"role": "state", "dtype": like["dtype"], "shape": like["shape"], "strides": like["strides"]}]
                    for known_of in (self._shapes, self._strides, self._dtypes):
                        known_of.append(known_of[value])  # type: ignore[attr-defined]
                copies.append({"kind": "copy", "from": value, "to": target.buffer})
            versions = about.get("versions", 1)
            effects.append(Effect(value, position, versions, about.get("differentiable", True), about.get("read", True), direct, known))
        return effects, copies

    def _may_be_written(self, value: int, target: int, in_place: bool) -> bool:
        """Whether steps may write `value` into the memory of `target` (-1: nothing reads it): each that reads the target runs before
        the first that writes the value, or is the one that does and was found to read each element where it writes it (`in_place`).
        A copy of the target to the value counts as neither: there it stands already, and kernels behind write what changes. Operators may
        read the value, through views too, but not make it, and no result may be a view of either."""
        if self._buffers[value]["role"] != "output" or sum(o.get("buffer") in (value, target) for o in self._outputs) > 1:
            return False
        steps = [(k, step) for k, step in enumerate(self._steps) if not _copies(step, target, value)]
        new, old = self._views_of(value), self._views_of(target)
        if any(step["kind"] == "aten" and value in self._step_buffers(step)[1] for _, step in steps):
            return False
        if any(o.get("buffer") in (new | old) - {value, target} for o in self._outputs):
            return False
        first = min((k for k, step in steps if self._step_buffers(step)[1] & new), default=-1)
        last = max((k for k, step in steps if self._step_buffers(step)[0] & old), default=-1)
        return last < first or (last == first and in_place)

    def _views_of(self, buffer: int) -> set[int]:
        """The buffer, and what operators make that may be its memory."""
        views = {buffer}
        for step in self._steps:
            if step["kind"] == "aten" and self._step_buffers(step)[0] & views and _gives_views(step):
                views |= self._step_buffers(step)[1]
        return views

    def _leave_out_copies(self) -> None:
        """Steps that would copy a tensor onto itself: what kernels write directly stands where it was."""
        direct = [(self.bindings[e.position].buffer, e.value) for e in self.effects if e.direct]
        if any(_copies(step, *pair) for step in self._steps for pair in direct):
            self._steps = [step for step in self._steps if not any(_copies(step, *pair) for pair in direct)]

    def _constant(self, i: int, read: Callable[[str], bytes]) -> Tensor:
        name = self._buffers[i]["source"]["blob"]
        try:
            raw = bytearray(read(name))
        except OSError as error:
            raise ExecutorError("load_failed", f"cannot read constant {name}: {error.strerror}") from None
        shape, dtype = self._shapes[i], self._dtypes[i]
        count = 1
        for n in shape:
            count *= n
        if len(raw) != count * dtype.itemsize:
            raise ExecutorError("bad_program", f"constant {name} has {len(raw)} bytes, expected {count * dtype.itemsize}")
        out = torch.empty_strided(shape, self._strides[i], dtype=dtype, device=self.device)
        if count:
            out.copy_(torch.frombuffer(raw, dtype=dtype).reshape(shape))
        return out

    @staticmethod
    def _step_buffers(step: dict[str, Any]) -> tuple[set[int], set[int]]:
        """(buffers the step reads or may read, buffers it may write). A launch may do both to each of its arguments."""
        kind = step["kind"]
        if kind == "aten":
            reads = {a["buffer"] for a in step["args"] if "buffer" in a}
            for a in step["args"]:
                reads.update(b for b in a.get("buffers", ()) if b is not None)
            return reads, {b for b in step["outs"] if b is not None}
        if kind == "launch":
            used = {a["buffer"] for a in step["args"] if "buffer" in a}
            return used, used
        if kind == "copy":
            return {step["from"]}, {step["to"]}
        if kind == "set":
            return set(), {step["buffer"]}
        raise ExecutorError("bad_program", f"unknown step kind '{kind}'")

    def _plan(self) -> None:
        n = len(self._buffers)
        native_first: dict[int, int] = {}
        native_use: dict[int, list[int]] = {}
        touched_by_aten: set[int] = set()
        defined_by_aten: set[int] = set()
        last_use = [-1] * n
        for k, step in enumerate(self._steps):
            reads, writes = self._step_buffers(step)
            for b in reads | writes:
                last_use[b] = k
                if step["kind"] == "aten":
                    touched_by_aten.add(b)
                else:
                    native_first.setdefault(b, k)
                    native_use.setdefault(b, []).append(k)
            if step["kind"] == "aten":
                defined_by_aten |= writes
        for step in self._copies:
            for b in (step["from"], step["to"]):
                native_first.setdefault(b, len(self._steps))
                native_use.setdefault(b, []).append(len(self._steps))
        returned = {o["buffer"] for o in self._outputs if "buffer" in o}
        native = set(native_use)

        self._bound = [(p, b.buffer, b.buffer in native and 0 not in b.shape) for p, b in enumerate(self.bindings) if b.buffer >= 0]
        self._bound_native = [(p, b) for p, b, used in self._bound if used]
        self._empty_native = [b for b in native if 0 in self._shapes[b]]
        # New values that are copied to their targets and that nobody else sees are temporaries: a network in training mode has some
        # hundred, and a tensor for each takes the host longer than all launches. What a copy of the program's own makes is none: the
        # runtime may join that copy with others, which then read what lay in its memory before.
        seen = {o["buffer"] for o in self._outputs if o["kind"] == "user" and "buffer" in o} | touched_by_aten
        seen |= {e.value for e in self.effects if not e.native} | {step["to"] for step in self._steps if step["kind"] == "copy"}
        copied = {e.value for e in self.effects if e.native and not e.direct} - seen
        # Tensors made before the first step: outputs that kernels write.
        fresh = {i for i in native if self._buffers[i]["role"] in ("output", "temp") and i not in defined_by_aten}
        self._fresh = [
            (i, self._shapes[i], self._strides[i], self._dtypes[i], 0 not in self._shapes[i])
            for i in sorted(fresh)
            if (self._buffers[i]["role"] == "output" or i in returned) and i not in copied
        ]
        early = {f[0] for f in self._fresh}
        arena_only = fresh - touched_by_aten - early
        late = fresh & touched_by_aten - early
        self._arena_bytes, self._arena_offsets = self._pack(arena_only, native_use)

        actions: list[_Action] = []
        freed = {b for b in range(n) if self._buffers[b]["role"] == "temp" and b not in returned}
        k = 0
        while k < len(self._steps):
            step = self._steps[k]
            last = k
            if step["kind"] == "aten":
                while last < len(self._steps) and self._steps[last]["kind"] == "aten":
                    last += 1
                actions.append(self._aten(k, last, native, lambda at: [b for b in sorted(freed - arena_only) if last_use[b] == at]))
            else:
                while last < len(self._steps) and self._steps[last]["kind"] != "aten":
                    last += 1
                for b in sorted(late):
                    if k <= native_first[b] < last:
                        actions.append(self._allocate(b))
                actions.append(self._native(k, last))
                done = [b for b in sorted(freed - arena_only) if k <= last_use[b] < last]
                if done:
                    actions.append(self._free(done))
            k = last
        self._actions = self._with_changes = actions
        if self._copies:
            end = len(self._steps) + len(self._copies)
            # Launches and the copies behind them are one submission: the runtime makes graphs of whole programs alone.
            launches = all(step["kind"] != "aten" for step in self._steps)
            self._with_changes = [self._native(0, end)] if launches else [*actions, self._native(len(self._steps), end)]
        self._by_torch = [(e.value, e.position, e.versions) for e in self.effects if not e.native]
        self._written = [(e.value, e.position) for e in self.effects if e.direct]
        self._counted = [e.position for e in self.effects if e.native for _ in range(e.versions)]
        self._results: list[tuple[int, Any]] = [
            (o["buffer"], None) if o["kind"] != "scalar" else (-1, read_scalar(o["arg"])) for o in self._outputs if o["kind"] in ("user", "scalar")
        ]
        self.output_buffers = sorted({o["buffer"] for o in self._outputs if "buffer" in o})
        self.own_results = not self._handed_through() & {b for b, _ in self._results}
        self._position_of = {b.buffer: p for p, b in enumerate(self.bindings) if b.buffer >= 0}

    def _handed_through(self) -> set[int]:
        """Buffers that may be the caller's own memory, or a constant's: those given, and operators' views of them."""
        given = {b.buffer for b in self.bindings} | {b for b, _ in self._constants}
        return set().union(*map(self._views_of, given))

    def _pack(self, temps: set[int], uses: dict[int, list[int]]) -> tuple[int, list[tuple[int, int]]]:
        """Places temporaries that only kernels touch into one allocation, sharing bytes between those never live at once."""
        placed: list[tuple[int, int, int, int]] = []  # first step, last step, offset, end
        offsets: list[tuple[int, int]] = []
        size_of = {i: -(-extent(self._shapes[i], self._strides[i]) * self._dtypes[i].itemsize // _ALIGN) * _ALIGN for i in temps}
        for i in sorted(temps, key=lambda b: (-size_of[b], b)):
            if size_of[i] == 0:
                continue
            first, last = uses[i][0], uses[i][-1]
            at = 0
            for _, _, start, end in sorted((p for p in placed if p[0] <= last and first <= p[1]), key=lambda p: p[2]):
                if at + size_of[i] <= start:
                    break
                at = max(at, end)
            placed.append((first, last, at, at + size_of[i]))
            offsets.append((i, at))
        return max((p[3] for p in placed), default=0), offsets

    # ---- actions ----

    def _allocate(self, b: int) -> _Action:
        shape, strides, dtype = self._shapes[b], self._strides[b], self._dtypes[b]

        def act(env: list[Any], table: Any, call: _Call) -> None:
            env[b] = tensor = self._empty(shape, strides, dtype)
            table[b] = tensor.data_ptr()

        return act

    @staticmethod
    def _free(done: list[int]) -> _Action:
        def act(env: list[Any], table: Any, call: _Call) -> None:
            for b in done:
                env[b] = None

        return act

    def _native(self, first: int, last: int) -> _Action:
        launch, handle = self._lib.prt_program_run, self.handle
        count, begin, end = ctypes.c_int(len(self._buffers)), ctypes.c_int(first), ctypes.c_int(last)
        threads = None if self._cuda else self._lib.prt_threads

        def act(env: list[Any], table: Any, call: _Call) -> None:
            if threads is not None:
                threads(torch.get_num_threads())  # of the thread that calls
            if launch(handle, table, count, begin, end, call.stream, call.error_at):
                raise ExecutorError(call.error.kind.decode() or "launch_failed", call.error.message.decode(errors="replace"))

        return act

    def _aten(self, first: int, last: int, native: set[int], free_after: Callable[[int], list[int]]) -> _Action:
        """Steps `first` to `last` (not included), all of them operators, as one straight function: their tensors are its local names
        while nothing else reads them. `free_after` says which temporaries nothing reads after a step. Measured on a chain of 51
        additions: 0.1 µs a step beside the operator's own call, against 0.7 for a call of Python a step."""
        names: dict[str, Any] = {"declared": self._as_declared, "spread": _spread}
        lines = ["def act(env, table, call):"]
        made: set[int] = set()
        loaded: set[int] = set()
        for k in range(first, last):
            step = self._steps[k]
            op = find_op(step["op"])
            names[f"op{k}"] = _ANY_LAYOUT.get(step["op"]) or getattr(op, "_op", op)
            arguments, reads = self._arguments(k, op, names)
            for b in sorted(reads - made - loaded):
                lines.append(f"  v{b} = env[{b}]")
                loaded.add(b)
            call = f"op{k}({', '.join(arguments)})"
            outs: list[int | None] = list(step["outs"])
            returns = [str(r.type) for r in op._schema.returns]
            if len(outs) == 1 and outs[0] is not None and returns == ["Tensor"]:
                lines.append(f"  v{outs[0]} = {call}")
            else:
                targets = "".join("_, " if b is None else f"v{b}, " for b in outs)
                lines.append(f"  {targets or '_ = '}{'= ' if targets else ''}spread({call}, {len(outs)}, {step['op']!r})")
            done = free_after(k)
            made |= {b for b in outs if b is not None}
            for b in (o for o in outs if o is not None):
                # Buffers that kernels read must lie as declared; everything else takes what the operator returns.
                if b in native and 0 not in self._shapes[b]:
                    lines.append(f"  v{b} = declared(v{b}, {b})")
                    lines.append(f"  table[{b}] = v{b}.data_ptr()")
                if b not in done:
                    lines.append(f"  env[{b}] = v{b}")
            gone = [b for b in done if b in made or b in loaded]
            if gone:
                lines.append("  " + " = ".join(f"v{b}" for b in gone) + " = None")
            for b in done:
                if b not in outs:
                    lines.append(f"  env[{b}] = None")
        exec(compile("\n".join(lines), f"<steps {first} to {last - 1}>", "exec"), names)
        act: _Action = names["act"]
        return act

    def _arguments(self, k: int, op: Any, names: dict[str, Any]) -> tuple[list[str], set[int]]:
        """The arguments of step `k` as source, and the buffers they read; constants go into `names`. Those that are what the operator
        assumes anyway are left out: reading them costs time at each call."""
        step = self._steps[k]
        declared = {a.name: a for a in op._schema.arguments}
        arguments: list[str] = []
        keywords: list[str] = []
        reads: set[int] = set()
        usual = 0  # of the positional ones at the end, how many are what the operator assumes
        for number, arg in enumerate(step["args"]):
            name = arg["name"]
            known = declared.get(name)
            kwarg_only = known is not None and known.kwarg_only
            if "buffer" in arg or "buffers" in arg:
                if "buffer" in arg:
                    b = arg["buffer"]
                    source = f"v{b}"
                    reads.add(b)
                else:
                    source = "[" + ", ".join("None" if b is None else f"v{b}" for b in arg["buffers"]) + "]"
                    reads.update(b for b in arg["buffers"] if b is not None)
                if kwarg_only:
                    keywords.append(f"{name}={source}")
                    continue
                arguments.append(source)
                usual = 0
                continue
            value = read_scalar(arg)
            if isinstance(value, torch.device) and value.type == self.device.type:
                value = self.device
            names[f"c{k}_{number}"] = value
            same = known is not None and known.has_default_value() and _same(known.default_value, value)
            if kwarg_only:
                keywords += [] if same else [f"{name}=c{k}_{number}"]
            else:
                arguments.append(f"c{k}_{number}")
                usual = usual + 1 if same else 0
        return arguments[: len(arguments) - usual] + keywords, reads

    def _as_declared(self, tensor: Tensor, b: int) -> Tensor:
        shape, strides, dtype = self._shapes[b], self._strides[b], self._dtypes[b]
        # A few operators return another precision than torch's own metadata say (batch norm's statistics of a 16-bit input).
        floating = tensor.dtype.is_floating_point and dtype.is_floating_point
        if tensor.shape != shape or (tensor.dtype is not dtype and not floating):
            raise ExecutorError("bad_program", f"buffer {b} was declared {self._dtypes[b]} {list(shape)}, "
                                f"its operator returned {tensor.dtype} {list(tensor.shape)}")  # fmt: skip
        if tensor.dtype is dtype and same_layout(tensor, shape, strides) and not tensor.data_ptr() % _INPUT_ALIGN and not _lazy(tensor):
            return tensor
        out = torch.empty_strided(shape, strides, dtype=dtype, device=tensor.device)
        return out.copy_(tensor)

    def submission(self) -> dict[str, Any]:
        """How calls reach the GPU: `way` is `launches`, `graph`, or `measuring` while the first calls try both; the median host time of
        either where it was measured; `reason` where a graph was refused. What PLANISH_GRAPH chooses (runtime/include/planish_rt.h)."""
        found, error = _Replay(), _Error()
        if self.handle is None or not hasattr(self._lib, "prt_program_replay"):
            return {"way": "launches"}
        if self._lib.prt_program_replay(self.handle, ctypes.byref(found), ctypes.byref(error)):
            raise ExecutorError(error.kind.decode(), error.message.decode(errors="replace"))
        about: dict[str, Any] = {"way": ("launches", "graph", "measuring")[found.way]}
        about |= {name: value for name, value in (("launches_us", found.launches_us), ("graph_us", found.graph_us)) if value > 0}
        return about | ({"reason": found.reason.decode(errors="replace")} if found.reason else {})

    def direct(self) -> dict[str, Any] | None:
        """What one call does, for who makes it without this object: allocate `fresh`, fill in the pointer table, launch all steps,
        return `results`, raise versions. None where a call needs more: operators of torch, or an effect that the runtime cannot have."""
        kernels_only = bool(self._steps) and all(step["kind"] != "aten" for step in self._steps)
        aliased = {b.buffer for b in self.bindings} | {b for b, _ in self._constants}
        allocated = {f[0] for f in self._fresh}
        returned = {b for b, _ in self._results if b >= 0}
        complex_inputs = any(b.dtype.is_complex for b in self.bindings)
        if not kernels_only or self._by_torch or complex_inputs or not returned <= allocated or returned & aliased:
            return None
        table = [0] * len(self._buffers)
        for b, tensor in self._constants:
            table[b] = tensor.data_ptr()
        for b in self._empty_native:
            table[b] = self._nowhere.data_ptr()
        written = {value for value, _ in self._written}
        fresh = [f for f in self._fresh if f[0] not in written]
        sizes = [self._arena_bytes, *(extent(shape, strides) * dtype.itemsize for _, shape, strides, dtype, _ in fresh)]
        allocate = self._empty if self._pool is not None and max(sizes) >= _POOLED else _allocator(self.device)
        touched = sum(extent(s, t) * d.itemsize for s, t, d in zip(self._shapes, self._strides, self._dtypes, strict=True))
        address = ctypes.cast(self._lib.prt_program_run, ctypes.c_void_p).value
        return {
            "keep": (self, allocate),
            "allocate": allocate,
            "table": table,
            "fresh": [(b, shape, strides, dtype) for b, shape, strides, dtype, _ in fresh],
            "arena": (self._arena_bytes, torch.uint8, list(self._arena_offsets)),
            "results": [b if b >= 0 else (value,) for b, value in self._results],
            "launch": (address, self.handle.value, len(self._steps) + len(self._copies)),
            "effects": [(e.position, e.versions, e.value if e.direct else -1) for e in self.effects],
            "raise_versions": _raise_versions,
            "threads": None if self._cuda else (torch.get_num_threads, ctypes.cast(self._lib.prt_threads, ctypes.c_void_p).value),
            "brief": not self._cuda and touched <= _BRIEF,
            "device": -1 if not self._cuda else self.device.index,
            "error": ExecutorError,
        }

    # ---- running ----

    def _empty(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        if self._pool is not None:
            return self._pool.empty(shape, strides, dtype)
        return torch.empty_strided(shape, strides, dtype=dtype, device=self.device)

    def _new_call(self) -> _Call:
        call = _Call(len(self._buffers))
        for b, tensor in self._constants:
            call.table[b] = tensor.data_ptr()
        for b in self._empty_native:
            call.table[b] = self._nowhere.data_ptr()
        return call

    def run(self, tensors: Sequence[Tensor]) -> list[Any]:
        """One call: tensors in the order of `bindings` in, the values of the user outputs (tensors or scalars) out, updated
        buffers and inputs written back. The caller guarantees dtype, shape, strides, device and 16-byte alignment."""
        self.runs += 1
        into = {value: tensors[position] for value, position in self._written} if self._written else None
        env = self._run(tensors, into, self._with_changes)
        for b in self._tangled:
            env[b] = env[b].clone()
        for b, position, versions in self._by_torch:
            target = tensors[position]
            if versions == 1 or _raise_versions is None:
                target.copy_(env[b])
            else:
                target.data.copy_(env[b])
                _raise_versions([target] * versions)
        if self._counted and _raise_versions is not None:
            _raise_versions([tensors[position] for position in self._counted])
        return [value if b < 0 else env[b] for b, value in self._results]

    def execute(self, tensors: Sequence[Tensor], into: dict[int, Tensor] | None = None) -> list[Any]:
        """Runs the steps without changing anything of the caller's, and returns the environment: the tensor of each buffer in
        `output_buffers` at its index (where this was made with effects, None for values that are nothing else). Kernels write outputs
        straight into the tensors of `into`, where it has one."""
        return self._run(tensors, into, self._actions)

    def _run(self, tensors: Sequence[Tensor], into: dict[int, Tensor] | None, actions: list[_Action]) -> list[Any]:
        idle = self._idle
        try:
            call = idle.pop()  # atomic: no two calls share a table
        except IndexError:
            call = self._new_call()
        table = call.table
        env: list[Any] = [None] * len(self._buffers)
        for position, b, used in self._bound:
            tensor = tensors[position]
            env[b] = tensor
            if used:
                table[b] = tensor.data_ptr()
        for b, tensor in self._constants:
            env[b] = tensor
        device = self.device
        for b, shape, strides, dtype, used in self._fresh:
            given = into.get(b) if into else None
            tensor = self._empty(shape, strides, dtype) if given is None else given
            env[b] = tensor
            if used:
                table[b] = tensor.data_ptr()
        arena = None
        if self._arena_bytes:
            arena = self._empty((self._arena_bytes,), (1,), torch.uint8)
            base = arena.data_ptr()
            for b, offset in self._arena_offsets:
                table[b] = base + offset
        if self._cuda:
            call.stream = ctypes.c_void_p(_raw_stream(device.index))
        try:
            for act in actions:
                act(env, table, call)
        finally:
            idle.append(call)
        return env


@dataclass(frozen=True)
class Generator:
    """Of a program that draws: the buffers that stand for the state of torch's generator, before the first draw and (-1: nobody asks) behind the last.
    Neither is bound, or has memory: operators draw from the generator itself."""

    before: int
    behind: int


def _without_states(program: dict[str, Any]) -> tuple[dict[str, Any], Generator | None]:
    """A program as it runs: its steps draw from torch's generator one after the other, as they stand, so that no state is passed on."""
    states: list[int] = []
    steps: list[dict[str, Any]] = []
    for step in program["steps"]:
        state = next((a["buffer"] for a in step["args"] if a.get("name") == "generator_state" and "buffer" in a), None) if step["kind"] == "aten" else None
        if state is not None:
            if states and state != states[-1]:
                raise ExecutorError("bad_program", f"{step['op']} draws from a state of the generator that is no longer there")
            behind = step["outs"][-1]
            states += [state] * (not states) + [-1 if behind is None else behind]
            step = step | {"args": [a for a in step["args"] if a.get("buffer") != state], "outs": step["outs"][:-1]}
        steps.append(step)
    known = {i for i, b in enumerate(program["buffers"]) if b.get("source", {}).get("kind") == "generator"} | set(states) - {-1}
    if not known:
        return program, None
    outputs = [o for o in program["outputs"] if o.get("buffer", -1) in known]
    buffers = [{k: v for k, v in b.items() if k != "source"} | {"role": "temp"} if i in known else b for i, b in enumerate(program["buffers"])]
    rest = [o for o in program["outputs"] if o.get("buffer", -1) not in known]
    before = states[0] if states else min(known)
    return program | {"buffers": buffers, "steps": steps, "outputs": rest}, Generator(before, outputs[-1]["buffer"] if outputs else -1)


def _copies(step: dict[str, Any], source: int, target: int) -> bool:
    return step["kind"] == "copy" and step["from"] == source and step["to"] == target


def _gives_views(step: dict[str, Any]) -> bool:
    """Whether what an operator returns may be memory of its arguments."""
    schema = find_op(step["op"])._schema
    return any(r.alias_info is not None for r in schema.returns) or schema.name == "aten::_unsafe_view"


def _spread(result: Any, count: int, op: str) -> list[Any]:
    """The tensors of a result that a step names so many of."""
    flat = _flatten(result)
    if len(flat) != count:
        raise ExecutorError("bad_program", f"{op} returned {len(flat)} values, the step names {count}")
    return flat


def _same(default: Any, value: Any) -> bool:
    """Whether a constant is what an operator assumes where it is not given; True is not 1, and 1 is not 1.0."""
    return type(default) is type(value) and isinstance(value, bool | int | float | str | None) and default == value


def _flatten(result: Any) -> list[Any]:
    """The tensors of an operator's result in order; None stays None."""
    if result is None or isinstance(result, Tensor):
        return [result]
    return [item for value in result for item in (_flatten(value) if isinstance(value, list | tuple) else [value])]


def _lazy(tensor: Tensor) -> bool:
    """Whether the values in memory are not the values of the tensor (a pending conjugate or negation)."""
    return tensor.is_conj() or tensor.is_neg()


def _allocator(device: torch.device) -> Callable[[Any, Any, torch.dtype], Tensor]:
    """empty_strided(shape, strides, dtype) on a device. torch's own generated code uses the short form where there is one (it takes
    the current CUDA device, so with several of them it is not used)."""
    short = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    if device.type == "cpu" and hasattr(short, "_empty_strided_cpu"):
        return short._empty_strided_cpu  # type: ignore[no-any-return, union-attr]
    if device.type == "cuda" and torch.cuda.device_count() == 1 and hasattr(short, "_empty_strided_cuda"):
        return short._empty_strided_cuda  # type: ignore[no-any-return, union-attr]
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)


_get_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def _raw_stream(index: int) -> int:
    """The current torch stream of a CUDA device as a CUstream."""
    if _get_raw_stream is not None:
        return int(_get_raw_stream(index))
    return int(torch.cuda.current_stream(index).cuda_stream)
