"""What a search found, as `planish.optimize` returns it and as a prompt or a notebook shows it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
F_co = TypeVar("F_co", bound=Callable[..., Any], covariant=True)


@dataclass(frozen=True, repr=False)
class Optimized(Generic[F_co]):
    """What `optimize` found.

    `module` is ready to use: the given module (or the function, as a planish Function) with the program attached where one was verified and
    faster, else as it was. `result` is the result document (docs/formats/result.md). `folder` is where the program lies, or None.
    `timed` says what was proved and timed: `module`, the user's own; `exported`, its exported program, where the module could not be
    pickled or read in another process; or `pieces`, the module with its graphs as programs, where it could not be captured whole.
    """

    module: F_co
    result: dict[str, Any]
    folder: Path | None
    timed: str

    @property
    def improved(self) -> bool:
        """Whether a verified program that beats every baseline that was timed is attached."""
        return gained(self.result)

    @property
    def speedup(self) -> float:
        """Against the best of the baselines that were timed; 1.0 where nothing was gained."""
        return float(self.result.get("speedup_best_baseline") or 1.0) if self.improved else 1.0

    @property
    def speedups(self) -> dict[str, float]:
        """Against each baseline, by name; empty where nothing was gained."""
        return {name: float(value) for name, value in (self.result.get("speedup") or {}).items()} if self.improved else {}

    @property
    def reason(self) -> str:
        """Why nothing was gained, or why the run ended before all had been done; empty where neither is so."""
        if self.result["outcome"] != "interrupted":
            return "" if self.improved else named(str(self.result.get("reason") or self.result["outcome"]), str(self.result.get("task", "the module")))
        seconds = self.result.get("seconds") or {}
        over = f"the {seconds.get('max', 0):.0f} s of max_time were over in phase {seconds['ended_in']}" if seconds.get("ended_in") else "it was interrupted"
        if self.improved:
            return f"{over}: what is attached was proved, and is faster than all that was timed by then"
        if self.folder is not None:
            return f"{over}: what lies in {self.folder} was proved, but not timed; planish.load({str(self.folder)!r}, module) attaches it"
        why = str(self.result.get("until_then") or "")
        return f"{over}, and nothing was proved by then{f' ({why})' if why else ''}; allow more with max_time="

    def __call__(self: Optimized[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.module(*args, **kwargs)

    def __repr__(self) -> str:
        task, device = self.result.get("task", "the module"), (self.result.get("device") or {}).get("name", "")
        if not self.improved:
            return f"planish: {task} stays as it is: {self.reason}"
        interrupted = [f"  {self.reason}"] if self.reason else []
        best, where = self.result.get("best_baseline", "the best baseline"), f" on {device}" if device else ""
        lines = [f"planish: {task} is {self.speedup:.2f}x as fast as {best}{where}"]
        for name, median, interval, against in self._times():
            lines.append(f"  {name:<26} {median:>9} ms  {interval}{'  ' if against else ''}{against}")
        if accuracy := self.result.get("accuracy"):
            ratio = float(accuracy.get("ratio") or 0)  # 1e300 where eager's error is nearly nothing
            lines.append(f"  accuracy: {ratio:{'.2f' if ratio < 1000 else '.3g'}} of eager's own error (gate: {accuracy.get('gate')})")
        if self.timed == "pieces":
            return "\n".join([*lines, *self._pieces(), *interrupted])
        lines.append(f"  timed: {'the module itself' if self.timed == 'module' else 'its exported program, as its own code could not be read elsewhere'}")
        return "\n".join([*lines, f"  program: {self.folder}", *interrupted])

    def _pieces(self) -> list[str]:
        """Which parts became programs, and what lies between them."""
        pieces = self.result["pieces"]
        made = [piece for piece in pieces if piece.get("folder")]
        share = sum(piece["share"] for piece in made)
        lines = [f"  in pieces: {len(made)} of {len(pieces)} graphs, {share:.0%} of the time, run as what was found for them"]
        lines += [f"  a graph ends at {line}" for line in self.result.get("breaks", ())]
        return lines + [f"  stays as it is: {step}" for step in self.result.get("opaque", ())]

    def _times(self) -> list[tuple[str, str, str, str]]:
        """Of each that was timed: name, median in ms, its 95 % interval, and how much slower than what is attached."""
        rows = (self.result.get("times_ms") or {}).items()
        return [(name, f"{row['median']:.4g}", f"[{row['lo']:.4g}, {row['hi']:.4g}]", f"{self.speedups[name]:.2f}x" if name in self.speedups else "")
                for name, row in rows if "median" in row]  # fmt: skip

    def _repr_html_(self) -> str:
        """What a notebook shows: the first line as a sentence, the times as a table, the rest below it."""
        first, *others = repr(self).removeprefix("planish: ").splitlines()
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self._times())
        head = "<tr><th></th><th>ms</th><th>95 % interval</th><th>gain</th></tr>"
        table = f"<table>{head}{rows}</table>" if rows and self.improved else ""
        notes = "<br>".join(html.escape(line.strip()) for line in others if " ms  [" not in line)
        return f"<p><b>{html.escape(first)}</b></p>{table}" + (f"<p><small>{notes}</small></p>" if notes else "")


def is_proved(result: dict[str, Any]) -> bool:
    """Whether a run that was not finished shipped a program of ours, which it does only after its proof."""
    return bool(result["outcome"] == "interrupted" and result.get("form") == "program" and result.get("shipped"))


def gained(result: dict[str, Any]) -> bool:
    """Whether what ships is proved, and faster than all that it was timed beside."""
    return result["outcome"] == "improved" or (is_proved(result) and float(result.get("speedup_best_baseline") or 0) > 1)


def named(text: str, name: str) -> str:
    """What the command says of "the task", said of the module by its name."""
    return re.sub(r"\b[Tt]he task(?='s\b|\b(?! (?:file|data)))", lambda _: name, text)
