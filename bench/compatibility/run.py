#!/usr/bin/env python3
"""Which stock modules Planish takes: every layer of torch.nn, and blocks as people write them, live and as files.

    PYTHONPATH=python python bench/compatibility/run.py [--target cpu|cuda] [--only WORDS] [--since CASE] [--optimize] [--out docs/results/compatibility.md]

Each case is opened by an oracle in a process of its own; eager's own outputs must then pass the gate on the task's data and in every regime that stays in its
domain, and the trivial outputs must not. With --optimize the built `planish optimize` is run as well, and what it ends with stands in the table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import traceback
import unittest.mock
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "python")]  # so that it runs without PYTHONPATH
sys.path.append(str(HERE / "models"))

import marked  # noqa: E402
import operators_page  # noqa: E402
import page as models_page  # noqa: E402
import torch  # noqa: E402
from blocks import BLOCKS  # noqa: E402
from layers import LAYERS, Case, untried  # noqa: E402
from machine import Others, described, in_words  # noqa: E402
from planish.capture.live import write_live  # noqa: E402
from planish.errors import PlanishError  # noqa: E402
from planish.oracle import layout  # noqa: E402
from planish.oracle.interpret import Mode  # noqa: E402
from planish.oracle.service import Service  # noqa: E402

FORMS = ("file", "live")
_OURS = ("internal", "bad_message", "missing_runtime", "no_device", "device_lost")  # no refusal of the module
_BY_HAND = "## Other versions of torch"
_LIMIT = 300.0  # seconds a case may take
_FILE = """\
import sys
sys.path.insert(0, {here!r})
import torch
from {module} import {table}
CASE = {table}[{name!r}]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = CASE.module()
        self.train(CASE.training)
    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

def get_inputs():
    return CASE.inputs()

def get_init_inputs():
    return []
"""


@dataclass
class Found:
    """One case in one form. `outcome`: verified, refused (a sentence that says what to do), or broken (our own fault)."""

    name: str
    form: str
    outcome: str = "broken"
    kind: str = ""
    message: str = ""
    notes: str = ""
    seconds: float = 0.0


def write_task(name: str, form: str, folder: Path) -> Path:
    """The case as a task file, or as the folder of a live module."""
    case = {**LAYERS, **BLOCKS}[name]
    if form == "live":
        torch.manual_seed(42)
        module, inputs = case.module().train(case.training), case.inputs()
        if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters()):
            _call(module, inputs)  # a lazy module takes its shapes from its first call
        args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
        write_live(folder / "live", type(module).__name__, module, args, kwargs)
        return folder / "live"
    path = folder / "task.py"
    module_name, table = ("blocks", "BLOCKS") if name in BLOCKS else ("layers", "LAYERS")
    path.write_text(_FILE.format(here=str(HERE), module=module_name, table=table, name=name))
    return path


def _call(module: torch.nn.Module, inputs: Any) -> Any:
    with torch.no_grad():
        return module(**inputs) if isinstance(inputs, dict) else module(*inputs)


def judge(name: str, form: str, target: str) -> Found:
    """Opens the case and judges eager's own outputs on all data; PlanishError is a refusal."""
    found = Found(name, form)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="planish-compatibility-") as folder:
        try:
            found.notes = judge_task(write_task(name, form, Path(folder)), Path(folder), target)
            found.outcome = "verified"
        except PlanishError as error:
            found.outcome = "refused" if error.hint and error.kind not in _OURS else "broken"
            found.kind, found.message = error.kind, f"{error.message} ({error.hint})".replace(folder, "").replace("/task.py: ", "")
        except Exception as error:
            found.kind, found.message = "internal", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            if os.environ.get("PLANISH_VERBOSE"):
                traceback.print_exc()
    found.seconds = time.perf_counter() - start
    return found


