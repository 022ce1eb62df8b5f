"""Runs searches for real, one after the other, and says what each had found after so many evaluations.

    python bench/search/live.py TASK.py... --out FOLDER [--target cpu] [--strategies swarm,random] [--seeds 1,2,3] [--evals 100]
    python bench/search/live.py TASK.py... --out FOLDER --warm [--seeds 1,2]

The first form confirms a replay (search_replay): every strategy begins with nothing, in a store of its own. `--warm` compares runs of the first
strategy that begin with nothing (`cold`), where the same task was searched before with another seed (`same`), and where all other tasks were
(`others`): evaluations until within 5 % of the best that any run of the task found.

Works in a checkout and in a dist folder. `--devices 0,1` runs two side by side. FOLDER/live.json is written after every run; the same command goes
on where it was stopped. Times are of single measurements, as the search saw them.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from live_results import Result, cold_table, curve_of, final_ms, warm_table
from live_stores import earlier_store
from recorded import Json, find_program

SETTINGS = ("target", "evals", "budget", "baselines", "warm")


@dataclass(frozen=True)
class Job:
    """One run. `kind`: cold | same | others, by what it may know when it begins."""

    task: Path
    kind: str
    strategy: str
    seed: int

    @property
    def name(self) -> str:
        return re.sub(r"[^A-Za-z0-9_.-]", "-", f"{self.task.parent.name}-{self.task.stem}-{self.kind}-{self.strategy}-{self.seed}")

    def describes(self, run: Json) -> bool:
        return [run["task"], run["kind"], run["strategy"], run["seed"]] == [str(self.task), self.kind, self.strategy, self.seed]


def jobs_of(options: argparse.Namespace) -> list[list[Job]]:
    """In stages: a run of a later one may begin with what those before it left."""
    tasks = [Path(one).resolve() for one in options.tasks]
    seeds = [int(one) for one in options.seeds.split(",")]
    strategies = options.strategies.split(",")
    if not options.warm:
        return [[Job(task, "cold", strategy, seed) for seed in seeds for task in tasks for strategy in strategies]]
    cold = [Job(task, "cold", strategies[0], seed) for seed in seeds for task in tasks]
    kinds = ["same"] + (["others"] if len(tasks) > 1 else [])
    # Another seed than the run before it had: else it would only go the same way again.
    return [cold, [Job(one.task, kind, one.strategy, one.seed + 1000) for one in cold for kind in kinds]]


@dataclass
class Live:
    """Threads: the caller's, and one a device. What they share is under the lock."""

    options: argparse.Namespace
    out: Path
    planish: Path
    runs: list[Json] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settings(self) -> Json:
        return {name: getattr(self.options, name) for name in SETTINGS}

    def load(self) -> None:
        if not (self.out / "live.json").exists():
            return
        known = json.loads((self.out / "live.json").read_text())
        if known["settings"] != self.settings():
            raise SystemExit(f"error: {self.out} holds runs of other settings: {known['settings']}\nhint: name another folder with --out")
        self.runs = known["runs"]

    def save(self) -> None:
        document = {"schema": "planish.search_live/1", "settings": self.settings(), "runs": self.runs}
        part = self.out / "live.json.part"
        part.write_text(json.dumps(document, indent=1) + "\n")
        part.replace(self.out / "live.json")

    def store(self, job: Job) -> Path:
        return self.out / "homes" / job.name / "store.db"

    def run(self, job: Job, device: str | None) -> Json:
        home = self.out / "homes" / job.name
        home.mkdir(parents=True, exist_ok=True)
        store = self.store(job)
        for left in home.glob("store.db*"):
            left.unlink()  # of a run that was stopped
        if job.kind == "same":
            earlier_store(store, [self.store(Job(job.task, "cold", job.strategy, job.seed - 1000))])
        elif job.kind == "others":
            tasks = [Path(one).resolve() for one in self.options.tasks]
            earlier_store(store, [self.store(Job(task, "cold", job.strategy, job.seed - 1000)) for task in tasks if task != job.task])
        environment = dict(os.environ) | {"XDG_DATA_HOME": str(home)}
        if device is not None:
            environment["CUDA_VISIBLE_DEVICES"] = device
        flags = ["--target", self.options.target, "--evals", str(self.options.evals), "--budget", self.options.budget]
        flags += ["--baselines", self.options.baselines, "--strategy", job.strategy, "--seed", str(job.seed)]
        flags += ["--store", str(store), "--out", str(home / "shipped"), "--json", "--quiet"] + (["--cold"] if job.kind == "cold" else [])
        began = time.monotonic()
        done = subprocess.run([self.planish, "optimize", str(job.task), *flags], capture_output=True, text=True, env=environment, check=False)
        row: Json = {"task": str(job.task), "kind": job.kind, "strategy": job.strategy, "seed": job.seed}
        row |= {"seconds": round(time.monotonic() - began, 2), "device": device}
        try:
            document = json.loads(done.stdout)
            if "error" in document:
                return row | {"error": document["error"]["message"]}
            show = [self.planish, "show", document["run"], "--store", str(store), "--json"]
            shown = json.loads(subprocess.run(show, capture_output=True, text=True, env=environment, check=True).stdout)
        except (json.JSONDecodeError, KeyError, subprocess.CalledProcessError) as problem:
            return row | {"error": f"exit {done.returncode}, {problem}: {done.stderr.strip()[-300:]}"}
        curve, screened = curve_of(shown)
        return row | {"outcome": document["outcome"], "device_name": shown["device"], "screened": screened, "curve": curve, "final_ms": final_ms(shown)}

    def work(self, jobs: queue.SimpleQueue[Job], device: str | None) -> None:
        while True:
            try:
                job = jobs.get_nowait()
            except queue.Empty:
                return
            row = self.run(job, device)
            with self.lock:
                self.runs.append(row)
                self.save()
                found = row.get("error") or f"{row['curve'][-1][1]:.5g} ms" if row.get("error") or row["curve"] else "nothing passed"
                print(f"{job.name}: {found} ({row['seconds']} s)", file=sys.stderr, flush=True)

    def results(self) -> list[Result]:
        return [Result(Path(r["task"]).stem, r["kind"], r["strategy"], r["seed"], r["curve"]) for r in self.runs if r.get("curve")]

    def all(self) -> int:
        self.out.mkdir(parents=True, exist_ok=True)
        self.load()
        devices: list[str | None] = list(self.options.devices.split(",")) if self.options.devices else [None]
        for stage in jobs_of(self.options):
            jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
            for job in stage:
                # One that failed is tried again.
                self.runs = [run for run in self.runs if not (job.describes(run) and "error" in run)]
                if not any(job.describes(run) for run in self.runs):
                    jobs.put(job)
            threads = [threading.Thread(target=self.work, args=(jobs, device)) for device in devices]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        print(warm_table(self.results(), self.options.evals) if self.options.warm else cold_table(self.results(), self.options.evals))
        failed = [run for run in self.runs if "error" in run]
        for run in failed:
            print(f"error: {Path(run['task']).stem}, {run['kind']}, {run['strategy']}, seed {run['seed']}: {run['error']}", file=sys.stderr)
        return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", help="task files")
    parser.add_argument("--out", required=True, help="folder of live.json, stores and shipped modules")
    parser.add_argument("--target", default="auto", choices=["auto", "cuda", "cpu"])
    parser.add_argument("--strategies", default="swarm,hillclimb,random,tree,sample")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--evals", type=int, default=100, help="of each run")
    parser.add_argument("--budget", default="600s", help="time that ends a run before its evaluations do")
    parser.add_argument("--devices", default="", help="GPUs to use side by side, as CUDA_VISIBLE_DEVICES names them: 0,1")
    parser.add_argument("--baselines", default="eager", help="as of planish optimize; fewer are cheaper")
    parser.add_argument("--warm", action="store_true", help="compare cold runs with such as know earlier ones")
    options = parser.parse_args()
    names = [Path(task).stem for task in options.tasks]
    if len(set(names)) < len(names):
        parser.error("two tasks have one name")
    return Live(options, Path(options.out).resolve(), find_program("planish")).all()


if __name__ == "__main__":
    sys.exit(main())
