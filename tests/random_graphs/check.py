"""One case through everything: eager torch, capture, the graph interpreted, aten steps, and programs of emitted kernels.

Kernels of several cases are compiled together, so a check has two halves: `prepare` asks for binaries, `finish` runs them.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from planish import rt
from planish.capture import Captured, capture
from planish.errors import PlanishError
from planish.executor import Executor
from planish.oracle import layout
from planish.oracle.data import DataSet
from planish.oracle.expected import Expected
from planish.oracle.gate import Accuracy
from planish.oracle.interpret import Interpreter
from planish.oracle.region import judge_output
from planish.runner.handles import Bound, ProgramHandle
from torch.utils import _pytree as pytree

from .case import Case
from .parts import Built, Tool, ToolDied, cpu_levels

# Refusals that are capture's right; each has its reason in the message.
REFUSALS = {"not_exportable", "data_dependent", "unsupported_op"}


@dataclass(frozen=True)
class Failure:
    """What went wrong where. Two failures are alike when stage and kind are equal."""

    stage: str  # task | capture | oracle | aten | emit | compile | load | run | effect | crash
    kind: str
    message: str
    genomes: tuple[str, ...] = ()

    def like(self, other: Failure | None) -> bool:
        return other is not None and (self.stage, self.kind) == (other.stage, other.kind)

    def __str__(self) -> str:
        where = "".join(f"\n    genome: {g}" for g in self.genomes)
        return f"{self.stage}/{self.kind}: {self.message}{where}"


@dataclass(frozen=True)
class Options:
    """How a case is checked. `seed` draws genomes and limits; `genes` are forced where legal."""

    target: str = "cpu"  # cpu | cuda | triton (CUDA programs of Triton kernels, under Triton's interpreter on the CPU)
    programs: int = 2  # 0: aten steps alone
    seed: int = 1
    genes: str = ""
    arch: str = ""  # "": the seed chooses one that this machine runs
    whole: bool = True  # false: the seed may limit how large kernels grow
    compile_only: bool = False
    data_seeds: tuple[int, ...] = (0, 11)


class Fault(Exception):
    """Ends a check with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def short(error: BaseException) -> str:
    """Type and message on one line, without the numbers that shrinking changes."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:600]}"


@contextmanager
def blame(stage: str) -> Iterator[None]:
    """Names the stage in which torch or Planish raised."""
    try:
        yield
    except Fault:
        raise
    except PlanishError as error:
        raise Fault(Failure(stage, error.kind, error.message)) from error
    except Exception as error:
        raise Fault(Failure(stage, getattr(error, "kind", type(error).__name__), short(error))) from error


@dataclass
class Data:
    """One data set: the graph's inputs by value id, what they should give, and buffers to run in."""

    flat: dict[int, torch.Tensor]
    expected: Expected
    buffers: DataSet