def judge_task(task: Path, folder: Path, target: str, whole: bool = True) -> str:
    """Notes on the task, whose eager outputs passed; PlanishError or RuntimeError otherwise. Not `whole`: on the task's own data alone."""
    service = Service()
    service.hello({"device": target})
    service.open({"task": str(task), "accuracy": "eager", "blobs": str(folder / "blobs")})
    about = service.regimes({"region": "task"})
    mutation_check = service.mutation_check({"region": "task"}) if whole else {"degenerate": []}
    region = service.regions["task"]
    for index, regime in enumerate(about["regimes"] if whole else ["task"]):
        params = {"region": "task", "data": "d", "seed": 11 + index, "regime": regime}
        made = service.make(params) if index == 0 else service.refresh(params)
        if isinstance(made, dict) and "skipped" in made:
            continue
        data = service.data["d"]
        values = region.run.run(data.input_tensors(), [v for _, v in region.outputs], Mode())
        for slot, (_, value) in zip(data.outputs, region.outputs, strict=True):
            layout.copy_into(slot.view, values[value])
        verdict = service.check({"data": "d", "stage": "full"})
        if not verdict["ok"]:
            raise RuntimeError(f"eager itself is refused in regime {regime}: {verdict['problem']}: {verdict['message']}")
    notes = []
    if mutation_check["degenerate"]:
        notes.append("degenerate: " + ", ".join(mutation_check["degenerate"]))
    notes += [n["text"] for n in mutation_check.get("notes", [])]
    return "; ".join(notes)


