"""`planish.optimize` where a model cannot be captured whole: its pieces are found and searched, the whole call is judged and timed, and the module
runs in pieces from then on where that is faster."""

from __future__ import annotations

import copy
import inspect
import io
import logging
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo import pgo as _pgo
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from planish import generators
from planish.capture.task import Inputs
from planish.errors import PlanishError
from planish.pieces import store
from planish.pieces.judge import Verdict, judge, twin
from planish.pieces.runner import Runner
from planish.pieces.search import Piece, Search
from planish.pieces.split import split
from planish.runner.timing import Stopwatch, median_interval, settled
from planish.ship import context
from planish.ship.guards import COMPILE_OPTIONS
from planish.ship.live import add, detach

#: Of dynamo's settings, while a model is taken apart. Numbers that modules count in are no constants of the graphs, and hooks count.
_log = logging.getLogger("planish.calls")
_DYNAMO = {"allow_unspec_int_on_nn_module": True, "skip_nnmodule_hook_guards": False}
_RECOMPILES = 64  # layers alike that differ in a number are graphs of one piece of code
_NO_PROGRAM = "none of its pieces has a program for such a call"
_HANDLES = "_planish_handles"  # torch's count of handles when a module's hooks were looked at
_IN_VAIN = 16  # such calls, one after the other; from then on one of so many is tried
_CALLS = 3  # before it is known what changes from one to the next
_TIMING = 10.0  # seconds, for each that is timed
_BLOCK = 0.1
_PLACE = re.compile(r"Graph break (?:in user code at|from \S+) (.+:\d+)")
_REASON = re.compile(r"Graph Break Reason: (?:(?:Failed to handle|Encountered) graph break .*\n\s*)*(.+)")


