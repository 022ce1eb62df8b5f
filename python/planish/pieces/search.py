"""Searches for programs of the pieces of a model: the time there is goes to each by its share of the model's."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planish.errors import PlanishError
from planish.pieces import store
from planish.pieces.runner import Runner
from planish.pieces.store import Found

#: Of the time of all: what is less is left as it is.
LEAST_SHARE = 0.03
_LEAST_BUDGET = 1.0  # seconds
_TIME = re.compile(r"\s*([0-9.]+)\s*(ms|s|m|h|)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


@dataclass
class Piece:
    """Equal graphs of a model: how often a call runs them, how long that takes in all, and what was found."""

    runners: list[Runner]
    calls: int
    ms: float
    share: float = 0.0
    found: Found | None = None
    searched: bool = False

    def document(self) -> dict[str, Any]:
        found = self.found
        about: dict[str, Any] = {"calls": self.calls, "ms": self.ms, "share": self.share}
        if found is None:
            return about | {"outcome": "left"}
        return about | {"outcome": found.outcome, "gain": found.gain, "reason": found.reason, "searched": self.searched,
                        "folder": str(found.folder) if found.folder is not None else None}  # fmt: skip


@dataclass
class Search:
    """`budget` and `max_time` (seconds) are for all pieces together; `settings` are further keywords of planish.optimize."""

    name: str
    budget: float
    max_time: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    progress: bool = True

    @property
    def wanted(self) -> str:
        """What of the settings decides which program answers: others are another piece's to the store."""
        baselines = self.settings.get("baselines")
        names = "all" if baselines is None else baselines if isinstance(baselines, str) else ",".join(baselines)
        return repr((str(self.settings.get("accuracy", "eager")), names, list(self.settings.get("options", ()))))

    def say(self, text: str) -> None:
        if self.progress:
            print(f"planish: {text}", file=sys.stderr, flush=True)

    def run(self, runners: Sequence[Runner], whole_ms: float | None = None) -> list[Piece]:
        """Settles all of the runners. `whole_ms`: of a call as it is; without it shares are of all pieces."""
        end = time.monotonic() + self.max_time if self.max_time is not None else None
        pieces = _pieces(runners)
        whole = max(whole_ms or 0.0, sum(piece.ms for piece in pieces)) or 1.0
        for piece in pieces:
            piece.share = piece.ms / whole
        large = [piece for piece in pieces if piece.share >= LEAST_SHARE]
        for k, piece in enumerate(large):
            piece.found = self._found(piece, f"piece {k + 1} of {len(large)}", piece.share / sum(p.share for p in large), end)
        if len(large) < len(pieces):
            small = [piece for piece in pieces if piece not in large]
            self.say(f"left as they are: {_count(len(small), 'piece')} of under {LEAST_SHARE:.0%} of the time ({sum(p.share for p in small):.1%} in all)")
        for piece in pieces:
            for runner in piece.runners:
                runner.settle(piece.found)
        return pieces

    def _found(self, piece: Piece, which: str, part: float, end: float | None) -> Found:
        graph = piece.runners[0].graph
        assert graph is not None
        budget = max(_LEAST_BUDGET, self.budget * part)
        wanted = self.wanted
        known = store.find(graph.key, budget, wanted)
        about = f"{which}, {piece.share:.0%} of the time in {_count(piece.calls, 'run')} of {piece.ms / max(1, piece.calls):.3g} ms"
        if known is not None:
            self.say(f"{about}: {_words(known)}, as found earlier")
            return known
        left = end - time.monotonic() if end is not None else None
        if left is not None and left < _LEAST_BUDGET:
            return Found("none", 1.0, "max_time was over before its turn", 0.0, wanted, None)
        self.say(f"{about}: searching for {budget:.3g} s")
        piece.searched = True
        found = self._searched(piece.runners[0], f"{self.name}, {which}", budget, left, wanted)
        self.say(f"{which}: {_words(found)}")
        return found

    def _searched(self, runner: Runner, name: str, budget: float, left: float | None, wanted: str) -> Found:
        from planish.api import optimize  # which imports this package

        assert runner.graph is not None
        module, inputs = runner.module()
        with tempfile.TemporaryDirectory(prefix="planish-") as scratch:
            more = {"max_time": left} if left is not None else {}
            try:
                made = optimize(module, (inputs, {}), **{**self.settings, **more, "budget": budget, "name": name, "out": Path(scratch) / "run",
                                                         "progress": self.progress, "pieces": False})  # fmt: skip
            except PlanishError as error:
                # Refusals of a machine or a moment are asked again by whoever comes next.
                found = Found(error.kind, 1.0, error.message, budget, wanted, None)
                return store.keep(runner.graph.key, found) if error.kind in _LASTING else found
            result, folder = made.result, Path(made.result.get("shipped") or scratch)
            if made.improved:
                found = Found("improved", made.speedup, "", budget, wanted, folder)
            elif result["outcome"] == "no_improvement" and result.get("form") == "baseline" and result.get("shipped_baseline") not in (None, "eager"):
                times = result["times_ms"]
                gain = times["eager"]["median"] / times[result["shipped_baseline"]]["median"] if "eager" in times else 1.0
                found = Found("baseline", gain, f"{result['shipped_baseline']} is as fast as what was found", budget, wanted, folder)
            else:
                found = Found("none", 1.0, made.reason, budget, wanted, None)
                if result["outcome"] == "interrupted":
                    return found
            return store.keep(runner.graph.key, found)


#: What is wrong with a piece whoever asks.
_LASTING = ("data_dependent", "unsupported_op", "not_exportable", "random_ops", "not_tensors")


def _pieces(runners: Sequence[Runner]) -> list[Piece]:
    """By key, the largest first; those that were not called are none."""
    found: dict[str, Piece] = {}
    for runner in runners:
        if runner.graph is None or not runner.calls or runner.settled:
            continue
        piece = found.setdefault(runner.graph.key, Piece([], 0, 0.0))
        piece.runners.append(runner)
        piece.calls += runner.calls
    for piece in found.values():
        piece.ms = piece.calls * piece.runners[0].milliseconds()
    return sorted(found.values(), key=lambda piece: -piece.ms)


def seconds(time_text: str | float) -> float:
    """Seconds of a number or a text such as "5m". Raises PlanishError (bad_request)."""
    found = _TIME.fullmatch(str(time_text))
    try:
        return float(found[1]) * _SECONDS[found[2]]  # type: ignore[index]
    except (TypeError, ValueError):
        raise PlanishError("bad_request", f"{time_text!r} is no time", 'give seconds, or text such as "90s" or "5m"') from None


def _words(found: Found) -> str:
    if found.outcome == "improved":
        return f"a program, {found.gain:.2f}x the best baseline"
    if found.outcome == "baseline":
        return f"nothing gained, torch.compile's form of it is {found.gain:.2f}x eager and runs"
    return f"stays as it is: {found.reason}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
