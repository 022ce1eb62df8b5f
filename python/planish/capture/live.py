"""A live module as a task on disk: written by `planish.optimize(module, inputs)`, read by the oracle, the runner and the baseline.

The folder holds the user's own module, pickled, so that what is proved and timed is what the user runs. Where it cannot be pickled, or
not read again elsewhere, it holds the exported program instead, which needs no class definition: the same operators and parameters without
the Python around them. Beside it lie the example inputs and a manifest. Fresh inputs are made by drawing elements of the examples with
replacement, so that they stay in the domain and keep the distribution of what the user gave. Offsets (integers that rise from 0) keep their
first and last, and get their steps in another order; permutations get another order, and so do lengths that add up to a size of another tensor,
and integers without a double that say where the module writes (written_places.py), which whoever captures it notes beside the manifest;
symmetric positive definite matrices stay it, with rows and columns in another order.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from planish.capture import by_value, weights
from planish.capture.task import Inputs, LoadedTask, check_forward, taken_apart, with_numbers
from planish.errors import first_line, task_error
from planish.ship import holders, reach
from planish.ship.guards import configuration, name_types

MODULE = "module.pt"
WEIGHTS = "weights.bin"
PROGRAM = "program.pt2"
INPUTS = "inputs.pt"
MANIFEST = "task.json"
DISTINCT = "distinct.json"
_DRAWN_THERE = range(1 << 16, 1 << 28)  # elements of an example whose data are drawn where they are wanted: more would want 2 GB of places


def write_live(
    folder: Path, name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], exported: bool = False, numbers: Sequence[int] = ()
) -> str:
    """Writes the task into `folder` (created) and returns its form: `module`, or `exported` where that was asked for or nothing else is
    possible. `numbers`: leaves of the call whose integers it may be captured for. Raises PlanishError (not_exportable, inputs_failed)."""
    folder.mkdir(parents=True, exist_ok=True)
    with taken_apart(Path(name), "an argument"), holders.registered(args, kwargs):
        return _write(folder, name, module, args, kwargs, exported, numbers)


def _write(folder: Path, name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], exported: bool, numbers: Sequence[int]) -> str:
    if not by_value.save(pytree.tree_map(lambda x: placed(x, "cpu"), (args, kwargs)), folder / INPUTS):
        raise task_error("inputs_failed", name, "the example inputs cannot be pickled", "pass tensors, numbers, and tuples, lists or dicts of them")
    about: dict[str, Any] = {"name": name, "training": module.training, "modules": configuration(module)}
    if numbers:
        about["numbers"] = list(numbers)
    with torch.no_grad():
        own = not exported and by_value.save({"module": module, "nodes": _own_nodes()}, folder / MODULE, folder / WEIGHTS)
    if own:
        about |= {"form": "module", "path": [entry for entry in sys.path if entry], "source_sha256": weights.digest(folder / MODULE, folder / WEIGHTS)}
    else:
        from planish.capture.export import export_program

        if numbers:  # what an exported program was made for is nowhere in it
            raise task_error("not_exportable", name, "cannot be pickled, and only a module that can is captured for numbers of its call",
                             "define the module's classes in a file that can be imported, or install cloudpickle")  # fmt: skip
        _refuse_changes(module, args, kwargs, name)
        program = export_program(module, args, kwargs, Path(name))
        _detach_copies(program)
        _save(program, folder / PROGRAM, name)
        about |= {"form": "exported", "twin": configuration(_exported(folder)), "source_sha256": weights.digest(folder / PROGRAM)}
    (folder / DISTINCT).unlink(missing_ok=True)  # of an earlier call
    (folder / MANIFEST).write_text(json.dumps(about))
    return str(about["form"])


def _refuse_changes(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> None:
    """An exported program no longer has the assignments that its module made: they are looked for in a call of a copy. What cannot be copied
    is not looked at."""
    try:
        copied, args, kwargs = copy.deepcopy((module, args, kwargs))
    except Exception:  # whatever a class of the user's raises when it is copied
        return
    if reach.reach(copied).problem:  # modules that a function reads are not copied with it
        return
    buffers = [(b, b.detach().clone()) for b in module.buffers()]  # of what a function holds, which is not copied with it
    with torch.random.fork_rng(devices=sorted({t.device.index for t in module.parameters() if t.is_cuda})):
        try:
            check_forward(Path(name), copied, (args, kwargs))
        finally:
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


def load_live(folder: Path) -> LoadedTask:
    """The task that write_live() left in `folder`. Raises PlanishError (not_a_task, not_importable)."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        raise task_error("not_a_task", folder, "a folder, not a task", "name a Python file with Model and get_inputs; planish suite takes a folder of them")
    about = json.loads(manifest.read_text())
    # Where the user's own modules are found; behind everything of ours.
    sys.path.extend(entry for entry in about.get("path", ()) if entry not in sys.path)

    def rebuild() -> torch.nn.Module:
        return _unpickled(folder) if about.get("form") == "module" else _exported(folder)

    model = rebuild()
    examples: Inputs = torch.load(folder / INPUTS, weights_only=False)
    holders.register(examples)
    sizes = frozenset(size for leaf in pytree.tree_leaves(examples) if isinstance(leaf, torch.Tensor) for size in leaf.shape)

    def make_inputs(seed: int, device: torch.device | str) -> Inputs:
        here = torch.Generator().manual_seed(seed)
        there = here if torch.device(device).type == "cpu" else torch.Generator(device).manual_seed(seed)
        leaves, tree = pytree.tree_flatten(examples)
        once = _written_once(folder)

        def draw(leaf: int, x: Any) -> Any:
            large = isinstance(x, torch.Tensor) and x.numel() in _DRAWN_THERE
            return redraw(placed(x, device) if large else x, there if large else here, sizes, leaf in once)

        drawn = [draw(leaf, x) for leaf, x in enumerate(leaves)]
        call: Inputs = pytree.tree_unflatten([placed(x, device) for x in drawn], tree)
        return with_numbers(call, known) if known else call

    numbers = about.get("numbers", ())
    known = {leaf: pytree.tree_leaves(examples)[leaf] for leaf in numbers}
    return LoadedTask(about["name"], folder, about["source_sha256"], model, make_inputs, rebuild, live=True, numbers=numbers)


