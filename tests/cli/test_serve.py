"""`planish serve`: a command joins it, it is made ready for the next, and ends when told to."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

from command import Home, processes_with
from optimised_task import SMALL
from serving import served, wait_until_it_listens


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
        # What --store and --out say is no other environment: such a command joins as well.
        assert home.run("serve", "--stop", env={"PLANISH_STORE": "/a", "PLANISH_HIDDEN": "/a:/b"}).returncode == 0
        assert server.wait(60) == 0
        assert not processes_with(str(tmp_path)), "nothing stays behind"
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGKILL)
            server.wait()
        for pipe in (server.stdout, server.stderr):
            if pipe is not None:
                pipe.close()


def reading(path: Path) -> str:
    """A right solution that says in an exception what it could read and lock of a file, where that is anything."""
    return SMALL.replace("class Model(", "class ModelNew(").replace(
        "import torch\n",
        "import fcntl, os, torch\n"
        "try:\n"
        f"    handle = os.open({str(path)!r}, os.O_RDONLY)\n"
        "    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    seen = f'{os.fstat(handle).st_size} bytes, locked'\n"
        "except OSError as error:\n"
        "    seen = f'0 bytes: {error}'\n"
        "if not seen.startswith('0 bytes'):\n"
        "    raise RuntimeError(seen)\n",
        1,
    )


def test_guests_of_what_is_served_do_not_see_the_stores_of_later_commands(tmp_path: Path) -> None:
    """The server was started with a store of its own and without these. Its guests, those that wait too, are not shown what each command names."""
    home = Home(tmp_path)
    folder = Path(f"/var/tmp/planish-serve-{os.getpid()}")  # neither in the home nor in /tmp, which guests do not see anyway
    folder.mkdir()
    stores = [folder / "first.db", folder / "second.db"]
    try:
        task = home.task(SMALL)
        for store in stores:
            made = home.run(
                "optimize", task, "--target", "cpu", "--budget", "1s", "--evals", "1", "--baselines", "none", "--search-only", "--store", str(store)
            )
            assert made.returncode in (0, 1) and store.stat().st_size > 0, made.stderr
        with served(home):
            solution = home.path / "solution.py"
            # The control: a store that nobody names is a file like others.
            solution.write_text(reading(stores[0]))
            seen = home.run("verify", task, str(solution), "--target", "cpu", "--seeds", "1", "--json")
            assert "bytes, locked" in json.loads(seen.stdout)["message"], seen.stdout
            for store in stores:
                solution.write_text(reading(store))
                judged = home.run("verify", task, str(solution), "--target", "cpu", "--seeds", "1", "--json", env={"PLANISH_STORE": str(store)})
                assert judged.returncode == 0, judged.stdout
            # Paths are only ever added: what an earlier command named stays hidden from guests of later ones.
            solution.write_text(reading(stores[0]))
            judged = home.run("verify", task, str(solution), "--target", "cpu", "--seeds", "1", "--json")
            assert judged.returncode == 0, judged.stdout
    finally:
        shutil.rmtree(folder)


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