@dataclass
class Check:
    """The state of one case. `stats` counts what was seen."""

    case: Case
    options: Options
    tool: Tool
    blobs: Path
    stats: dict[str, int] = field(default_factory=dict)
    captured: Captured | None = None
    answer: dict[str, Any] = field(default_factory=dict)
    built: list[list[Built]] = field(default_factory=list)
    arch: str = ""

    def __post_init__(self) -> None:
        self.device = torch.device("cuda" if self.options.target == "cuda" and not self.options.compile_only else "cpu")
        self.space: dict[str, Any] = {}
        self.outputs: list[tuple[int, int]] = []  # (position among the graph's outputs, value)

    def count(self, name: str, by: int = 1) -> None:
        self.stats[name] = self.stats.get(name, 0) + by

    # -- first half --

    def prepare(self, build: Callable[[dict[str, Any], str], Built]) -> None:
        """Raises Fault. `build` promises a binary for a kernel."""
        with blame("task"):
            exec(compile(self.case.source(), "case.py", "exec"), self.space)
            self.model = self.new_model()
            args, kwargs = self.make(0)
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.new_model()(*args, **kwargs)
        args, kwargs = self.make(0)
        try:
            with blame("capture"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.captured = capture(self.model, args, kwargs, self.blobs)
        except Fault as fault:
            if fault.failure.kind in REFUSALS:
                self.count("refused")
                self.count(f"refused: {fault.failure.message[:160]}")
                return
            raise
        graph = self.captured.graph
        inputs = {i["value"] for i in graph["inputs"]}
        seen: set[int] = set()
        for position, out in enumerate(graph["outputs"]):
            value = out.get("value")
            if value is not None and value not in inputs and value not in seen:
                seen.add(value)
                self.outputs.append((position, value))
        self.count("nodes", len(graph["nodes"]))
        self._ask(build)

    def _ask(self, build: Callable[[dict[str, Any], str], Built]) -> None:
        assert self.captured is not None
        rng = random.Random(self.options.seed)
        cuda = self.options.target in ("cuda", "triton")
        self.arch = self.options.arch or ("sm_90a" if cuda else rng.choice([cpu_levels()[0], *cpu_levels()]))
        if self.options.target == "cuda" and not self.options.compile_only and not self.options.arch:
            self.arch = str(rt.device_info(0)["arch"])
        target = "cuda" if cuda else "cpu"
        request = {"graph": self.captured.graph, "target": target, "arch": self.arch, "programs": self.options.programs, "seed": self.options.seed}
        request["genes"] = self.options.genes
        request["ways"] = True
        request["triton"] = self.options.target == "triton"
        if not self.options.whole and rng.random() < 0.3:
            request["max_nodes"] = rng.choice([6, 12, 25])
        try:
            self.answer = self.tool.ask(request)
        except ToolDied as error:
            raise Fault(Failure("emit", "died", str(error))) from error
        if "error" in self.answer:
            raise Fault(Failure("emit", self.answer["error"]["kind"], self.answer["error"]["message"][:3000]))
        self.count("regions", len(self.answer["regions"]))
        for item in self.answer["programs"]:
            self.built.append([build(k, self.arch) for k in item["program"]["kernels"]])
            self.count("kernels", len(item["program"]["kernels"]))

    # -- second half --

    def finish(self) -> None:
        """Raises Fault."""
        if self.captured is None:
            return
        for builts, item in zip(self.built, self.answer["programs"], strict=True):
            for built, kernel in zip(builts, item["program"]["kernels"], strict=True):
                if built.error:
                    raise Fault(Failure("compile", "compile_error", built.error, tuple(item["genomes"])))
                kernel["entry"] = built.entry
        if self.options.compile_only:
            return
        for number, seed in enumerate(self.options.data_seeds):
            data = self._data(seed)
            try:
                self._eager_agrees(seed, data)
                self._aten(seed, data)
                for builts, item in zip(self.built, self.answer["programs"], strict=True):
                    if builts:
                        self._kernels(data, item, [b.path for b in builts], number == 0)
            finally:
                data.buffers.free()

    def new_model(self) -> torch.nn.Module:
        torch.manual_seed(42)
        init = self.space["get_init_inputs"]() if "get_init_inputs" in self.space else []
        model: torch.nn.Module = self.space["Model"](*init).to(self.device)
        for name, value in list(vars(model).items()):
            if isinstance(value, torch.Tensor):  # a plain attribute, which `to` leaves where it is
                setattr(model, name, value.to(self.device))
        return model

    def make(self, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch.manual_seed(seed)
        with torch.device(self.device):
            call = self.space["get_inputs"]()
        return (tuple(call[0]), dict(call[1])) if isinstance(call, tuple) else (tuple(call), {})

    def _flat(self, seed: int, model: torch.nn.Module) -> tuple[dict[int, torch.Tensor], tuple[Any, Any]]:
        assert self.captured is not None
        call = self.make(seed)
        tensors = [t.detach() for t in self.captured.flat_inputs(*call, model)]
        return dict(zip([i["value"] for i in self.captured.graph["inputs"]], tensors, strict=True)), call

    def _data(self, seed: int) -> Data:
        assert self.captured is not None
        flat, _ = self._flat(seed, self.new_model())
        run = Interpreter(self.captured, range(len(self.captured.nodes)))
        with blame("oracle"):
            buffers = DataSet.create(self.device, ("case", seed, "task"), self.captured.graph["values"], list(flat), self.outputs)
            buffers.write(flat)
            expected = Expected.compute(run, buffers.input_tensors(), self.outputs, self.device, Accuracy("eager"))
        return Data(flat, expected, buffers)

    def _judge(self, stage: str, data: Data, results: dict[int, torch.Tensor], poisons: dict[int, int | None], genomes: tuple[str, ...] = ()) -> None:
        """`results` by position among the graph's outputs."""
        assert self.captured is not None
        for index, (position, value) in enumerate(self.outputs):
            meta = self.captured.graph["values"][value]
            result = results[position]
            if list(result.shape) != meta["shape"] or result.dtype != data.expected.outputs[index].dtype:
                raise Fault(Failure(stage, "shape", f"output {position} is {result.dtype} {list(result.shape)}, the graph says {meta}", genomes))
            with blame("oracle"):
                row, problem, message = judge_output(data.expected, index, result, poisons.get(position), data.buffers.input_tensors())
            self.count("skipped elements", int(row["skipped"]))
            if problem is not None:
                raise Fault(Failure(stage, problem, f"output {position} ({meta['dtype']} {meta['shape']}, seed {data.buffers.seed}): {message}", genomes))

    def _eager_agrees(self, seed: int, data: Data) -> None:
        """The module itself, judged like a candidate: capture and the interpreter must not have changed what it does."""
        assert self.captured is not None
        model = self.new_model()
        args, kwargs = self.make(seed)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = model(*args, **kwargs)
        self._judge("capture", data, self._results(pytree.tree_leaves(result), pytree.tree_leaves((args, kwargs)), dict(model.named_buffers())), {})

    def _results(self, user: list[Any], leaves: list[Any], buffers: dict[str, torch.Tensor]) -> dict[int, torch.Tensor]:
        """The graph's outputs by position, from a call's result and what it changed."""
        assert self.captured is not None
        found: dict[int, torch.Tensor] = {}
        remaining = iter(user)
        for position, out in enumerate(self.captured.graph["outputs"]):
            match out["kind"]:
                case "mutate_buffer":
                    found[position] = buffers[out["target"]]
                case "mutate_input":
                    found[position] = leaves[out["target"]]
                case kind:
                    value = next(remaining)
                    if kind == "user":
                        found[position] = value
        return found

    def _aten(self, seed: int, data: Data) -> None:
        with blame("aten"):
            program = self.answer["aten"]
            self._through_run("aten", seed, data, Executor(program, [], self.blobs, None, self.device, effects=[]), ())

    def _through_run(self, stage: str, seed: int, data: Data, executor: Executor, genomes: tuple[str, ...]) -> None:
        """A call as a shipped module makes it: live tensors in, results out, effects written back."""
        assert self.captured is not None
        model = self.new_model()
        args, kwargs = self.make(seed)
        leaves = pytree.tree_leaves((args, kwargs))
        buffers, params = dict(model.named_buffers()), dict(model.named_parameters())
        tensors = []
        for b in executor.bindings:
            tensors.append(leaves[b.index] if b.kind == "user" else (params[b.name] if b.kind == "param" else buffers[b.name]).detach())
            if genomes and tensors[-1].data_ptr() % 16:  # kernels are only given what a guard lets through
                tensors[-1] = torch.empty_strided(b.shape, b.strides, dtype=b.dtype, device=self.device)
                layout.copy_into(tensors[-1], leaves[b.index])
                leaves[b.index] = tensors[-1]
        before = [(t, t.clone()) for t in (x.detach() for x in tensors)]
        with torch.no_grad():
            results = executor.run(tensors)
        graph = self.captured.graph
        user = [o for o in graph["outputs"] if o["kind"] in ("user", "scalar")]
        if len(results) != len(user):
            raise Fault(Failure("effect", "count", f"{len(results)} results, the graph has {len(user)}", genomes))
        by_value = {i["value"]: i for i in graph["inputs"]}
        for result, out in zip(results, user, strict=True):
            source = by_value.get(out.get("value"))
            if source is not None and source["kind"] == "user" and result is not leaves[source["index"]]:
                raise Fault(Failure("effect", "alias", "an output that is an input is another tensor", genomes))
        self._judge(stage, data, self._results(results, leaves, buffers), {}, genomes)
        changed = {("buffer", o["target"]) for o in graph["outputs"] if o["kind"] == "mutate_buffer"}
        changed |= {("user", o["target"]) for o in graph["outputs"] if o["kind"] == "mutate_input"}
        for (tensor, old), b in zip(before, executor.bindings, strict=True):
            key = (b.kind, b.index if b.kind == "user" else b.name)
            if key not in changed and not _same(tensor, old):
                raise Fault(Failure("effect", "input_changed", f"{b.kind} {b.name or b.index} was changed", genomes))

    def _kernels(self, data: Data, item: dict[str, Any], binaries: list[str], effects: bool) -> None:
        """Into guarded, poisoned buffers; as the runner does."""
        assert self.captured is not None
        genomes = (*item["genomes"], f"arch {self.arch}")
        program = item["program"]
        with blame("load"):
            handle = ProgramHandle(program, binaries, str(self.blobs), self.device)
        slots = {s.value: s for s in (*data.buffers.inputs, *data.buffers.outputs)}
        bound = Bound()
        inputs = {_source(i): i["value"] for i in self.captured.graph["inputs"]}
        for number, buffer in enumerate(program["buffers"]):
            if buffer["role"] in ("input", "param", "state"):
                bound.tensors[number] = slots[inputs[_source(buffer["source"])]].view
        poisons: dict[int, int | None] = {}
        results: dict[int, torch.Tensor] = {}
        values = dict(self.outputs)
        for position, out in enumerate(program["outputs"]):
            if position in values:
                slot = slots[values[position]]
                bound.tensors[out["buffer"]] = slot.view
                results[position] = slot.view
        data.buffers.poison()
        for position in results:
            poisons[position] = slots[values[position]].poison
        with blame("run"):
            prepared = handle.prepare(bound)
            handle.before(prepared)
            handle.store(prepared, handle.call(prepared))
            if self.device.type == "cuda":
                torch.cuda.synchronize()
        broken = data.buffers.broken_guard()
        if broken is not None:
            raise Fault(Failure("run", "guard", f"bytes outside {broken} were overwritten", genomes))
        changed = data.buffers.changed_input()
        if changed is not None:
            raise Fault(Failure("run", "input_changed", f"{changed} was changed", genomes))
        self._judge("run", data, results, poisons, genomes)
        self.count("programs run")
        if effects and any(o["kind"] != "user" for o in program["outputs"]):
            with blame("effect"):  # by the same kind of executor: Triton's kernels run interpreted
                executor = type(handle.executor)(program, binaries, self.blobs, rt.find_library(), self.device, effects=[])
                self._through_run("effect", data.buffers.seed, data, executor, genomes)


def _source(source: dict[str, Any]) -> tuple[Any, ...]:
    return (source["kind"], source.get("index", -1) if source["kind"] == "user" else source.get("blob") or source.get("name"))


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def simplest(message: str) -> str:
    """A message with its numbers and ids replaced, to group failures by."""
    return re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e-?\d+)?", "#", message)[:100]
