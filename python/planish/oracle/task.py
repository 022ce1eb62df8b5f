"""One opened task: the model, its graph, and its data for any seed and regime."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakSet

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parameter import UninitializedBuffer
from torch.utils import _pytree as pytree

from planish import generators
from planish.callers import mode_of
from planish.capture import Captured, LoadedTask, capture, check_forward, draws, load_task, opaque
from planish.capture.live import note_written_once
from planish.capture.opaque import Module
from planish.capture.source import line_of
from planish.capture.task import answer_of
from planish.capture.variation import draws_of
from planish.capture.written_places import leaves_of_places
from planish.errors import PlanishError, first_line, is_device_failure, task_error
from planish.oracle import agreement, clocks, integers, masks, memory, module_runs, outside_draws, regimes
from planish.oracle.interpret import Double, Interpreter, Mode, ancestors, op_name
from planish.oracle.promoted import UNINITIALIZED, Undecided
from planish.time_limit import TimeIsOverError, time_limit
from planish.wire import report_stage

if TYPE_CHECKING:
    from planish.oracle.data import DataSet
    from planish.oracle.region import Region

#: Whether parameters stay as they were constructed; a number: as they are constructed under that variation.
Own = bool | int

OPEN_SEED = 0
MEMORY_PATIENCE = 60.0
CAPTURE_PATIENCE = 45.0  # seconds
_SAME_ELEMENTS = frozenset({"view", "permute", "unsqueeze", "squeeze", "expand", "slice", "select", "clone", "_to_copy", "alias", "detach"})
_RANDOM_HINT = "numbers that torch's default generator draws are verified, others are not: draw with torch, or pass them as inputs"


class Task:
    """Owns the model and the captured graph on `device`. Not thread-safe. Construction raises PlanishError for every way in which a
    task can be unfit: see docs/accuracy.md."""

    def __init__(self, path: str, device: torch.device, blobs: str, variant: int = 0) -> None:
        self.device = device
        self.patience = MEMORY_PATIENCE  # seconds that it may still wait for memory that others hold
        self.regions: WeakSet[Region] = WeakSet()  # each keeps expectations
        self.data_sets: list[ReferenceType[DataSet]] = []  # of all regions
        self.path = Path(path)
        self.blobs = blobs
        self.loaded: LoadedTask = load_task(path, variant)
        self.module: Module | None = None  # what stands for the graph that it does not have
        self.sizes_drawn = False  # its generator draws sizes: all data sets have those of one call
        _refuse_too_large(self.loaded, device)
        try:
            self.model = self.loaded.model.to(device)
            self._open(blobs)
        except PlanishError as error:
            if error.kind == "out_of_memory" and error.__cause__ is not None and "byte" not in error.message:
                raise memory.out_of_memory(f"{self.path}: the reference itself", error.__cause__) from error
            raise
        except Exception as error:
            if memory.is_exhausted(error):
                raise memory.out_of_memory(f"{self.path}: the task", error) from error
            raise

    def _open(self, blobs: str) -> None:
        if any(isinstance(b, UninitializedBuffer) for b in self.model.buffers()):
            message = "has lazy layers whose state does not exist before their first call"
            raise task_error("not_exportable", self.path, message, "give the layers their sizes, or call the module once before you hand it over")
        args, kwargs = self.loaded.make_inputs(OPEN_SEED, self.device)
        buffers = {name: b.detach().clone() for name, b in self.model.named_buffers(remove_duplicate=False)}
        versions = [t._version for t in _tensors((args, kwargs))]
        before = outside_draws.state()
        with clocks.watched() as time:
            first = self._first_run((args, kwargs), buffers)
        seeded, left = self.seeded, self.left
        if [t._version for t in _tensors((args, kwargs))] != versions:
            first = [t.clone() for t in first]
            args, kwargs = self.loaded.make_inputs(OPEN_SEED, self.device)
        if outside_draws.state() != before:
            self._refuse_outside_draws(first, buffers)
        if time.found:
            self._refuse_clocks(time, first, buffers)
        self.captured = self._capture(args, kwargs, first, buffers)
        if self.loaded.live and self.module is None and note_written_once(self.path, leaves_of_places(self.captured.graph)):
            first = [t.clone() for t in self._first_run(self.loaded.make_inputs(OPEN_SEED, self.device), buffers)]
            args, kwargs = self.loaded.make_inputs(OPEN_SEED, self.device)
        self._restore(buffers)
        self.graph: dict[str, Any] = self.captured.graph
        self.inputs: list[int] = [i["value"] for i in self.graph["inputs"]]
        flat = [t.detach() for t in self.captured.flat_inputs(args, kwargs)]
        self._own = dict(zip(self.inputs, flat, strict=True))
        #: Whether the newest results_of_model() drew from torch's generator.
        self.drew = False
        #: The inputs that are states of torch's generator: at most one.
        self.generators = [i["value"] for i in self.graph["inputs"] if i["kind"] == draws.INPUT]
        for value in self.generators:
            self._own[value] = seeded
        self._user = {i["value"] for i in self.graph["inputs"] if i["kind"] == "user"}
        self._check_runs(first)
        self._check_draws(seeded, left)
        self.input_bytes = sum(t.numel() * t.element_size() for i, t in self._own.items() if i in self._user)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        positive = regimes.variances(self.captured)
        self._profiles = {v: regimes.profile(t, v in positive) for v, t in self._own.items()}
        self._generated = any(not self._profiles[v].redraw for v in self._user)
        self._bounded = regimes.bounded_domain(self.captured)
        self.fragile = regimes.fragile_indices(self.captured)
        self.labels = regimes.label_inputs(self.captured)
        self.integers = {v: whole for v, whole in integers.arithmetic(self.captured).items() if v not in self.labels}
        self.masks = masks.found(self.captured, self._own, {*self.labels, *(v for v, whole in self.integers.items() if whole)})
        self._with_partner = regimes.with_partner({v: self._own[v] for v in self._user if self._profiles[v].redraw})
        self.first_seed: int | None = None
        self._variation: tuple[int, dict[int, torch.Tensor]] | None = None
        for value in self._user:  # only the shapes are needed from here on, and one of these may be 13 GB
            t = self._own[value]
            self._own[value] = t if t.numel() < 1 << 16 else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")

    def _capture(self, args: Any, kwargs: Any, first: Sequence[torch.Tensor], buffers: dict[str, torch.Tensor]) -> Captured:
        """Its graph, or where it has none the module itself."""
        try:
            captured = self._graph(args, kwargs)
            refuse_uninitialized(captured, self.path)
            return captured
        except PlanishError as refusal:
            if self.loaded.live or refusal.kind not in opaque.KINDS:
                raise
            self._restore(buffers)
            args, kwargs = self.loaded.make_inputs(OPEN_SEED, self.device)
            captured = opaque.opaque(self.model, args, kwargs, self.path, refusal)
            module = captured.nodes[0].target
            assert isinstance(module, Module)
            self.module = module
            self._restore(buffers)
            self.sizes_drawn = module_runs.check(module, self.loaded, (OPEN_SEED, OPEN_SEED + 1), self.device, refusal)
            self._refuse_random_module(first, buffers)
            self._restore(buffers)
            return captured

    def _graph(self, args: Any, kwargs: Any) -> Captured:
        """Python that looks at values in a loop is followed for hours: it has CAPTURE_PATIENCE."""
        try:
            with time_limit(None if self.loaded.live else CAPTURE_PATIENCE):
                return capture(self.model, args, kwargs, Path(self.blobs), self.path, self.loaded.numbers)
        except TimeIsOverError:
            pass
        if module_runs.looks_at_values(lambda: self._first_run(self.loaded.make_inputs(OPEN_SEED, self.device), {})):
            message = f"was not captured within {CAPTURE_PATIENCE:g} s: its Python looks at values of tensors, one after the other"
            raise task_error("not_exportable", self.path, message, "work on whole tensors, with masks in place of sizes")
        return capture(self.model, args, kwargs, Path(self.blobs), self.path, self.loaded.numbers)

    def _refuse_random_module(self, first: Sequence[torch.Tensor], buffers: dict[str, torch.Tensor]) -> None:
        """With torch's generator in one state the module must give the same; where it draws, to the bit."""
        assert self.module is not None
        same = torch.equal if self.module.draws else agreement.agree
        for _ in range(2):
            again = self._first_run(self.loaded.make_inputs(OPEN_SEED, self.device), buffers)
            if len(again) != len(first) or not all(same(a, b) for a, b in zip(again, first, strict=True)):
                message = "two runs on equal inputs, with torch's generator in one state, differ: the task is random"
                raise task_error("random_ops", self.path, message, _RANDOM_HINT)

    def _first_run(self, call: Any, buffers: dict[str, torch.Tensor], seed: int = 1) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        self.seeded = generators.state(self.device)
        found = [t.detach() for t in _tensors(check_forward(self.path, self.model, call))]
        self.left = generators.state(self.device)
        self._restore(buffers)
        return found

    def _refuse_outside_draws(self, first: list[torch.Tensor], buffers: dict[str, torch.Tensor]) -> None:
        """The model's call drew from Python's or NumPy's generator: the next draws must not change its results."""
        again = self._first_run(self.loaded.make_inputs(OPEN_SEED, self.device), buffers)
        if not all(torch.equal(a, b) for a, b in zip(first, again, strict=True)):
            message = "its results depend on random numbers that it draws with Python's random or numpy.random"
            raise task_error("random_ops", self.path, message, _RANDOM_HINT)

    def _refuse_clocks(self, time: clocks.Asked, first: list[torch.Tensor], buffers: dict[str, torch.Tensor]) -> None:
        """The model's call asked for the time: another must not change its results."""
        seeded, left = self.seeded, self.left

        def run() -> list[torch.Tensor]:
            return self._first_run(self.loaded.make_inputs(OPEN_SEED, self.device), buffers)

        def equal(others: list[torch.Tensor], same: Callable[[torch.Tensor, torch.Tensor], bool]) -> bool:
            return len(first) == len(others) and all(same(a, b) for a, b in zip(first, others, strict=True))

        call = self.loaded.make_inputs(OPEN_SEED, self.device)  # which may ask clocks of their own
        with clocks.turned(time, clocks.LATER), clocks.watched() as held:
            later = self._first_run(call, buffers)
        if held.line:
            message = f"{held.line} asks a clock that its code keeps (as a default argument, in an object, a class or a closure)"
            why = "whether results depend on it cannot be told"
            raise task_error("not_exportable", self.path, f"{message}, and {why}", "call it by its module (`time.time()`), or give forward the time")
        # Results that differ in their last bits from run to run anyway are held to less.
        differs = not equal(later, torch.equal) and (equal(run(), torch.equal) or not equal(later, agreement.agree))
        self.seeded, self.left = seeded, left
        if differs:
            message = "its results depend on the time at which it is called"
            raise task_error("not_exportable", self.path, message, "give forward the time as an argument, or leave it out of the results")

    def _restore(self, buffers: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, buffer in self.model.named_buffers(remove_duplicate=False):
                if name in buffers and not torch.equal(buffer, buffers[name]):
                    buffer.copy_(buffers[name])

    def _check_runs(self, first: list[torch.Tensor]) -> None:
        """The graph, interpreted, must do what the model did, whatever the random state; and the truth must be a number."""
        outputs = [o["value"] for o in self.graph["outputs"] if "value" in o]
        everything = Interpreter(self.captured, range(len(self.captured.nodes)))
        torch.manual_seed(2)
        try:
            run = everything.run(self._own, outputs, Mode())
        except RuntimeError as error:
            if memory.is_exhausted(error) or is_device_failure(error):
                raise
            message = f"what torch.export made of it does not run: {first_line(error)}"
            hint = "it goes another way while it is traced, as code does that asks for the type of a tensor (type(x) is torch.Tensor); leave that part out"
            raise task_error("not_exportable", self.path, message, hint) from error
        users = [o["value"] for o in self.graph["outputs"] if o["kind"] == "user"]
        close = all(agreement.agree(run[v], theirs) for v, theirs in zip(users, first, strict=False))
        if not close and not self._is_only_rounding(everything, run, users, first):
            torch.manual_seed(3)
            again = everything.run(self._own, outputs, Mode())
            if not all(agreement.agree(run[v], again[v]) for v in outputs):
                raise task_error("random_ops", self.path, "two runs on equal inputs differ: the task is random", "put the model in eval mode")
            self._refuse_fast_path(run, users)
            message = "the captured graph does not compute what the model does, in double precision either"
            raise task_error("capture_mismatch", self.path, message, "the model may be random, or depend on state that export does not see: register_buffer it")
        for value in users:
            if not bool(torch.isnan(run[value]).any()) if run[value].is_floating_point() else True:
                continue
            exact = everything.run(self._own, [value], Double())[value]
            count = int(torch.isnan(exact).sum())
            if count:
                message = f"the reference has {count} NaN among {exact.numel()} outputs on the task's own data"
                raise task_error("reference_nan", self.path, message, "check get_inputs() and the model: nothing can be proven about NaN")

    def _refuse_fast_path(self, run: dict[int, torch.Tensor], users: list[int]) -> None:
        """Raises where the model does what the graph does as soon as torch's fast path for transformer encoders is off."""
        if not torch.backends.mha.get_fastpath_enabled():
            return
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            model, call = self.loaded.rebuild().to(self.device), self.loaded.make_inputs(OPEN_SEED, self.device)
            slow = [t.detach() for t in _tensors(check_forward(self.path, model, call))]
        except PlanishError:
            return
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        if all(agreement.agree(run[v], t) for v, t in zip(users, slow, strict=False)):
            message = "nn.TransformerEncoder takes torch's fast path, which writes zeros where src_key_padding_mask leaves out; the graph computes those places"
            raise task_error("capture_mismatch", self.path, message, "nn.TransformerEncoder(..., enable_nested_tensor=False) computes them in eager as well")

    def _check_draws(self, before: torch.Tensor, left: torch.Tensor) -> None:
        """The graph must leave torch's generator as the model does."""
        if self.module is not None:
            return
        behind = [o["value"] for o in self.graph["outputs"] if o["kind"] == draws.OUTPUT]
        run = Interpreter(self.captured, range(len(self.captured.nodes)))
        ends = run.run(self._own, behind, Mode())[behind[0]] if behind else before
        if not torch.equal(ends, left):
            model, call = self.loaded.rebuild().to(self.device), self.loaded.make_inputs(OPEN_SEED, self.device)
            with draws.Drawing() as seen:
                check_forward(self.path, model, call)
            what = draws.unused(seen.found, self.captured.nodes)
            message = f"{what} random numbers that nothing uses, so that the captured graph leaves torch's generator in another state than the model does"
            raise task_error("random_ops", self.path, message, "leave the draw out where its numbers are not used, or put the model in eval mode")

    def _is_only_rounding(self, everything: Interpreter, run: dict[int, torch.Tensor], users: list[int], first: list[torch.Tensor]) -> bool:
        """Whether graph and model, whose results differ, do the same beyond rounding."""
        report_stage("comparing it with its captured graph in double precision")
        call = self.loaded.make_inputs(OPEN_SEED, self.device)
        self._restore_generator(self._own)
        try:
            twin = agreement.twin_of(self.model, lambda: self.loaded.rebuild().to(self.device))
            return agreement.same_in_double(everything, self._own, users, twin, call)
        except Undecided:
            return agreement.explained_by_rounding(everything, self._own, users, run, first)

    def results_of_model(self, inputs: Mapping[int, torch.Tensor], caller: str = "") -> list[torch.Tensor] | None:
        """What the model itself gives, its tensors in order, with these values of all the graph's inputs; `caller` (planish.callers) has it in that one's
        mode. None where it cannot be called so."""
        try:
            leaves, tree = pytree.tree_flatten(self.loaded.make_inputs(OPEN_SEED, self.device))
            state: dict[str, torch.Tensor] = {}
            for item in self.graph["inputs"]:
                if item["kind"] == "user":
                    leaves[item["index"]] = inputs[item["value"]].clone()
                elif item["kind"] in ("param", "buffer"):
                    state[item["name"]] = inputs[item["value"]].clone()
            args, kwargs = pytree.tree_unflatten(leaves, tree)
            self._restore_generator(inputs)
            before = generators.state(self.device)
            with torch.no_grad(), mode_of(caller, self.model):
                called = partial(torch.func.functional_call, self.model, state)
                results = [t.detach() for t in _tensors(answer_of(lambda *a, **k: called(a, k), args, kwargs))]
            self.drew = not torch.equal(before, generators.state(self.device))
            return results
        except Exception as error:
            if memory.is_exhausted(error):
                raise
            return None

    def _restore_generator(self, inputs: Mapping[int, torch.Tensor]) -> None:
        for value in self.generators:
            generators.restore(inputs[value], self.device)

    def buffer_bytes(self) -> int:
        """Of all data sets that have not been freed."""
        return sum(data.bytes for ref in self.data_sets if (data := ref()) is not None)

    def forget(self) -> None:
        """Lets go of what all regions keep. They compute it again where it is asked for."""
        for region in self.regions:
            region.forget()

    def wait_for_others(self, need: int) -> bool:
        """Whether `need` bytes are there in the end, which they would be if strangers let go of theirs. Where they did not, nobody waits again."""
        device = self.device
        if self.patience <= 0 or need > memory.without_others(device, self.buffer_bytes()):
            return False
        memory.give_all_back(device)
        waited = memory.wait_for(need, lambda: memory.usable(device), self.patience)
        found = need <= memory.usable(device)
        self.patience = self.patience - waited if found else 0.0
        return found

    def vary(self, variation: int) -> None:
        """Constructs the model with other parameters, for data that keep the task's own. Raises PlanishError(`skipped`) where its graph does
        not hold for them."""
        if self._variation is not None and self._variation[0] == variation:
            return
        if self.loaded.vary is None:
            raise PlanishError("skipped", "a live module cannot be constructed anew")
        try:
            model = self.loaded.vary(variation, draws_of(self.graph, variation)).to(self.device)
        except PlanishError as error:
            raise PlanishError("skipped", error.message) from error
        state = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
        found: dict[int, torch.Tensor] = {}
        for item in self.graph["inputs"]:
            if item["kind"] not in ("param", "buffer"):
                continue
            value, tensor = item["value"], state.get(item["name"])
            if tensor is None or tensor.shape != self._own[value].shape or tensor.dtype is not self._own[value].dtype:
                raise PlanishError("skipped", f"constructed with other values it has no {item['name']} of the same form")
            found[value] = self._own[value].clone().copy_(tensor.detach())  # laid out as the graph knows it
        args, kwargs = self.loaded.make_inputs(OPEN_SEED, self.device)
        users = [o["value"] for o in self.graph["outputs"] if o["kind"] == "user"]
        flat = dict(zip(self.inputs, (t.detach().clone() for t in self.captured.flat_inputs(args, kwargs)), strict=True))
        run = Interpreter(self.captured, range(len(self.captured.nodes))).run({**flat, **found}, users, Mode())
        theirs = [t.detach() for t in _tensors(check_forward(self.path, model, (args, kwargs)))]
        if not all(agreement.agree(run[v], t) for v, t in zip(users, theirs, strict=False)):
            raise PlanishError("skipped", "with other parameters its graph does not do what the model does")
        self._variation = (variation, found)

    def has(self, regime: str) -> bool:
        """Whether it has data of this regime."""
        return regimes.applies(regime, self.labels, self.integers, self.masks)

    def values(self, seed: int, regime: str, wanted: Sequence[int], nonfinite: bool = True, own_parameters: Own = False) -> dict[int, torch.Tensor]:
        """Graph values for this data, computed eagerly from the task's inputs. Equal arguments give equal values."""
        missing = [v for v in wanted if v not in self._own]
        run = Interpreter(self.captured, ancestors(self.captured, missing))
        # A region of a network of hundreds of parameters reads few of them.
        inputs = self.draw(seed, regime, nonfinite, own_parameters, only={*wanted, *run.inputs_needed()})
        found = {v: inputs[v] for v in wanted if v in inputs}
        if missing:
            found.update(run.run(inputs, missing, Mode()))
        return found

    def draw(self, seed: int, regime: str, nonfinite: bool = True, own_parameters: Own = False, only: Collection[int] | None = None) -> dict[int, torch.Tensor]:
        """The graph's inputs by value id, or `only` these of them, which are then the same. `own_parameters`: parameters and buffers as the
        model was constructed with, whatever the seed; a number: with as `vary` constructed it."""
        if regime == "task" and self.first_seed is None:
            self.first_seed = seed
        found: dict[int, torch.Tensor] = {}
        theirs: dict[int, torch.Tensor] = {}
        if regime == "task" or self._generated:
            args, kwargs = self.loaded.make_inputs(OPEN_SEED if self.sizes_drawn else seed, self.device)
            theirs = dict(zip(self.inputs, self.captured.flat_inputs(args, kwargs), strict=True))
        own = own_parameters is not False or (regime == "task" and seed == self.first_seed)
        varied: dict[int, torch.Tensor] = {}
        if not isinstance(own_parameters, bool):
            self.vary(own_parameters)
            varied = self._variation[1] if self._variation is not None else {}
        for item in self.graph["inputs"]:
            value, kind = item["value"], item["kind"]
            if only is not None and value not in only:
                continue
            generator = torch.Generator(self.device).manual_seed(_seed_of(seed, regime, value))
            known = self._profiles[value]
            if kind == draws.INPUT:
                found[value] = generators.seeded(_seed_of(seed, regime, value), self.device)
            elif kind == "user":
                like = theirs[value].detach() if value in theirs else self._own[value]
                if regime == "labels" and value in self.labels:
                    found[value] = regimes.draw_labels(like, self.labels[value], generator)
                elif regime == "no_labels" and value in self.labels:
                    found[value] = regimes.no_labels(like, self.labels[value])
                elif regime == "integers" and value in self.integers:
                    common = torch.Generator(self.device).manual_seed(_seed_of(seed, regime, -1))
                    found[value] = integers.draw(like, self.integers[value], generator, common)
                elif regime == "masks" and value in self.masks:
                    found[value] = masks.draw(like, self.masks[value], generator)
                elif regime == "task" and self.sizes_drawn:
                    found[value] = regimes.redraw_parameter(like, known, generator)
                else:
                    found[value] = regimes.draw_input(like, known, regime, generator, self._bounded, nonfinite)
                    if regime == "rows" and value in self._with_partner and not self._bounded:
                        regimes.equal_rows(found[value], torch.Generator(self.device).manual_seed(_seed_of(seed, regime, -1)))
            elif kind == "const" or own:
                found[value] = varied.get(value, self._own[value])
            else:
                found[value] = regimes.redraw_parameter(self._own[value], known, generator, regime)
        return found


def refuse_uninitialized(captured: Captured, path: Path) -> None:
    """Raises PlanishError(`random_ops`) for memory that is returned as it was found."""
    for node in captured.nodes:
        name = op_name(node)
        if name in UNINITIALIZED and node.meta["val"].numel() and _is_returned(node):
            raise task_error("random_ops", path, f"uses {name}{line_of(node)}, whose memory is returned with whatever lies there",
                             "write all of it before it is returned, or make it with torch.zeros")  # fmt: skip


def _is_returned(node: torch.fx.Node) -> bool:
    """Whether a result is this node's, or a view or a copy of it."""
    return any(user.op == "output" or (op_name(user) in _SAME_ELEMENTS and user.args[0] is node and _is_returned(user)) for user in node.users)


def _refuse_too_large(loaded: LoadedTask, device: torch.device) -> None:
    """Learns the inputs' size without making them. Generators that fake tensors cannot follow are simply run later."""
    try:
        with FakeTensorMode():
            call = loaded.make_inputs(OPEN_SEED, "cpu")
        need = sum(t.numel() * t.element_size() for t in _tensors(call))
    except Exception:
        return
    there = memory.available(device)
    if need > there:
        message = f"the inputs take {memory.gigabytes(need)}, {memory.gigabytes(there)} are free"
        raise task_error("out_of_memory", loaded.path, message, "use smaller inputs")


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _seed_of(seed: int, regime: str, value: int) -> int:
    digest = hashlib.sha256(f"{seed}:{regime}:{value}".encode()).digest()
    return int.from_bytes(digest[:7], "little")
