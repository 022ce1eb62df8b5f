"""`torch.compile(model, backend="planish")`: the graphs that torch captures are optimised as pieces (decision 0172).

The first call runs each graph as torch captured it, and watches what it is called with and how often. The next call searches, with the budget
divided by the graphs' shares of the time, and says so on sys.stderr; from then on programs run. `options` are keywords of planish.optimize
(`budget`, `max_time`, `baselines`, …), `mode` chooses budget and baselines where they do not. Graphs that need gradients run as they are.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from planish.errors import PlanishError

_log = logging.getLogger("planish.pieces")
#: Keywords of planish.optimize that a mode of torch.compile stands for.
MODES: dict[str, dict[str, Any]] = {
    "default": {"budget": "10s", "baselines": "eager,compile"},
    "reduce-overhead": {"budget": "10s", "baselines": "eager,compile"},
    "max-autotune-no-cudagraphs": {"budget": "60s", "baselines": "eager,compile,max_autotune_no_cudagraphs"},
    "max-autotune": {"budget": "60s", "baselines": None},
}
_OPTIONS = ("budget", "max_time", "baselines", "accuracy", "strategy", "seed", "evals", "cold", "options", "progress", "name")


class _Compiled:
    """The graphs of torch.compile() with these options, of one model or several: those that are still to be searched, and the call that they were
    first run in."""

    def __init__(self, mode: str | None, options: dict[str, Any] | None) -> None:
        from planish.pieces.search import Search, seconds

        if (mode or "default") not in MODES:
            raise PlanishError("bad_request", f"there is no mode '{mode}'", f"choose from {', '.join(MODES)}")
        if unknown := sorted(set(options or {}) - set(_OPTIONS)):
            raise PlanishError("bad_request", f"there is no option '{unknown[0]}' of the backend planish", f"choose from {', '.join(_OPTIONS)}")
        chosen = MODES[mode or "default"] | ({"budget": b} if (b := os.environ.get("PLANISH_BACKEND_BUDGET")) else {}) | (options or {})
        most, name, progress = chosen.pop("max_time", None), str(chosen.pop("name", "model")), bool(chosen.pop("progress", True))
        budget = seconds(chosen.pop("budget"))
        self.options = options  # by whose identity this is known
        self._search = Search(name, budget, seconds(most) if most is not None else None, chosen, progress)
        self._waiting: list[Any] = []
        self._ms: dict[int, float] = {}  # of a call of each model, as far as it is graphs: those of later shapes are measured by it
        self._call: FrameType | None = None
        self._lock = threading.RLock()

    def place(self, graph: Any) -> Callable[..., Any]:
        from planish.pieces.runner import Runner
        from planish.pieces.whole import placed

        def runner(module: Any) -> Runner:
            self._waiting.append(made := Runner(module, self._called))
            return made

        whole, opaque = placed(graph, runner)
        for step in opaque:
            _log.info("stays as it is: %s", step)
        return whole

    def _called(self, _: Any) -> None:
        """Searches in the first call after the one that graphs were captured in: then it is known what a call runs."""
        from planish import generators

        with self._lock:
            call = _outermost()
            if self._call is None:
                self._call = call
                if _model(call) not in self._ms:
                    self._search.say(f"{self._search.name}: its graphs run as they are in this call, and are searched in the next one")
            elif call is not self._call:
                ran = [runner for runner in self._waiting if runner.calls]
                self._waiting = [runner for runner in self._waiting if not runner.calls]  # of this very call
                self._call = call if self._waiting else None
                with generators.kept():  # the call that searches draws what it would have drawn
                    pieces = self._search.run(ran, self._ms.get(which := _model(call), 0.0))
                self._ms[which] = max(self._ms.get(which, 0.0), sum(piece.ms for piece in pieces))


_compiled: dict[tuple[str | None, int | None], _Compiled] = {}


def backend(graph: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """What torch.compile calls with each graph. Returns what runs in its place. Raises PlanishError (bad_request)."""
    import torch

    key = mode, id(options) if options else None
    if key not in _compiled or _compiled[key].options is not options:
        _compiled[key] = _Compiled(mode, options)
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs):
        _log.warning("a graph that needs gradients runs as it is; call the model under torch.no_grad()")
        return graph.forward  # type: ignore[no-any-return]
    return _compiled[key].place(graph)


def _outermost() -> FrameType | None:
    """The frame of torch's in which the call of the compiled model that is running began: another one in another call."""
    frame, found = sys._getframe(), None
    while frame is not None:
        if frame.f_code.co_filename.endswith(os.path.join("torch", "_dynamo", "eval_frame.py")):
            found = frame
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _model(call: FrameType | None) -> int:
    """What torch.compile() gave for the model that is called there, as a number: another for another model."""
    return id(call.f_locals.get("self")) if call is not None else 0
