"""`planish serve`: a command joins it, it is made ready for the next, and ends when told to."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from command import Home, processes_with
from optimised_task import SMALL
from serving import wait_until_it_listens


def spares_of(pid: int) -> list[str]:
    """Command lines of the Python processes that a served evaluator keeps ready."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int((folder / "stat").read_text().rsplit(") ", 1)[1].split()[1]) == pid:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, IndexError):
            continue
    return [line for line in found if "planish.oracle" in line or "planish.runner" in line]


def test_a_command_joins_what_is_served_and_stop_ends_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    nobody = home.run("serve", "--stop")
    assert nobody.returncode == 2 and "planish serve starts one" in nobody.stderr
    server = home.start("serve", "--idle", "10m", "--json")
    try:
        wait_until_it_listens(server)
        second = home.run("serve", "--idle", "1s")
        assert second.returncode == 2 and "--stop" in second.stderr
        assert not spares_of(server.pid)
        task = home.task(SMALL)
        done = home.run("optimize", task, "--target", "cpu", "--budget", "2s", "--evals", "1", "--baselines", "none", "--search-only", "--json")
        assert done.returncode == 0, done.stderr
        # Solutions of others are judged by what is served as well: in guests of its own, and by nothing that an earlier one left.
        right = SMALL.replace("class Model(", "class ModelNew(")
        for text, code, outcome in ((right.replace("return ", "return 1.01 * ", 1), 1, "wrong"), (right, 0, "ok")):
            solution = tmp_path / "solution.py"
            solution.write_text(text)
            judged = home.run("verify", task, solution, "--target", "cpu", "--seeds", "1", "--json")
            assert judged.returncode == code, judged.stderr
            assert json.loads(judged.stdout)["outcome"] == outcome
        assert server.poll() is None
        assert spares_of(server.pid), "processes for the next task are being started"
        assert home.run("serve", "--stop").returncode == 0
        assert server.wait(60) == 0
        assert not processes_with(str(tmp_path)), "nothing stays behind"
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGKILL)
            server.wait()
        for pipe in (server.stdout, server.stderr):
            if pipe is not None:
                pipe.close()


def test_another_environment_does_not_find_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    server = home.start("serve", "--idle", "10m", "--json", env={"OMP_NUM_THREADS": "3"})
    try:
        wait_until_it_listens(server)
        assert home.run("serve", "--stop").returncode == 2
        stopped = home.run("serve", "--stop", env={"OMP_NUM_THREADS": "3"})
        assert stopped.returncode == 0, stopped.stderr
        assert server.wait(60) == 0
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate()
