"""What can be run: a program, or a module. Both work on a `Bound`, one data set mapped for them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch

from planish import generators, rt
from planish.errors import PlanishError
from planish.executor import Executor, torch_dtype


@dataclass
class Bound:
    """A data set: buffers by their index in the request, tensors on them, and whatever the handle prepared."""

    buffers: list[rt.Buffer] = field(default_factory=list)
    tensors: dict[int, torch.Tensor] = field(default_factory=dict)
    names: dict[str, torch.Tensor] = field(default_factory=dict)  # in0…, out0…, where the descriptions carry names
    prepared: Any = None

    def add(self, device: torch.device, fd: int, description: dict[str, Any]) -> None:
        """Maps one buffer; takes over fd. Read-only unless the description says writable."""
        buffer = rt.Buffer.open(str(device), fd, description)
        tensor = buffer.tensor(torch_dtype(description["dtype"]), description["shape"], description["strides"])
        self.buffers.append(buffer)
        self.tensors[int(description["buffer"])] = tensor
        if "name" in description:
            self.names[description["name"]] = tensor
        self.prepared = None

    def free(self) -> None:
        self.prepared = None
        self.tensors.clear()
        self.names.clear()
        for buffer in self.buffers:
            buffer.free()
        self.buffers.clear()


class Handle(ABC):
    """Something loaded. `before` and `store` lie outside the timed part, `call` is what is timed."""

    @abstractmethod
    def prepare(self, bound: Bound) -> Any:
        """Checks that everything is bound and builds what `call` needs. Raises PlanishError(bad_program)."""

    def before(self, prepared: Any) -> None:
        """Resets what the last call changed."""
        return

    def spoil(self, prepared: Any) -> None:
        """Before a call that is timed: writes NaN, or noise, over what an earlier call left in the outputs, so that nothing is there to be
        found. A call that is only tested finds the oracle's own poison there, which tells what was never written."""
        return

    @abstractmethod
    def call(self, prepared: Any) -> Any: ...

    def call_nothing(self, prepared: Any) -> Any:
        """What `call` gives, made beforehand: whoever times calls subtracts what lies around them."""
        raise PlanishError("bad_program", "only a module can be called so")

    def call_as(self, caller: str, prepared: Any) -> Any:
        """`call` by one of callers.CALLERS; `store_as` stores what it gives."""
        raise PlanishError("bad_program", "only a module can be called so")

    def store_as(self, caller: str, prepared: Any, result: Any) -> None:
        raise PlanishError("bad_program", "only a module can be called so")

    def look(self, prepared: Any) -> None:
        """After a call that is tested: what it left for the next ones. Raises PlanishError(launch_failed) where it may not."""
        return

    def wind(self, calls: int) -> list[str]:
        """Makes what counts its calls as if there had been so many more. In words, what that is."""
        return []

    def results(self, prepared: Any, result: Any) -> list[torch.Tensor]:
        """What is due in each bound output, where it lies: nothing is copied. Raises PlanishError(launch_failed) where something else came."""
        raise PlanishError("bad_program", "only a module can be called so")

    @abstractmethod
    def store(self, prepared: Any, result: Any) -> None:
        """Copies results to the bound output buffers, where they are not there already."""


def due(result: Any, target: torch.Tensor, what: str) -> torch.Tensor:
    """The result. Raises PlanishError(launch_failed) if it is not the tensor that was due in this bound output."""
    if not isinstance(result, torch.Tensor):
        raise PlanishError("launch_failed", f"{what} is {type(result).__name__}, expected a tensor")
    if type(result) not in (torch.Tensor, torch.nn.Parameter):  # it could compute when it is looked at
        raise PlanishError("launch_failed", f"{what} is a {type(result).__name__}, expected a plain tensor", "return a torch.Tensor")
    if result.shape != target.shape:
        raise PlanishError("launch_failed", f"{what} has shape {list(result.shape)}, expected {list(target.shape)}")
    if result.dtype is not target.dtype:
        raise PlanishError("launch_failed", f"{what} has dtype {result.dtype}, expected {target.dtype}")
    return result