def _in_child(name: str, form: str, target: str, queue: Any) -> None:
    torch.set_num_threads(1)
    if not os.environ.get("PLANISH_VERBOSE"):
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (torch's warnings)
    queue.put(asdict(judge(name, form, target)))


def run_cases(runs: list[tuple[str, str]], target: str, jobs: int) -> Iterator[Found]:
    """Each in a process of its own, `jobs` at once, answered in order."""
    waiting = deque(_Case(name, form) for name, form in runs)
    order = list(waiting)
    running: list[_Case] = []
    for case in order:
        while case.found is None:
            while waiting and len(running) < jobs:
                running.append(waiting.popleft())
                running[-1].start(target)
            for other in running:
                other.poll()
            running = [other for other in running if other.found is None]
            if case.found is None:
                time.sleep(0.02)
        yield case.found


class _Case:
    def __init__(self, name: str, form: str) -> None:
        self.name, self.form = name, form
        self.found: Found | None = None

    def start(self, target: str) -> None:
        context = multiprocessing.get_context("forkserver")  # which _warm_up() made ready
        context.set_forkserver_preload(["__main__"])
        self.queue = context.SimpleQueue()
        self.child = context.Process(target=_in_child, args=(self.name, self.form, target, self.queue))
        self.child.start()
        self.since = time.monotonic()

    def poll(self) -> None:
        ended = not self.child.is_alive()  # before the look into the queue: it answers, then ends
        if not self.queue.empty():
            self.found = Found(**self.queue.get())
            self.child.join()
        elif ended:
            self.found = Found(self.name, self.form, "broken", "crash", f"its process ended with code {self.child.exitcode}")
        elif time.monotonic() - self.since > _LIMIT:
            self.child.kill()
            self.found = Found(self.name, self.form, "broken", "hang", f"took longer than {_LIMIT:.0f} s")


def optimize(name: str, form: str, target: str) -> str:
    """What the built `planish optimize` says of it, in a few words."""
    with tempfile.TemporaryDirectory(prefix="planish-compatibility-") as folder:
        try:
            task = write_task(name, form, Path(folder))
        except PlanishError as error:
            return f"refused: {error.kind}"
        command = [str(ROOT / "build" / "bin" / "planish"), "optimize", str(task), "--target", target, "--budget", "5s", "--json", "--out", f"{folder}/out"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        return f"no document (exit code {done.returncode})"
    if "error" in result:
        return f"refused: {result['error']['kind']}"
    if result["outcome"] == "improved":
        return f"{result['speedup_best_baseline']:.2f}x of the best baseline"
    return f"{result['outcome']}: {result.get('reason', '')}"


def document(results: list[Found], optimized: dict[tuple[str, str], str], device: str, target: str, models: str) -> str:
    counts = Counter(f.outcome for f in results)
    lines = [
        "# Which modules are taken", "",
        f"Every layer of torch.nn {torch.__version__} and {len(BLOCKS)} blocks as people write them, on {device}, live and as files.",
        f"Made by `python bench/compatibility/run.py --target {target} --out FILE`, which asks this of each: it is captured, its fp64 reference",
        "is made, eager's own outputs pass the gate in every",
        "regime of data. Trivial or less precise outputs must not; rows that say `degenerate` name those that did, and nothing is claimed on them.", "",
        f"**{len(results)} runs: {counts['verified']} verified, {counts['refused']} refused with a sentence that says what to do, "
        f"{counts['broken']} broken.**", "",
    ]  # fmt: skip
    missing = untried()
    if missing:
        lines += [f"Layers of this torch that no case names: {', '.join(missing)}.", ""]
    lines += [models] if models else []
    for title, table in (("Layers of torch.nn", LAYERS), ("Blocks and small networks", BLOCKS)):
        mine: dict[str, list[Found]] = {}
        for found in results:
            if found.name in table:
                mine.setdefault(found.name, []).append(found)
        if not mine:
            continue
        last = " optimised |" if optimized else ""
        lines += [f"## {title}", "", f"| module | file | live | said |{last}", "|---|---|---|---|" + ("---|" if optimized else "")]
        for name, both in mine.items():
            by_form = {f.form: f.outcome for f in both}
            said = "; ".join(dict.fromkeys(t for f in both for t in (f"{f.kind}: {f.message}" if f.kind else "", f.notes) if t)).replace("|", "\\|")
            row = f"| {name} | {by_form.get('file', '')} | {by_form.get('live', '')} | {said} |"
            if optimized:
                row += " " + "; ".join(f"{form}: {optimized[name, form]}" for form in FORMS if (name, form) in optimized) + " |"
            lines.append(row)
        lines.append("")
    return "\n".join(lines)


def kept(path: Path) -> str:
    """What stands behind the tables of an earlier run, written by hand."""
    text = path.read_text() if path.exists() else ""
    return text[text.index(_BY_HAND) :] if _BY_HAND in text else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--since", default="", help="cases from this one on, in the order of the tables")
    parser.add_argument("--form", choices=[*FORMS, "both"], default="both")
    parser.add_argument("--optimize", action="store_true", help="also run the built `planish optimize` on each, with a budget of 5 s")
    parser.add_argument("--jobs", type=int, default=1, help="cases judged at once (nothing is timed; --optimize takes one)")
    parser.add_argument("--out", type=Path, help="write the table here")
    options = parser.parse_args()
    known: dict[str, Case] = {**LAYERS, **BLOCKS}
    if options.since and options.since not in known:
        parser.error(f"no case is called '{options.since}'")
    first = list(known).index(options.since) if options.since else 0
    cases = {n: c for n, c in list(known.items())[first:] if options.only.lower() in n.lower()}
    forms = FORMS if options.form == "both" else (options.form,)
    results: list[Found] = []
    others = Others()
    optimized: dict[tuple[str, str], str] = {}
    runs = [(name, form) for name in cases for form in forms]
    try:
        for (name, form), found in zip(runs, run_cases(runs, options.target, 1 if options.optimize else options.jobs), strict=True):
            results.append(found)
            if options.optimize and found.outcome == "verified":
                optimized[name, form] = optimize(name, form, options.target)
            more = f"{found.kind}: {found.message}" if found.kind else found.notes
            print(f"{found.outcome:9} {form} {name} ({found.seconds:.1f} s) {more} {optimized.get((name, form), '')}", flush=True)
    except KeyboardInterrupt:
        print(f"stopped after {len(results)} of {len(runs)} runs", flush=True)
    counts = Counter(f.outcome for f in results)
    print(dict(counts))
    if options.out:
        device = torch.cuda.get_device_name() if options.target == "cuda" else in_words([{"machine": described(), "others_cores": others.cores()}])
        tables = "".join(marked.kept(options.out, each.BEGIN, each.END) for each in (operators_page, models_page))
        options.out.write_text(document(results, optimized, device, options.target, tables) + kept(options.out))
    return 1 if counts["broken"] else 0


def _warm_up() -> None:
    """What capturing and judging import is imported once, before the forks. torch.export asks each GPU for its random state; a process that did
    could not fork."""
    with unittest.mock.patch("torch.cuda.is_available", return_value=False):
        judge("Linear", "live", "cpu")


if __name__ == "__mp_main__":
    _warm_up()

if __name__ == "__main__":
    sys.exit(main())
