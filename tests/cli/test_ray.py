"""`planish suite --ray` on a cluster of this machine's CPUs: results and stores come together, and workers may die. Skipped where there is no ray."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Home, processes_with
from endpoint import TASK

RIGHT = TASK.replace("class Model(", "class ModelNew(")
WRONG = RIGHT.replace("* 2 + y", "* 3 + y")
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (make test-ray installs it)")


def settings(home: Home) -> dict[str, str]:
    """What says to a worker's processes, in their environment, for whom they work."""
    return {"OMP_NUM_THREADS": "1", "PLANISH_CACHE": f"{home.path}/cache"}


class Cluster:
    """Two nodes of this machine, two workers each; `add` and `remove` take one more."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        os.environ.update(RAY_worker_niceness="0")
        self.cluster = RayCluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 0, "include_dashboard": False})
        self.address = self.cluster.address
        self.folder = folder

    def add(self) -> Any:
        return self.cluster.add_node(num_cpus=2, num_gpus=0)

    def remove(self, node: Any) -> None:
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("ray")
    made = Cluster(tmp_path_factory.mktemp("ray"))
    yield made
    made.close()


def home_with(folder: Path, solutions: int = 4) -> Home:
    level, run = folder / "level1", folder / "run"
    level.mkdir()
    run.mkdir()
    (level / "1_Small.py").write_text(TASK)
    for number in range(solutions):
        (run / f"level_1_problem_1_sample_{number}_kernel.py").write_text(f"N = {number}\n{WRONG if number == 1 else RIGHT}")
    return Home(folder)


SOLUTIONS = ["suite", "level1", "--solutions", "run", "--no-times", "--seeds", "1", "--target", "cpu", "--workers", "2", "--out", "out"]


@needs_ray
def test_solutions_are_judged_in_the_cluster(tmp_path: Path, cluster: Cluster) -> None:
    home = home_with(tmp_path)
    code, document = home.document(*SOLUTIONS, "--ray", cluster.address, env=settings(home))
    assert code == 0, document
    assert [row["verdict"] for row in document["tasks"]] == ["ok", "wrong", "ok", "ok"], document["tasks"]
    code, again = home.document(*SOLUTIONS, "--resume", env=settings(home))
    assert code == 0 and all(row["resumed"] for row in again["tasks"]), "what a cluster has done is done"


@needs_ray
def test_workers_come_and_go_and_nothing_is_lost(tmp_path: Path, cluster: Cluster) -> None:
    home = home_with(tmp_path, 10)
    node = cluster.add()
    running = home.start(*SOLUTIONS, "--json", "--ray", cluster.address, env=settings(home))
    killed = 0
    deadline = time.monotonic() + 200
    while killed < 3 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(2)
        for pid in stations_of(home)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        if killed == 2:
            cluster.remove(node)
    output, errors = running.communicate(timeout=240)
    rows = json.loads(output)["tasks"]
    assert killed and [row["verdict"] for row in rows] == ["ok", "wrong", *["ok"] * 8], (errors, rows)
    for _ in range(100):
        if not processes_with(str(home.path)):
            break
        time.sleep(0.1)
    assert not processes_with(str(home.path)), "nothing is left behind"


@needs_ray
def test_the_process_that_speaks_with_the_cluster_may_die(tmp_path: Path, cluster: Cluster) -> None:
    home = home_with(tmp_path)
    running = home.start(*SOLUTIONS, "--json", "--ray", cluster.address, env=settings(home))
    deadline = time.monotonic() + 100
    while not stations_of(home) and time.monotonic() < deadline:
        time.sleep(0.2)
    (shim,) = working_for(home, "planish.cluster")
    os.kill(shim, signal.SIGKILL)
    output, errors = running.communicate(timeout=240)
    assert [row["verdict"] for row in json.loads(output)["tasks"]] == ["ok", "wrong", "ok", "ok"], errors


def stations_of(home: Home) -> list[int]:
    """Stations of workers that judge for this home."""
    return working_for(home, "station")


def working_for(home: Home, word: str) -> list[int]:
    """Processes of this home with this word among their arguments."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            said = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            if f"\0{word}\0".encode() in said and str(home.path).encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


@needs_ray
def test_searches_leave_their_runs_in_one_store(tmp_path: Path, cluster: Cluster) -> None:
    home = home_with(tmp_path)
    (tmp_path / "level1" / "2_Other.py").write_text(TASK.replace("* 2", "* 4"))
    arguments = ["--target", "cpu", "--budget", "3s", "--evals", "1", "--baselines", "none", "--workers", "2", "--out", "out", "--ray", cluster.address]
    _, document = home.document("suite", "level1", *arguments, env=settings(home))
    assert [row["outcome"] in ("improved", "no_improvement") for row in document["tasks"]] == [True, True], document
    code, runs = home.document("runs")
    assert code == 0 and len(runs["runs"]) == 2 and not (tmp_path / "out" / ".stores").exists()
    assert home.run("show", runs["runs"][0]["run"]).returncode == 0


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    home = home_with(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        code, document = home.document(*SOLUTIONS, "--ray", address, env={"RAY_gcs_rpc_server_reconnect_timeout_s": "1"})
    assert code in (2, 3) and document["error"]["kind"] in ("no_cluster", "missing_package"), document