def put(result: Any, target: torch.Tensor, what: str) -> None:
    """Copies one result into a bound output. Raises like `due`."""
    result = due(result, target, what)
    if target.numel() and result.data_ptr() != target.data_ptr():
        for dim, size in enumerate(target.shape):  # an expanded dim holds its elements once
            if size > 1 and target.stride(dim) == 0:
                target, result = target.narrow(dim, 0, 1), result.narrow(dim, 0, 1)
        target.copy_(result)


@dataclass
class _Tables:
    tensors: list[torch.Tensor]
    outputs: dict[int, torch.Tensor]
    initial: list[tuple[torch.Tensor, torch.Tensor]]  # (private state, its bound first value)
    before: torch.Tensor | None = None  # the state of torch's generator that a call begins with
    behind: torch.Tensor | None = None  # the bound output for the one that it leaves


class ProgramHandle(Handle):
    """A planish.program/1 document through the executor. Kernels write straight into the bound outputs; aten results are
    copied there after the clock has stopped. Nothing is ever written back into an input."""

    def __init__(self, program: dict[str, Any], binaries: list[str], blobs: str, device: torch.device) -> None:
        native = any(step["kind"] != "aten" for step in program["steps"])
        self.executor = Executor(program, binaries, blobs, rt.find_library() if native else None, device)
        self.states = {i for i, b in enumerate(program["buffers"]) if b["role"] == "state"}

    def prepare(self, bound: Bound) -> _Tables:
        tensors: list[torch.Tensor] = []
        initial: list[tuple[torch.Tensor, torch.Tensor]] = []
        for binding in self.executor.bindings:
            tensor = bound.tensors.get(binding.buffer)
            if binding.buffer < 0:  # only a target of write-back, which `execute` does not do
                tensor = torch.empty(0, device=self.executor.device)
            elif tensor is None:
                raise PlanishError("bad_program", f"buffer {binding.buffer} ({binding.kind} {binding.name or binding.index}) is not bound")
            elif tensor.dtype is not binding.dtype or tuple(tensor.shape) != binding.shape:
                raise PlanishError("bad_program", f"buffer {binding.buffer} is bound to {tensor.dtype} {list(tensor.shape)}, "
                                   f"declared {binding.dtype} {list(binding.shape)}")  # fmt: skip
            elif binding.buffer in self.states:  # kernels may update it: they get a copy, made anew before each run
                private = torch.empty_strided(binding.shape, binding.strides, dtype=binding.dtype, device=tensor.device)
                initial.append((private, tensor))
                tensor = private
            tensors.append(tensor)
        bindings = {b.buffer for b in self.executor.bindings}
        outputs = {b: bound.tensors[b] for b in self.executor.output_buffers if b in bound.tensors and b not in bindings}
        tables = _Tables(tensors, outputs, initial)
        drawn = self.executor.generator
        if drawn is not None:
            tables.before, tables.behind = bound.tensors.get(drawn.before), bound.tensors.get(drawn.behind)
            if tables.before is None:
                raise PlanishError("bad_program", f"buffer {drawn.before} (the state of torch's generator) is not bound")
        return tables

    def before(self, prepared: _Tables) -> None:
        for private, first in prepared.initial:
            private.copy_(first)
        if prepared.before is not None:
            generators.restore(prepared.before, self.executor.device)

    def spoil(self, prepared: _Tables) -> None:
        for target in prepared.outputs.values():
            target.fill_(torch.nan if target.dtype.is_floating_point or target.dtype.is_complex else random.getrandbits(1))

    def call(self, prepared: _Tables) -> Any:
        return self.executor.execute(prepared.tensors, prepared.outputs)

    def store(self, prepared: _Tables, result: Any) -> None:
        if prepared.behind is not None:
            prepared.behind.copy_(generators.state(self.executor.device))
        for b, target in prepared.outputs.items():
            put(result[b], target, f"buffer {b}")
