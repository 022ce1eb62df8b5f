"""Modules under test: a shipped folder, or a foreign KernelBench solution (`ModelNew`), on bound buffers.

Bound buffers are matched by name: `in3` is input 3 of the task's graph, `out0` its output 0. Parameters of the module are swapped for
the bound ones (they are live, and checked to be used); module buffers are reset to the bound values before each call. A solution whose
state is not the task's (places.py) keeps its own, reset as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from planish import generators
from planish.callers import call_of, differentiates, inputs_of, mode_of
from planish.capture import LoadedTask, draws, load_task
from planish.capture.beside import offer
from planish.capture.variation import INIT_SEED, draws_of, varied
from planish.errors import PlanishError
from planish.executor import read_scalar
from planish.owned_folder import owned_folder
from planish.runner.function import as_model, function_of
from planish.runner.handles import Bound, Handle, due, put
from planish.runner.own_tmp import advice
from planish.runner.places import Places, by_name, places
from planish.runner.seen import ALL, GRADIENTS, bonds, bonds_between, changed, settings
from planish.runner.wound import Wound
from planish.ship import holders, wrapped
from planish.ship.live import constructor_arguments, load, load_module_file, solution_in
from planish.ship.watch import Watch


def init_inputs(task: LoadedTask) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the task's Model is constructed with, drawn as the task itself draws it. Raises PlanishError(no_model) for a live task."""
    if task.live or task.module is None:
        raise PlanishError("load_failed", f"{task.path}: a live module has no constructor to share", "verify its shipped folder instead")
    torch.manual_seed(INIT_SEED)
    return constructor_arguments(getattr(task.module, "get_init_inputs", list)())


def _in_modes_of(model: nn.Module, other: nn.Module) -> nn.Module:
    """`other`, training or not as the model is, and its parts as the model's of the same names: a task may hold some in another mode."""
    with suppress(NotImplementedError):  # an exported program has one mode
        other.train(model.training)
    twins = dict(model.named_modules())
    for name, child in other.named_modules():
        if name in twins:
            child.training = twins[name].training
    return other


def _as_usual(construct: Callable[[], Any]) -> Any:
    torch.manual_seed(INIT_SEED)
    return construct()


def load_model(path: Path, task: LoadedTask, construct: Callable[[Callable[[], Any]], Any] = _as_usual) -> nn.Module:
    """A new-style model for the task, on the CPU: from a shipped folder (given the live module where there is one), or from a .py
    with a class ModelNew or, without one, a function (function.py). Raises PlanishError(load_failed) with what the foreign code raised."""
    try:
        if path.is_dir():
            if not (path / "reference.py").exists():
                return load(path, task.rebuild())
            found = load_module_file(path / "module.py")
        else:
            # As the harness it is written for runs it: beside its own files, and with the task's names at hand.
            offer(path.resolve().parent)
            found = load_module_file(path, "planish_solution", vars(task.module) if task.module is not None else None)
        made = getattr(found, "ModelNew", None)
        if made is None and path.is_file() and not task.live:
            return as_model(function_of(found, path), task.rebuild().train(task.model.training), path)
        if not callable(made):
            raise PlanishError("load_failed", f"{path}: defines no class ModelNew", "name the optimised module's class ModelNew")
        args, kwargs = init_inputs(task)
        model: nn.Module = construct(lambda: made(*args, **kwargs))
        if not isinstance(model, nn.Module):
            raise PlanishError("load_failed", f"{path}: ModelNew makes a {type(model).__name__}, not a torch.nn.Module", "derive it from nn.Module")
        return _in_modes_of(task.model, model)
    except PlanishError:
        raise
    except (Exception, SystemExit) as error:
        raise PlanishError("load_failed", f"{path}: {type(error).__name__}: {error}{advice(error)}") from error


