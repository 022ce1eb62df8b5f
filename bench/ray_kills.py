"""`planish suite --ray` on a cluster of this machine, while its processes are killed: what is lost, what is left behind, and tasks a minute.

    python bench/ray_kills.py [--kills 50] [--seed 1] [--workers 2] [--rates 1,2,4] [--out FILE.json]

Small solutions are judged on the CPU, verdicts alone, again and again until so many kills have landed. A victim is any process of ours at
a random moment: the command, the shim that speaks with Ray, a worker's actor, its station, an evaluator, oracles, guests and what holds
them; and Ray's own daemon of one of the two nodes, with all that runs on it. A command that was killed itself is started again with
--resume. Ray's head is not killed: without it there is no cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) * 2 + y

def get_inputs():
    return [torch.randn(16, 32), torch.randn(16, 32)]
"""
RIGHT = TASK.replace("class Model(", "class ModelNew(")
WRONG = RIGHT.replace("* 2 + y", "* 3 + y")
#: Between kills, in seconds: long enough that something was done since the last.
APART = (1.0, 10.0)
#: How often a suite that ended by itself without all verdicts is resumed before they count as lost.
MOST_RESUMES = 3
#: A suite that takes longer hangs.
PATIENCE = 900.0
#: What a killed process held is gone after so many seconds.
LEFTOVERS_GONE = 20.0
#: How Ray calls the processes in which our actors live.
WORKER = "ray::Worker"


def launcher() -> str:
    return str(Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish")


def patiently(start: Callable[[], Any]) -> Any:
    """Ray gives a daemon 30 seconds to register, which a busy machine may not have."""
    for attempt in range(1, 6):
        try:
            return start()
        except Exception as error:  # Ray raises just that
            if attempt == 5 or "timed out during startup" not in str(error):
                raise
    raise AssertionError


class Cluster:
    """A head without room for workers, and nodes that have some."""

    def __init__(self, nodes: int, cpus: int) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        os.environ.update(RAY_worker_niceness="0")
        self.cluster = patiently(lambda: RayCluster(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 0, "include_dashboard": False}))
        self.address = self.cluster.address
        self.cpus = cpus
        self.nodes = [self.add() for _ in range(nodes)]

    def add(self) -> Any:
        return patiently(lambda: self.cluster.add_node(num_cpus=self.cpus, num_gpus=0))

    def lose_one(self, draw: random.Random) -> None:
        """Ends a node's daemon by SIGKILL, and joins another in its place."""
        node = self.nodes.pop(draw.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.add())

    def close(self) -> None:
        self.cluster.shutdown()


