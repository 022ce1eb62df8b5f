"""Which models of transformers, diffusers, timm, torchvision and torchaudio Planish takes, each called as its documentation calls it: `make compatibility`.

    python bench/compatibility/models [--only NAME ...] [--quick] [--capture] [--again] [--budget 4] [--rows FILE] [--page FILE]

Small sizes and random parameters on a CPU. Of each model: whether it is captured whole or in pieces, whether a program of its graph gives what eager gives, in
how many of its library's own calls the program ran, and what `planish.optimize` gains with a small budget. A row is added to FILE when it is
finished, so that a run that was interrupted goes on where it was. Each model has a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "python"), str(ROOT / "tests/python/ship")]
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # children are forked, which threads do not survive

import torch  # noqa: E402
from entry import Entry, Subject  # noqa: E402
from libraries import LIBRARIES, versions  # noqa: E402
from machine import Others, commit, described  # noqa: E402
from page import latest, read_rows, write  # noqa: E402
from row import row_of  # noqa: E402

RESULTS = ROOT / "docs/results/compatibility"
_LIMIT = 300.0  # seconds a model may take
_MOST = 150.0  # of which the search may take so many, whatever its budget


def entries() -> list[Entry]:
    return [entry for library in LIBRARIES for entry in importlib.import_module(f"from_{library}").ENTRIES]


def in_child(entry: Entry, budget: float) -> dict[str, Any]:
    """The row of an entry, from a process of its own with a data folder of its own. It is forked, with all that was imported."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planish-models-") as folder:
        child = multiprocessing.get_context("fork").Process(target=_child, args=(entry, budget, Path(folder)))
        child.start()
        child.join(_LIMIT)
        if child.is_alive():
            assert child.pid is not None
            os.killpg(child.pid, signal.SIGKILL)
            child.join()
        if (result := Path(folder) / "row.json").exists():
            row: dict[str, Any] = json.loads(result.read_text())
            return row
    said = f"its process ended with code {child.exitcode} after {time.monotonic() - start:.0f} s"
    return {"name": entry.name, "library": entry.library, "called": entry.called, "form": "internal", "said": said,
            "seconds": round(time.monotonic() - start, 1)}  # fmt: skip


def _warm_up() -> None:
    """Imports what capturing needs, once for all children."""
    row_of(Entry("a layer", "torch", "forward", lambda: Subject(torch.nn.Linear(4, 4), ((torch.randn(2, 4),), {}))), 0, 0)


def _child(entry: Entry, budget: float, folder: Path) -> None:
    os.setsid()
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), contextlib.redirect_stdout(nowhere):
        row = row_of(entry, budget, _MOST)
    (folder / "written.json").write_text(json.dumps(row))
    (folder / "written.json").rename(folder / "row.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="models whose name contains this, in any case; may be given several times")
    parser.add_argument("--library", choices=LIBRARIES)
    parser.add_argument("--quick", action="store_true", help="a few models, minutes in all")
    parser.add_argument("--capture", action="store_true", help="nothing is searched or timed: whether each is taken, and right")
    parser.add_argument("--again", action="store_true", help="also models that the file of rows has already")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of each search")
    parser.add_argument("--rows", type=Path, default=RESULTS / f"{datetime.date.today()}-cpu.jsonl", help="file of rows, in JSON lines")
    parser.add_argument("--page", type=Path, help="the document whose table is made of the rows")
    options = parser.parse_args()
    found, missing = versions()
    for name, why in missing.items():
        print(f"{name} is left out: {why}", flush=True)
    wanted = [e for e in entries() if (not options.library or e.library == options.library) and (e.quick or not options.quick)]
    wanted = [e for e in wanted if not options.only or any(word.lower() in e.name.lower() for word in options.only)]
    if not wanted:
        parser.error("no model has such a name")
    stamp = {"date": str(datetime.date.today()), "torch": found["torch"], "budget_s": 0 if options.capture else options.budget, "machine": described(),
             "commit": commit()}  # fmt: skip
    done = set() if options.again else {(row["library"], row["name"]) for row in latest(read_rows(options.rows)) if row["form"] != "skipped"}
    counts: Counter[str] = Counter()
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    _warm_up()
    for entry in wanted:
        if (entry.library, entry.name) in done:
            continue
        if entry.library in missing:
            row = {"name": entry.name, "library": entry.library, "called": entry.called, "form": "skipped", "said": missing[entry.library]}
        else:
            others = Others()
            row = in_child(entry, 0 if options.capture else options.budget) | {"version": found[entry.library], "others_cores": others.cores()}
        with options.rows.open("a") as file:
            file.write(json.dumps(row | stamp) + "\n")
        counts[row["form"]] += 1
        gain = f", gain {row['gain']}" if row.get("gain") else ""
        ran = f", ran {row['ran']} of {row['calls']}" if row.get("calls") else ""
        more = f"{row.get('outcome', '')} {row.get('said') or row.get('reason', '')}"
        print(f"{row['form']:8} {entry.library} {entry.name} ({row.get('seconds', 0)} s){ran}{gain} {more}", flush=True)
    if options.page:
        write(options.page, read_rows(options.rows), options.rows.name)
    print(", ".join(f"{count} {form}" for form, count in counts.items()) or "all rows were there already")
    return 1 if counts["internal"] or counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