def note_written_once(folder: Path, leaves: Collection[int]) -> bool:
    """Notes the leaves of the call whose integers say where the module writes, for every process that draws data of the task from here on. Whether
    that changes what is drawn: without such leaves, or the folder of a call, it does not."""
    noted = _written_once(folder)
    if not (leaves or noted) or not (folder / INPUTS).exists():
        return False
    examples = pytree.tree_leaves(torch.load(folder / INPUTS, weights_only=False))
    once = [leaf for leaf in leaves if isinstance(examples[leaf], torch.Tensor) and _are_distinct(examples[leaf])]
    if set(once) == noted:
        return False
    (folder / DISTINCT).write_text(json.dumps(once))
    return True


def _written_once(folder: Path) -> set[int]:
    noted = folder / DISTINCT
    return set(json.loads(noted.read_text())) if noted.exists() else set()


def redraw(x: Any, generator: torch.Generator, sizes: Collection[int] = (), written_once: bool = False) -> Any:
    """A tensor like `x`, laid out as it is, of elements drawn from its own. Elements that share memory (as those of an expanded tensor)
    share it again. What is no tensor stays. The example itself is never given away: forward may write into what it gets. `sizes`: of all tensors of
    the call. `written_once`: integers without a double that stay it."""
    if not isinstance(x, torch.Tensor):
        return x
    if x.layout is not torch.strided or x.is_nested or x.numel() < 2:
        return x.clone()
    if _are_positive_definite(x):
        order = torch.randperm(x.shape[-1], generator=generator, device=x.device)
        return torch.empty_like(x).copy_(x[..., order, :][..., order])
    if _is_permutation(x):
        return x[torch.randperm(len(x), generator=generator, device=x.device)]
    if _are_offsets(x):
        steps = x.diff()
        return torch.cat([x[:1], steps[torch.randperm(len(steps), generator=generator, device=x.device)].cumsum(0, dtype=x.dtype)])
    if _are_lengths(x, sizes):
        return x[torch.randperm(len(x), generator=generator, device=x.device)]
    if written_once:
        return torch.empty_like(x).copy_(x.reshape(-1)[torch.randperm(x.numel(), generator=generator, device=x.device)].reshape(x.shape))
    picks = torch.randint(x.numel(), (_extent(x),), generator=generator, device=x.device)
    return x.reshape(-1)[picks].as_strided(x.shape, x.stride(), 0)


def _is_whole(x: torch.Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)


