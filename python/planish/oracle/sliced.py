"""Tasks whose fp64 reference does not fit in memory: fp64 on a random slice of the batch, everything against eager.

The slice is a contiguous range of dim 0 of the user inputs, captured again, so that shapes inside the graph fit. It counts only
where eager on the slice agrees with the slice of eager on everything.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from planish import float8
from planish.capture import Captured, capture
from planish.errors import PlanishError, task_error
from planish.oracle import flags, layout, measure
from planish.oracle.expected import Expected, Output, Sliced
from planish.oracle.gate import Accuracy, Pair, limit
from planish.oracle.interpret import Interpreter, Mode
from planish.oracle.task import OPEN_SEED, Task

_AGREEMENT = 64.0  # floors


class Slicer:
    """One slice of a task. Raises PlanishError(`out_of_memory`) when the task has no batch to cut."""

    def __init__(self, task: Task, share: float, need: int) -> None:
        self.task = task
        users = [i for i in task.graph["inputs"] if i["kind"] == "user"]
        shapes = [task.graph["values"][i["value"]]["shape"] for i in users]
        largest = max((s for s in shapes if s), key=lambda s: _count(s), default=None)
        self.need = need
        if task.module is not None:
            raise self._impossible("it has no graph")
        if task.generators:
            raise self._impossible("it draws random numbers, of which a slice draws others")
        if largest is None or largest[0] < 2:
            raise self._impossible("it has no batch to take a slice of")
        self.batch = int(largest[0])
        self.rows = max(1, min(self.batch // 2, int(self.batch * share)))
        self.start = random.Random(0x51CE).randrange(0, self.batch - self.rows + 1)
        call = task.loaded.make_inputs(OPEN_SEED, task.device)
        cut = pytree.tree_map(self._cut_leaf, call)
        self.captured: Captured = capture(task.model, cut[0], cut[1], Path(task.blobs), task.path, task.loaded.numbers)
        mine, theirs = self.captured.graph, task.graph
        if [n["op"] for n in mine["nodes"]] != [n["op"] for n in theirs["nodes"]] or len(mine["values"]) != len(theirs["values"]):
            raise self._impossible("a slice of its batch is another program")

    def take(self, value: int, tensor: torch.Tensor) -> torch.Tensor:
        """The slice's part of a value of the whole: the one dim that differs, cut in proportion."""
        small = self.captured.graph["values"][value]["shape"]
        for dim, (a, b) in enumerate(zip(tensor.shape, small, strict=True)):
            if a != b:
                if a * self.rows != b * self.batch:
                    raise self._impossible("a slice of its batch has another shape")
                tensor = tensor.narrow(dim, self.start * a // self.batch, b)
        return tensor

    def is_cut(self, value: int) -> bool:
        return self.captured.graph["values"][value]["shape"] != self.task.graph["values"][value]["shape"]

    def expect(self, run: Interpreter, inputs: Mapping[int, torch.Tensor], outputs: Sequence[tuple[int, int]], accuracy: Accuracy) -> Expected:
        """The expectation of the whole (against eager) with that of the slice (against fp64) as its `part`."""
        device = self.task.device
        wanted = list(dict.fromkeys(v for _, v in outputs))
        with flags.eager_context(device, accuracy):
            eager = run.run(inputs, wanted, Mode())
        small = {v: self.take(v, t) for v, t in inputs.items()}
        part = Expected.compute(Interpreter(self.captured, run.nodes), small, outputs, device, accuracy)
        checked = set()
        for index, (_, value) in enumerate(outputs):
            if self.is_cut(value):
                self._must_agree(part.outputs[index], self.take(value, eager[value]))
                checked.add(index)
        if not checked:
            raise self._impossible("no output has a batch to take a slice of")
        found = Expected(run, device, accuracy, [self._whole(run, p, v, eager[v]) for p, v in outputs], "slice")
        found.part = Sliced(part, small, checked, self.take)
        return found

    def _whole(self, run: Interpreter, position: int, value: int, eager: torch.Tensor) -> Output:
        meta = run.captured.graph["values"][value]
        order = layout.storage_order(meta["shape"], meta["strides"])
        flat, dtype = layout.flat(eager, order), eager.dtype
        flat = float8.places(flat, dtype) if float8.is_float8(dtype) else flat
        out = Output(position, value, dtype, tuple(meta["shape"]), order, flat, flat)
        if flat.is_floating_point():
            out.ref = measure.reference(flat, flat)
        return out

    def _must_agree(self, out: Output, of_whole: torch.Tensor) -> None:
        flat = layout.flat(of_whole, out.order)
        flat = float8.places(flat, out.dtype) if float8.is_float8(out.dtype) else flat
        if out.ref is None:
            agree = bool((flat == out.eager).all())
        else:
            errors = measure.compare(flat, out.ref)
            agree = Pair(errors.fro, errors.max).within(limit(out.eager_error, out.dtype).times(_AGREEMENT))
        if not agree:
            raise self._impossible("its batch elements depend on each other")

    def _cut_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.ndim and leaf.shape[0] == self.batch:
            return leaf.narrow(0, self.start, self.rows).clone()
        return leaf

    def _impossible(self, why: str) -> PlanishError:
        message = f"the fp64 reference needs about {self.need} bytes, more than there are, and {why}"
        return task_error("out_of_memory", self.task.path, message, "use smaller inputs")


def _count(shape: Sequence[int]) -> int:
    total = 1
    for dim in shape:
        total *= int(dim)
    return total