class Pieces:
    """What a module's forward asks first (ship/live.py): runs it under dynamo, each graph as what was found for it."""

    quiet = True
    fast = None  # there is no short way around the module's own __call__

    def __init__(self, original: type[nn.Module], form: Any, settings: str) -> None:
        """`form`: of the calls that it is for (_form). `settings`: with which pieces were found that the store keeps (Search.wanted)."""
        self._original = original
        self._form = form
        self._settings = settings
        self._compiled: Callable[..., Any] | None = None
        self.runners: list[Runner] = []
        self.recording = True
        self.opaque: list[str] = []
        self.refused: dict[str, int] = {}
        self.ran = 0
        self._hooks: list[tuple[str, Any]] | None = None  # of the parts, with their names, when it was first called
        self._in_vain = 0  # calls, one after the other, in which no program ran
        self._new = _CALLS + 1  # calls until dynamo has seen what changes from one to the next

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        why = "" if context.context_is_plain() else context.describe()
        if torch.is_grad_enabled() and any(t.requires_grad for t in (*module.parameters(), *_tensors((args, kwargs)))):
            why = "gradients may be asked for; call it under torch.no_grad() where none are wanted"
        elif not self._has_its_hooks(module):
            why = "hooks were added to its parts, or removed, since it was taken to pieces"
        if not why and _form(args, kwargs) != self._form:
            why = "it was made for tensors of other shapes or types"  # dynamo would make a graph for any, and take that for the example's too
        if why:
            return self._refuse(why)
        if self._in_vain >= _IN_VAIN and self.refused[_NO_PROGRAM] % _IN_VAIN:
            return self._refuse(_NO_PROGRAM)  # dynamo's guards would cost something, and gain nothing
        if self._compiled is None:
            _pgo.reset_code_state()  # by code, whoever runs it: what it learned of another example is nothing for this one
            self._compiled = self._compile()
        before, self._new = Runner.answered, max(0, self._new - 1)
        with _dynamo() if self._new else nullcontext():
            result = self._compiled(module, *args, **kwargs)
        if Runner.answered == before:
            self._in_vain += 1
            self._refuse(_NO_PROGRAM)
        else:
            self._in_vain = 0
            self.ran += 1
        return result

    def _has_its_hooks(self, module: nn.Module) -> bool:
        """True if the parts of a module have the hooks of the first call. torch's compiler looks at places without a hook only while _dynamo() holds;
        graphs of later calls would leave out one that is registered. That it may have been, torch's count of handles says."""
        known = vars(module)
        if self._hooks is None or self._hooks or known.get(_HANDLES) != RemovableHandle.next_id:
            stores = [(name, store) for name, part in module.named_modules() if name for store in (part._forward_hooks, part._forward_pre_hooks)]
            hooks = [(name, hook) for name, store in stores for hook in store.values()]
            if self._hooks is None:
                self._hooks = hooks
            if hooks != self._hooks:
                return False
            known[_HANDLES] = RemovableHandle.next_id
        return True

    def _refuse(self, why: str) -> Any:
        if why not in self.refused and not self.quiet:
            _log.info("the module's own code ran instead of its pieces: %s", why)
            text = f"planish: the module's own code ran instead of its pieces: {why} (said once; planish.status(module) counts)"
            warnings.warn(text, context.FallbackWarning, stacklevel=5)
        self.refused[why] = self.refused.get(why, 0) + 1
        return context.FALLBACK

    def _compile(self) -> Callable[..., Any]:
        more = {"recompile_limit": _RECOMPILES, "isolate_recompiles": True}
        known = inspect.signature(torch.compile).parameters
        return torch.compile(self._original.forward, backend=self._backend, **{k: v for k, v in more.items() if k in known})  # type: ignore[call-overload, no-any-return]

    def _backend(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        whole, opaque = placed(graph, self._runner)
        self.opaque += [name for name in opaque if name not in self.opaque]
        return whole

    def _runner(self, module: fx.GraphModule) -> Runner:
        self.runners.append(made := Runner(module, self._called))
        return made

    def _called(self, runner: Runner) -> None:
        """A graph that comes after the search is one of another call, or process: it has a program where an equal one has."""
        if not self.recording and runner.graph is not None:
            runner.settle(store.find(runner.graph.key, 0.0, self._settings))

    def start_again(self) -> None:
        """Forgets what it was called with: the next call is the first that dynamo sees, and graphs are for its numbers before they are for any."""
        self._compiled, self.runners, self.ran, self.refused, self._in_vain, self._new, self._hooks = None, [], 0, {}, 0, _CALLS + 1, None

    def __deepcopy__(self, memo: Any) -> Pieces:
        return self

    def __reduce__(self) -> Any:
        return _again, (self._original, self._form, self._settings)

    def changed(self, module: nn.Module, name: str, value: Any) -> None:
        """Nothing to do: dynamo compares attributes itself."""


def _form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Shapes and types of the tensors of a call, in whichever way it is written."""
    return [(tuple(t.shape), t.dtype, t.device.type) for t in _tensors((args, kwargs))]


def _again(original: type[nn.Module], form: Any, settings: str) -> Pieces:
    """In another process: dynamo takes the module apart once more, and finds what lies in the store."""
    made = Pieces(original, form, settings)
    made.recording = False
    return made


def placed(graph: fx.GraphModule, runner: Callable[[fx.GraphModule], Runner]) -> tuple[Callable[..., Any], list[str]]:
    """The graph with a runner in place of each piece, and the steps that stay as they are."""
    whole, pieces, opaque = split(graph)
    if not pieces:
        return runner(graph), opaque
    for name, piece in pieces.items():
        delattr(whole, name)
        whole.__dict__[name] = runner(piece)
    return whole.forward, opaque


@generators.kept()
def optimize(module: nn.Module, name: str, call: Inputs, refusal: PlanishError, search: Search) -> dict[str, Any]:
    """The result document (docs/python.md). `module` runs in pieces afterwards where that is proved and faster."""
    device = next((t.device for t in _tensors((call, list(module.parameters()), list(module.buffers())))), torch.device("cpu"))
    why = refusal.message.removeprefix(f"{name}: ")
    search.say(f"{name} cannot be captured whole: {why}; it is optimised in pieces")
    result: dict[str, Any] = {"task": name, "target": device.type, "outcome": "no_improvement", "form": "pieces", "shipped": None, "refusal": why}
    original: type[nn.Module] = getattr(type(module), "_planish_original", type(module))
    attachment = Pieces(original, _form(*call), search.wanted)
    eager = detach(twin(module))
    running = add(attachment, detach(twin(module)))
    broken: dict[str, str] = {}
    with torch.no_grad(), redirect_stdout(io.StringIO()):
        with _breaks(broken):
            _call(running, call, _CALLS, attachment.runners)
        breaks = [f"{place} ({reason})" for place, reason in broken.items()]
        for line in breaks:
            search.say(f"a graph ends at {line}")
        for step in attachment.opaque:
            search.say(f"stays as it is: {step}")
        whole_ms = _median(_times({"eager": eager}, call, device, 1.0)["eager"])
        pieces = search.run(attachment.runners, whole_ms)
        attachment.recording = False
        result |= {"pieces": [piece.document() for piece in pieces], "breaks": breaks, "opaque": attachment.opaque}
        if not any(piece.found is not None and piece.found.folder is not None for piece in pieces):
            return result | {"reason": _nothing_found(pieces)}
        search.say("judging the whole call against the module in double precision")
        accuracy = str(search.settings.get("accuracy", "eager"))
        before = Runner.answered
        verdict = judge(eager, running, call, accuracy, name, refusal)
        if not verdict.problem and Runner.answered == before:
            verdict.problem = "its pieces did not run when it was judged"
        result["accuracy"] = _accuracy(verdict, accuracy)
        if verdict.problem:
            return result | {"reason": verdict.problem}
        attachment.start_again()
        _call(running, call, _CALLS)
        rows = {"eager": eager, "shipped": running} | _baselines(eager, search)
        search.say(f"timing the whole call beside {', '.join(n for n in rows if n != 'shipped')}")
        result |= _claim(_times(rows, call, device, _TIMING))
    if result["outcome"] == "improved":
        attachment.quiet, attachment.ran = False, 0
        add(attachment, module)
    return result


def _call(module: nn.Module, call: Inputs, times: int, runners: Sequence[Runner] = ()) -> None:
    """Calls a copy that often, whose numbers go on from call to call. `runners` count the last call alone."""
    stateful = twin(module)
    for _ in range(times):
        for runner in runners:
            runner.calls = 0
        given = copy.deepcopy(call)
        stateful(*given[0], **given[1])


def _dynamo() -> Any:
    return torch._dynamo.config.patch({k: v for k, v in _DYNAMO.items() if hasattr(torch._dynamo.config, k)})


def _baselines(eager: nn.Module, search: Search) -> dict[str, nn.Module]:
    """Of the modes of torch.compile that were asked for, the default one: it breaks where pieces do."""
    wanted = search.settings.get("baselines")
    return {"compile": torch.compile(twin(eager), **COMPILE_OPTIONS["compile"])} if wanted is None or "compile" in wanted else {}  # type: ignore[dict-item]


def _nothing_found(pieces: Sequence[Piece]) -> str:
    if not pieces:
        return "no line of it computes on tensors alone: there is no piece to search"
    reasons = dict.fromkeys(p.found.reason for p in pieces if p.found is not None)
    return f"of {len(pieces)} piece{'' if len(pieces) == 1 else 's'} none gained: {'; '.join(reasons)}"


def _accuracy(verdict: Verdict, gate: str) -> dict[str, Any]:
    text = f"the whole call was judged on {verdict.data_sets} data sets against the module itself in double precision, each piece by itself on all"
    notes = [{"kind": "module_reference", "text": f"{text}; {verdict.note}" if verdict.note else text}]
    return {"gate": gate, "verified": not verdict.problem, "error": verdict.error, "eager_error": verdict.eager_error, "notes": notes,
            "ratio": verdict.error / verdict.eager_error if verdict.eager_error else 0.0}  # fmt: skip


def _claim(samples: dict[str, list[float]]) -> dict[str, Any]:
    rows = dict(zip(samples, map(median_interval, samples.values()), strict=True))
    times = {name: {"median": m, "lo": lo, "hi": hi, "runs": len(samples[name])} for name, (m, lo, hi) in rows.items()}
    others = {name: row for name, row in rows.items() if name != "shipped"}
    ours = rows["shipped"]
    best = min(others, key=lambda name: others[name][0])
    found = {"times_ms": times, "best_baseline": best, "speedup": {name: row[0] / ours[0] for name, row in others.items()}}
    if ours[2] < others[best][1]:
        return found | {"outcome": "improved", "speedup_best_baseline": others[best][0] / ours[0]}
    reason = f"in pieces a call takes {ours[0]:.4g} ms, {best} {others[best][0]:.4g} ms: no difference beyond the noise, or none in favour of the pieces"
    return found | {"outcome": "no_improvement", "reason": reason, "speedup_best_baseline": 1.0}


def _times(modules: dict[str, nn.Module], call: Inputs, device: torch.device, most: float) -> dict[str, list[float]]:
    """Milliseconds of calls of each, in turn, each on arguments of its own."""
    watch, samples = Stopwatch(device), {name: list[float]() for name in modules}
    given = copy.deepcopy(call)

    def renew(_: int) -> None:
        nonlocal given
        given = copy.deepcopy(call)

    end = time.monotonic() + most * len(modules)
    with torch.no_grad():
        for module in modules.values():
            for _ in range(_CALLS):
                renew(0)
                module(*given[0], **given[1])
        while True:
            for name, module in modules.items():
                renew(0)
                module(*given[0], **given[1])
                run: Callable[[int], Any] = lambda _, module=module: module(*given[0], **given[1])  # type: ignore[misc]  # noqa: E731
                known = samples[name]
                count = 2 if not known else min(50, max(1, int(_BLOCK * 1e3 / max(_median(known), 1e-3))))
                known += watch.samples(run, count, renew)
            if time.monotonic() > end or all(len(s) >= 30 and settled(s, 0.01) for s in samples.values()):
                return samples


def _median(samples: list[float]) -> float:
    return median_interval(samples)[0]


@contextmanager
def _breaks(found: dict[str, str]) -> Iterator[None]:
    """Notes where dynamo ends a graph, and why."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            place, reason = _PLACE.search(record.getMessage()), _REASON.search(record.getMessage())
            if place:
                found.setdefault(place[1], reason[1].strip() if reason else "no reason is given")

    log, others = torch._logging._internal.getArtifactLogger("torch._dynamo.symbolic_convert", "graph_breaks"), logging.getLogger("torch._dynamo")
    notes, before = Notes(), (log.level, log.propagate, others.level)
    log.addHandler(notes)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    others.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.removeHandler(notes)
        log.propagate = before[1]
        log.setLevel(before[0])
        others.setLevel(before[2])


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