def _is_permutation(x: torch.Tensor) -> bool:
    """Whether it holds each place once, in another order than theirs: who reads with it relies on that."""
    return (
        _is_whole(x)
        and x.ndim == 1
        and x.is_contiguous()
        and not _are_offsets(x)
        and torch.equal(x.sort()[0], torch.arange(len(x), dtype=x.dtype, device=x.device))
    )


def _are_distinct(x: torch.Tensor) -> bool:
    return _is_whole(x) and x.layout is torch.strided and x.numel() > 1 and x.unique().numel() == x.numel()


def _are_lengths(x: torch.Tensor, sizes: Collection[int]) -> bool:
    """Whether they may be how long parts of another tensor are: with others a module that sums them up would leave it."""
    return _is_whole(x) and x.ndim == 1 and x.is_contiguous() and int(x.min()) >= 0 and int(x.sum()) in sizes


def _are_offsets(x: torch.Tensor) -> bool:
    return _is_whole(x) and x.ndim == 1 and x.is_contiguous() and int(x[0]) == 0 and bool((x[1:] >= x[:-1]).all())


def _are_positive_definite(x: torch.Tensor) -> bool:
    """Whether it is a symmetric (complex: Hermitian) positive definite matrix, or a batch of such, up to rounding."""
    if x.dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128) or x.ndim < 2 or not x.shape[-1] == x.shape[-2] > 1:
        return False
    return torch.allclose(x, x.mH) and not bool(torch.linalg.cholesky_ex(x)[1].any())


def placed(x: Any, device: torch.device | str) -> Any:
    """A tensor on `device`, detached, with the strides that it has: programs are made for one layout, that of the user's call."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach()
    there = x.to(device)
    if there.layout is not torch.strided or there.stride() == x.stride() or not x.numel():
        return there
    return x.as_strided((_extent(x),), (1,)).to(device).as_strided(x.shape, x.stride(), 0)


def _extent(x: torch.Tensor) -> int:
    """Elements from the first to just after the last one in memory."""
    return 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))


def _unpickled(folder: Path) -> torch.nn.Module:
    try:
        with weights.read_from(folder / WEIGHTS):
            saved = torch.load(folder / MODULE, map_location="cpu", weights_only=False)
        for node, name in saved["nodes"]:
            if node not in pytree.SUPPORTED_NODES:
                torch.export.register_dataclass(node, serialized_type_name=name)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise task_error("not_importable", folder, f"the module cannot be read in another process: {type(error).__name__}: {lines[0]}",
                           "define its classes in a file that can be imported, or install cloudpickle") from error  # fmt: skip
    module: torch.nn.Module = saved["module"]
    return module


def _exported(folder: Path) -> torch.nn.Module:
    # Without the guards that torch puts in front: the user's own code does not pay for them either.
    try:
        return torch.export.load(str(folder / PROGRAM)).module(check_guards=False)
    except Exception as error:
        cause = error.__cause__ or error.__context__ or error  # torch wraps what went wrong in a sentence that does not say it
        raise task_error("not_exportable", folder, f"its exported program cannot be read in another process: {first_line(cause)}",
                         "define operators and classes in a file that can be imported") from error  # fmt: skip


def _save(program: torch.export.ExportedProgram, file: Path, name: str) -> None:
    try:
        torch.export.save(program, str(file))
    except Exception as error:  # whatever its serialiser meets that it has no words for, under a type of its own
        file.unlink(missing_ok=True)
        reason = first_line(error).partition("; when serializing node")[0]
        raise task_error("not_exportable", name, f"can be neither pickled nor saved as an exported program: {reason}",
                         "define the module's classes in a file that can be imported, or install cloudpickle") from error  # fmt: skip


def _detach_copies(program: torch.export.ExportedProgram) -> None:
    """What torch.tensor(…) in a forward leaves in the graph, a detach in place, cannot be exported a second time."""
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.detach_.default:
            node.target = torch.ops.aten.detach.default
    program.graph_module.recompile()


def _own_nodes() -> list[tuple[type, str | None]]:
    """Dataclasses that were registered as nestings by code that another process does not import."""
    name_types()
    return [
        (cls, getattr(pytree.SUPPORTED_SERIALIZED_TYPES.get(cls), "serialized_type_name", None))
        for cls in pytree.SUPPORTED_NODES
        if hasattr(cls, "__dataclass_fields__") and not cls.__module__.startswith("torch.")
    ]