class ProgramWatch:
    """Counts how many of a module's calls its program answered, where it is a shipped one with a program."""

    def __init__(self, model: nn.Module) -> None:
        self._attachment = getattr(model, "_planish", None)
        shipped = getattr(self._attachment, "shipped", None)
        # A folder of an earlier version, or a foreign module with such an attribute, cannot say.
        self._runs = getattr(shipped, "runs", None) if getattr(shipped, "mode", "") == "program" else None
        self.restart()

    def restart(self) -> None:
        self._before = self._runs() if self._runs is not None else 0
        self.calls = 0

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Calls in it do not count, whoever answers them."""
        before, calls = self._runs() if self._runs is not None else 0, self.calls
        try:
            yield
        finally:
            self.calls = calls
            self._before += self._runs() - before if self._runs is not None else 0

    def report(self) -> dict[str, Any]:
        """{calls, ran, reason}; `ran` is None where there is no program."""
        if self._runs is None:
            return {"calls": self.calls, "ran": None, "reason": ""}
        ran = min(self.calls, int(self._runs()) - self._before)
        why = str(getattr(self._attachment, "reason", "") or getattr(self._attachment, "why", "") or "a check of the call refused it")
        return {"calls": self.calls, "ran": ran, "reason": why if ran < self.calls else ""}


#: Bytes of a result up to which it is kept until the next call, and elements of it that are looked at then; bytes of earlier ones, and how many.
_WATCHED, _LOOKED_AT = 1 << 30, 1 << 16
_WATCHED_LONG, _MOST_WATCHED, _MOST_OLDEST = 1 << 26, 64, 8
_APART = 8  # times the memory that a result needs


@dataclass
class _Call:
    leaves: list[Any]
    params: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    buffers: list[tuple[dict[str, Any], str, torch.Tensor]] = field(default_factory=list)
    mutated: list[tuple[int, torch.Tensor]] = field(default_factory=list)  # (leaf, its first value)
    outputs: list[tuple[dict[str, Any], int, torch.Tensor]] = field(default_factory=list)  # (graph output, user leaf, target)
    scalars: list[tuple[int, Any]] = field(default_factory=list)  # (user leaf, what it must be)
    args: Any = ()
    kwargs: Any = None
    copies: list[tuple[str, torch.Tensor, torch.Tensor]] = field(default_factory=list)  # (what, the copy that it was given, the bound one)
    watch: Any = None  # the objects among the arguments, as they are before each call
    nothing: Any = None  # a result that no call made
    generator: torch.Tensor | None = None  # the state of torch's that a call begins with
    untouched: list[tuple[str, dict[str, Any], str, torch.Tensor]] = field(default_factory=list)  # buffers that the task's calls leave as they are


class ModuleHandle(Handle):
    """`state`: parameters and buffers come from the bound data, where they can be told to be the task's (`places`)."""

    def __init__(self, path: Path, task_path: Path, seed: int, state: bool, device: torch.device, graph: dict[str, Any] | None,
                 reference: bool = False, variation: int | None = None) -> None:  # fmt: skip
        """`reference`: the task's own model, whatever the path says. `variation`: constructed with other parameters, which it keeps."""
        task = load_task(task_path)
        self.task, self.settings = task, settings()
        path = solution_in(path) or path
        if graph is None:
            from planish.capture import capture  # with half of PyTorch's Python, for which those that are given a graph have no use

            args, kwargs = task.make_inputs(seed, device)
            with owned_folder("planish-blobs-") as blobs:
                graph = capture(task.rebuild().to(device), args, kwargs, blobs, task_path, task.numbers).graph
        self.graph = graph
        self.tree = holders.loads(graph["input_tree"])
        self.result_tree = holders.loads(graph["output_tree"])
        self.earlier: list[tuple[torch.Tensor, torch.Tensor]] = []  # (a result that was handed out, some of its elements then)
        self.oldest: list[tuple[torch.Tensor, torch.Tensor]] = []  # of these the first ones, which stay
        construct = _as_usual if variation is None else partial(varied, variation, draws_of(graph, variation))
        model = _in_modes_of(task.model, task.rebuild()) if reference else load_model(path, task, construct)
        self.model = model = model.to(device)  # parameters that hold other tensors are others then
        # What Planish ships has the task's own parts.
        if not state or variation is not None:
            self.places = Places("own")
        else:
            self.places = by_name(model) if reference or path.is_dir() or task.live else places(model, task.model)
        owned: list[tuple[dict[str, Any], str, torch.Tensor]]
        owned = [(m._buffers, key, b.clone()) for m in self.model.modules() for key, b in m._buffers.items() if b is not None]
        # A buffer that the task's calls leave alone is state that a solution keeps from call to call, as its users would find it.
        changes = any(out["kind"] == "mutate_buffer" for out in graph["outputs"])
        self.first = owned if self.places.kind == "own" and changes else []
        self.device = device
        self.given: set[int] = set()  # memory that callers gave
        self.usual: dict[int, frozenset[str]] | None = None  # what the task's own results share
        self.rehearse = False  # on copies of what it may not write, to tell whether it does
        self.watch = ProgramWatch(self.model)
        self.made = 0  # calls, of all kinds
        self.differentiates = False  # the present caller records gradients, so that results may ask for some
        self.wound = Wound(self.model, path) if path.is_file() and not reference else None

    def prepare(self, bound: Bound) -> _Call:
        leaves: list[Any] = [None] * self.tree.num_leaves
        for scalar in self.graph["scalars"]:
            leaves[scalar["index"]] = read_scalar(scalar["arg"])
        call = _Call(leaves)
        bound_state = self.places.kind != "own"
        mutated = {o["target"] for o in self.graph["outputs"] if o["kind"] == "mutate_input"}
        moving = {o["target"] for o in self.graph["outputs"] if o["kind"] == "mutate_buffer"}
        for position, item in enumerate(self.graph["inputs"]):
            tensor = bound.names.get(f"in{position}")
            if tensor is None:
                if item["kind"] == "user":
                    raise PlanishError("bad_program", f"input {position} ({item['name']}) is not bound")
                continue
            if item["kind"] == draws.INPUT:
                call.generator = tensor
            if self.rehearse and item["kind"] in ("user", "param"):
                what = "parameter" if item["kind"] == "param" else "input"
                call.copies.append((f"its {what} {item['name']!r}", tensor.clone(), tensor))
                tensor = call.copies[-1][1]
            if item["kind"] == "user":
                leaf = item["index"]
                if leaf in mutated:  # the caller's data stay as they are: the call gets a copy
                    call.mutated.append((leaf, tensor))
                    tensor = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
                leaves[leaf] = tensor
                self.given.add(tensor.untyped_storage().data_ptr())
            elif item["kind"] == "param" and bound_state:
                own = self.places.parameters.get(item["name"])
                if own is not None and own.shape == tensor.shape and own.dtype is tensor.dtype:
                    call.params.append((own, tensor))
            elif item["kind"] == "buffer" and bound_state:
                owner, key = self._owner(item["name"])
                own_buffer = None if owner is None else owner.get(key)
                if owner is not None and own_buffer is not None and own_buffer.shape == tensor.shape and own_buffer.dtype is tensor.dtype:
                    call.buffers.append((owner, key, tensor))
                    if item["name"] not in moving:
                        call.untouched.append((item["name"], owner, key, tensor))
        user = tensor_output = 0
        for out in self.graph["outputs"]:
            if out["kind"] != "scalar":  # out0, out1, … count the tensors
                target = bound.names.get(f"out{tensor_output}")
                if target is not None:
                    call.outputs.append((out, user, target))
                tensor_output += 1
            else:
                call.scalars.append((user, read_scalar(out["arg"])))
            user += out["kind"] in ("user", "scalar")
        self.user_outputs = user
        call.args, call.kwargs = pytree.tree_unflatten(leaves, self.tree)
        call.watch = Watch(call.args, call.kwargs)
        return call

    def _owner(self, name: str) -> tuple[dict[str, Any] | None, str]:
        """Where the module keeps the task's buffer of that name, and under which key."""
        own = self.places.buffers.get(name, name)
        found = wrapped.place(dict(self.model.named_modules()), own) if own in wrapped.buffers(self.model) else None
        return found or (None, own.rpartition(".")[2])

    def before(self, prepared: _Call) -> None:
        prepared.watch.restore()
        for buffers, key, first in self.first:
            buffers[key].copy_(first)
        for own, value in prepared.params:
            if own.data_ptr() != value.data_ptr():
                own.data = value
        for owner, key, value in prepared.buffers:
            owner[key].copy_(value)
        for leaf, value in prepared.mutated:
            prepared.leaves[leaf].copy_(value)
        if prepared.generator is not None:
            generators.restore(prepared.generator, self.device)

    def call(self, prepared: _Call) -> Any:
        self.watch.calls += 1
        self.made += 1
        return self.model(*prepared.args, **prepared.kwargs)

    def call_as(self, caller: str, prepared: _Call) -> Any:
        args, kwargs = prepared.args, prepared.kwargs
        if not prepared.watch:  # objects are known by who they are
            args, kwargs = pytree.tree_unflatten(inputs_of(caller, prepared.leaves, (leaf for leaf, _ in prepared.mutated)), self.tree)
        self.made += 1
        if caller == "other_mode" and self.wound is not None:
            self.wound.put_back(module._buffers for module in self.model.modules())
        with self.watch.aside(), mode_of(caller, self.model):
            return call_of(caller, lambda: self.model(*args, **kwargs))

    def store_as(self, caller: str, prepared: _Call, result: Any) -> None:
        self.differentiates = differentiates(caller)
        try:
            self.store(prepared, result)
        finally:
            self.differentiates = False

    def _refuse_changed(self, earlier: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for given, then in earlier:
            if given.untyped_storage().nbytes() < given.element_size() * given.numel() or not torch.equal(_some(given), then):
                message = "what an earlier call had returned was written into: a caller that keeps results would find others"
                raise PlanishError("launch_failed", message, "return memory of its own from each call")

    def _forget(self, newest: int) -> None:
        """Earlier results, but for those that are kept longer: a ring of buffers comes round some calls later, a thread that writes comes late."""
        held, first = 0, max(0, len(self.earlier) - newest)
        while first > 0 and len(self.earlier) - first < _MOST_WATCHED:
            held += self.earlier[first - 1][0].untyped_storage().nbytes()
            if held > _WATCHED_LONG:
                break
            first -= 1
        del self.earlier[:first]

    def look(self, prepared: _Call) -> None:
        self._refuse_changed([*self.oldest, *self.earlier])
        for name, owner, key, first in prepared.untouched:
            now = owner.get(key)
            if now is None or not bool(((now == first) | ((now != now) & (first != first))).all()):
                message = f"a call changes its buffer {name!r}, which the task's leaves as it is: later calls would find another"
                raise PlanishError("launch_failed", message, "keep what changes from call to call elsewhere, and let no result depend on it")
        if self.wound is not None:
            self.wound.look(self.made)

    def wind(self, calls: int) -> list[str]:
        return self.wound.wind(calls) if self.wound is not None else []

    def store(self, prepared: _Call, result: Any) -> None:
        # Results first, before anything waits for the device: work that nobody waited for would be done by then.
        leaves = self._leaves(prepared, result)
        for value, target, what in self._due(prepared, leaves):
            put(value, target, what)
        for what, copy, tensor in prepared.copies:
            if not bool(((copy == tensor) | ((copy != copy) & (tensor != tensor))).all()):
                raise PlanishError("input_write", f"it writes into {what}, which is its caller's", "work on a copy of it, or not in place")
        self._refuse_changed([*self.earlier[:1], *self.earlier[-len(prepared.outputs) :]])
        if (left := changed(self.settings)) is not None:
            raise PlanishError("launch_failed", f"it leaves {left}, which its caller's code then runs with", "put back what it changes of the process")
        self._refuse_shared(prepared, leaves)
        watched = self._to_watch(leaves)
        if len(self.oldest) < _MOST_OLDEST and sum(given.untyped_storage().nbytes() for given, _ in (*self.oldest, *watched)) <= _WATCHED_LONG:
            self.oldest += watched  # however many calls a second holds, who writes that late writes into these
        self.earlier += watched
        self._forget(len(leaves))

    def _leaves(self, prepared: _Call, result: Any) -> list[Any]:
        """Of a result that has the form and the numbers of the task's."""
        answer = prepared.watch.answer(result)
        holders.register(answer)
        leaves, tree = pytree.tree_flatten(answer)
        if tree != self.result_tree and not _alike(tree, self.result_tree):
            raise PlanishError("launch_failed", f"forward returned {_nesting(tree)}, the task's returns {_nesting(self.result_tree)}")
        for user, value in prepared.scalars:
            if type(leaves[user]) is not type(value) or leaves[user] != value:
                raise PlanishError("launch_failed", f"output {user} is {str(leaves[user])[:60]!r}, expected {value!r}")
        return leaves

    def _due(self, prepared: _Call, leaves: list[Any]) -> Iterator[tuple[Any, torch.Tensor, str]]:
        """(what came, the bound output that it belongs in, what to call it)."""
        for out, user, target in prepared.outputs:
            if out["kind"] == "user":
                yield leaves[user], target, f"output {user}"
            elif out["kind"] == "mutate_input":
                yield prepared.leaves[out["target"]], target, f"input {out['target']} after the call"
            elif out["kind"] == "mutate_buffer":
                owner, key = self._owner(out["target"])
                yield None if owner is None else owner[key], target, f"buffer {out['target']} after the call"
            elif out["kind"] == draws.OUTPUT:
                yield generators.state(self.device), target, "the state of torch's generator after the call"

    def call_nothing(self, prepared: _Call) -> Any:
        if prepared.nothing is None:
            leaves: list[Any] = [torch.empty(0)] * self.result_tree.num_leaves
            for user, value in prepared.scalars:
                leaves[user] = value
            for out, user, target in prepared.outputs:
                if out["kind"] == "user":
                    leaves[user] = torch.empty_strided(target.shape, target.stride(), dtype=target.dtype, device=target.device)
            prepared.nothing = pytree.tree_unflatten(leaves, self.result_tree)
        return prepared.nothing

    def results(self, prepared: _Call, result: Any) -> list[torch.Tensor]:
        return [_readable(due(value, target, what)) for value, target, what in self._due(prepared, self._leaves(prepared, result))]

    def _refuse_shared(self, prepared: _Call, leaves: list[Any]) -> None:
        """A caller may write into what it got, wherever it may into the task's own result. Raises PlanishError(launch_failed)."""
        allowed = frozenset({GRADIENTS} if self.differentiates else ())
        places = [u for _, u, _ in prepared.outputs if u < len(leaves)]
        ours = {u: found - allowed for u, found in self._bonds(places, leaves, prepared.leaves, self.model).items() if found - allowed}
        if not ours or (self.usual is not None and all(found <= self.usual.get(user, frozenset()) for user, found in ours.items())):
            return
        if self.usual is None:  # few do: only then the task's own is asked
            self.usual = self._of_the_task(prepared)
        for user, found in ours.items():
            if extra := sorted(found - self.usual.get(user, frozenset())):
                hint = "return memory of its own, laid out as the task's, that requires no gradients"
                raise PlanishError("launch_failed", f"output {user} {extra[0]}, the task's does not", hint)

    @staticmethod
    def _bonds(places: Iterable[int], leaves: list[Any], inputs: list[Any], model: nn.Module) -> dict[int, frozenset[str]]:
        between = bonds_between({u: leaves[u] for u in places})
        return {u: bonds(leaves[u], inputs, model) | between.get(u, frozenset()) for u in places}

    def _of_the_task(self, prepared: _Call) -> dict[int, frozenset[str]]:
        """The same of the task's own model, on copies of these inputs; everything is permitted where it cannot be called."""
        try:
            model = _in_modes_of(self.task.model, self.task.rebuild()).to(self.device)
            copies = {id(leaf): leaf.clone() for leaf in prepared.leaves if isinstance(leaf, torch.Tensor)}
            given = [copies.get(id(leaf), leaf) for leaf in prepared.leaves]
            args, kwargs = pytree.tree_unflatten(given, self.tree)
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                leaves = pytree.tree_leaves(model(*args, **kwargs))
            return self._bonds(range(len(leaves)), leaves, given, model)
        except (RuntimeError, PlanishError):
            return {user: ALL for _, user, _ in prepared.outputs}

    def _to_watch(self, leaves: list[Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Results that are the caller's own from now on: those that do not lie in memory that it gave, or that is the module's."""
        theirs = {t.untyped_storage().data_ptr() for t in wrapped.state(self.model)}
        tensors = [t for t in leaves if isinstance(t, torch.Tensor) and t.numel() and t.untyped_storage().nbytes() <= _WATCHED]
        known = theirs | self.given
        return [(t.detach(), _some(t)) for t in tensors if t.untyped_storage().data_ptr() not in known]


def _alike(ours: pytree.TreeSpec, theirs: pytree.TreeSpec) -> bool:
    """The same nesting, where a list may stand for a tuple: no caller that takes the parts apart can tell."""
    same = ours.type is theirs.type and ours.context == theirs.context
    if not same and not (ours.type in (list, tuple) and theirs.type in (list, tuple)):
        return False
    return ours.num_children == theirs.num_children and all(map(_alike, ours.children(), theirs.children()))


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """As its memory is: what is lazy done, what lies far apart together."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor if reach <= _APART * tensor.numel() else tensor.contiguous()


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of its bits, or of a part of them spread over a large one."""
    flat = tensor.detach().reshape(-1)
    return flat[:: 1 + flat.numel() // _LOOKED_AT].clone().view(torch.uint8)


def _nesting(tree: pytree.TreeSpec) -> str:
    """In words that fit a line: the types and keys, with a tensor or number at each `*`."""
    return str(pytree.treespec_dumps(tree)) if tree.num_leaves > 8 else repr(pytree.tree_unflatten([_Leaf()] * tree.num_leaves, tree))


class _Leaf:
    def __repr__(self) -> str:
        return "*"