def text_of(pid: int, file: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_bytes()
    return b""


def processes_of(mark: str) -> dict[int, str]:
    """Those that carry the mark in their environment or arguments, and all that they have started, by what they are."""
    children: dict[int, list[int]] = {}
    lines: dict[int, list[str]] = {}
    marked: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        pid = int(folder.name)
        line = text_of(pid, "cmdline")
        lines[pid] = line.decode(errors="replace").split("\0")
        children.setdefault(parent_of(pid), []).append(pid)
        if mark.encode() in text_of(pid, "environ") or mark.encode() in line:
            marked.append(pid)
    found: dict[int, str] = {}
    while marked:
        pid = marked.pop()
        if pid not in found and pid in lines:
            found[pid] = kind_of(lines[pid])
            marked += children.get(pid, [])  # a guest's environment has no marks
    return found


def started_at(pid: int) -> str:
    """With the number it names a process for good; empty where it is gone."""
    fields = text_of(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else ""


def kind_of(line: list[str]) -> str:
    for word, kind in (("station", "station"), ("evaluator", "evaluator"), ("suite", "command"), ("verify", "verify"), ("planish.cluster", "shim")):
        if word in line:
            return kind
    for word, kind in (("planish.oracle", "oracle"), ("planish.runner", "guest"), ("--guest", "guest's place"), ("planish.baseline", "baseline")):
        if word in line:
            return "guest's place" if "--guest" in line else kind
    return "runner" if "planish-runner" in line[0] else Path(line[0]).name or "?"


def parent_of(pid: int) -> int:
    for line in text_of(pid, "status").decode(errors="replace").splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    return 0


def actors_of(processes: dict[int, str]) -> dict[int, str]:
    """Ray's workers in which our actors live: the stations' parents."""
    found = {}
    for pid, kind in processes.items():
        parent = parent_of(pid) if kind == "station" else 0
        if parent > 1 and text_of(parent, "cmdline").startswith(WORKER.encode()):
            found[parent] = "actor"
    return found


def write_solutions(home: Path, count: int) -> None:
    level, run = home / "level1", home / "run"
    level.mkdir(parents=True)
    run.mkdir()
    (level / "1_Small.py").write_text(TASK)
    for number in range(count):
        (run / f"level_1_problem_1_sample_{number}_kernel.py").write_text(f"N = {number}\n{WRONG if number % 4 == 1 else RIGHT}")


class Suite:
    """One suite in a folder of its own, started again where its command was killed."""

    def __init__(self, home: Path, address: str, workers: int, count: int) -> None:
        self.home, self.address, self.workers, self.count = home, address, workers, count
        write_solutions(home, count)
        self.restarts = self.unfinished = self.in_vain = 0
        self.seen: dict[tuple[int, str], str] = {}  # every process of it that was looked at
        self.process = self.start([])

    def processes(self) -> dict[int, str]:
        found = processes_of(str(self.home))
        self.seen.update({(pid, started_at(pid)): kind for pid, kind in found.items()})
        return found

    def start(self, more: list[str]) -> subprocess.Popen[str]:
        mark = str(self.home)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PLANISH_CACHE": f"{mark}/cache", "PLANISH_DATA": f"{mark}/data"}
        command = [launcher(), "suite", "level1", "--solutions", "run", "--no-times", "--seeds", "1", "--target", "cpu", "--compat", "none"]
        command += ["--workers", str(self.workers), "--out", "out", "--ray", self.address, "--quiet", "--json", *more]
        with (self.home / "said").open("w") as said:
            return subprocess.Popen(command, cwd=self.home, env=environment, stdout=said, stderr=subprocess.STDOUT, text=True)

    def went_on(self) -> bool:
        """False where it is done. One that was killed, or did not come to a verdict on all, goes on with --resume, as its user would."""
        if self.process.poll() is None:
            return True
        killed = self.process.returncode == -signal.SIGKILL
        if not killed and (not self.troubles() or self.in_vain == MOST_RESUMES):
            return False
        self.in_vain = 0 if killed else self.in_vain + 1
        self.unfinished += not killed
        self.restarts += 1
        self.process = self.start(["--resume"])
        return True

    def troubles(self) -> list[str]:
        """What is lost: a solution without a row, or with another verdict than its own."""
        try:
            rows = {row["sample"]: row for row in json.loads((self.home / "out" / "suite.json").read_text())["tasks"]}
        except (OSError, json.JSONDecodeError) as error:
            return [f"no suite.json: {error}; {(self.home / 'said').read_text()[-500:]}"]
        found = []
        for sample in range(self.count):
            expected = "wrong" if sample % 4 == 1 else "ok"
            row = rows.get(sample, {})
            if row.get("verdict") != expected:
                found.append(f"sample {sample}: {row.get('outcome', 'no row')} {row.get('verdict')} {row.get('error') or row.get('reason')}")
        return found

    def left_behind(self) -> list[str]:
        deadline = time.monotonic() + LEFTOVERS_GONE
        while (left := self.living()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return [f"process {pid} ({kind})" for pid, kind in left.items()]

    def living(self) -> dict[int, str]:
        found = processes_of(str(self.home))
        found.update({pid: kind for (pid, start), kind in self.seen.items() if start and started_at(pid) == start})
        return found


def kill_one(suite: Suite, cluster: Cluster, draw: random.Random) -> str:
    """What was killed; empty where nothing could be."""
    ours = suite.processes()
    victims = {**ours, **actors_of(ours)}
    kinds = sorted(set(victims.values()))
    if not kinds:
        return ""
    # Every kind is as likely as any other, however many processes it has; a node is one of them.
    kind = draw.choice([*kinds, "node"])
    if kind == "node":
        cluster.lose_one(draw)
        return kind
    pid = draw.choice([pid for pid, its in victims.items() if its == kind])
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return ""
    return kind


def kills(folder: Path, wanted: int, seed: int, workers: int, count: int, minutes: float) -> dict[str, Any]:
    draw = random.Random(seed)
    cluster = Cluster(2, workers)
    killed: Counter[str] = Counter()
    lost: list[str] = []
    left: list[str] = []
    suites = restarts = unfinished = judged = 0
    began = time.monotonic()

    def enough() -> bool:
        return killed.total() >= wanted or 0 < minutes * 60 < time.monotonic() - began

    try:
        while not enough():
            suite = Suite(folder / f"suite{suites}", cluster.address, workers, count)
            started = time.monotonic()
            next_kill = started + draw.uniform(*APART)
            while suite.went_on():
                time.sleep(0.05)
                if time.monotonic() - started > PATIENCE:
                    lost.append(f"suite {suites} did not end within {PATIENCE:g} s")
                    suite.process.kill()
                    suite.process.wait()
                    break
                if time.monotonic() < next_kill or enough():
                    continue
                if kind := kill_one(suite, cluster, draw):
                    killed[kind] += 1
                    print(f"{killed.total()}: {kind}", flush=True)
                next_kill = time.monotonic() + draw.uniform(*APART)
            lost += [f"suite {suites}: {trouble}" for trouble in suite.troubles()]
            left += [f"suite {suites}: {what}" for what in suite.left_behind()]
            suites, restarts, judged = suites + 1, restarts + suite.restarts, judged + count
            unfinished += suite.unfinished
    finally:
        cluster.close()
    return {
        "kills": killed.total(),
        "killed": dict(killed.most_common()),
        "suites": suites,
        "solutions": judged,
        "resumed": restarts,
        "of_those_not_killed": unfinished,
        "lost": lost,
        "left_behind": left,
        "seconds": round(time.monotonic() - began, 1),
    }


def rate(folder: Path, workers: int, count: int) -> dict[str, Any]:
    cluster = Cluster(1, workers)
    try:
        began = time.monotonic()
        suite = Suite(folder / f"rate{workers}", cluster.address, workers, count)
        suite.process.wait(PATIENCE)
        seconds = time.monotonic() - began
        return {"workers": workers, "solutions": count, "seconds": round(seconds, 1), "a_minute": round(60 * count / seconds, 1), "lost": suite.troubles()}
    finally:
        cluster.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="a node; there are two")
    parser.add_argument("--solutions", type=int, default=12, help="of each suite")
    parser.add_argument("--minutes", type=float, default=0, help="for the kills; what is under way then comes to its end; 0: no limit")
    parser.add_argument("--rates", default="", help="also tasks a minute with so many workers on one node: 1,2,4")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="planish-ray-") as name:
        folder = Path(name)
        result["rates"] = [rate(folder, int(workers), options.solutions) for workers in options.rates.split(",") if workers]
        if options.kills > 0:
            result.update(kills(folder, options.kills, options.seed, options.workers, options.solutions, options.minutes))
    result["load_after"] = os.getloadavg()[0]
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result.get("lost") or result.get("left_behind") else 0


if __name__ == "__main__":
    raise SystemExit(main())
