"""The place that foreign host code runs in (docs/sandbox.md): every attempt of attempts.py is refused there, and succeeds outside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2]
RUNNER = Path(os.environ.get("PLANISH_BUILD", SOURCE / "build")) / "bin" / "planish-runner"
ATTEMPTS = Path(__file__).with_name("attempts.py")
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"

_VICTIM = """
import ctypes, sys, time
words = ctypes.create_string_buffer(b"EXPECTED", 8)
if sys.argv[1] == "judge":
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
print(ctypes.addressof(words), flush=True)
for line in sys.stdin:
    print(words.raw.decode(), flush=True)
"""


@dataclass
class World:
    """A judge with its secret words, a folder, and sockets that listen: what a guest must not reach."""

    folder: Path
    uid: int
    python: str
    judge: subprocess.Popen[str]
    arguments: list[str]

    def words(self) -> str:
        assert self.judge.stdin and self.judge.stdout
        self.judge.stdin.write("\n")
        self.judge.stdin.flush()
        return self.judge.stdout.readline().strip()

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SECRET_TOKEN": "abc", "HF_TOKEN": "def", "TORCH_SECRET": "ghi"}

    def become(self) -> None:
        os.setpgid(0, 0)
        if self.uid != os.getuid():
            os.setgroups([])
            os.setgid(self.uid)
            os.setuid(self.uid)

    def outside(self, *extra: str) -> dict[str, str]:
        done = subprocess.run([self.python, str(ATTEMPTS), *self.arguments, *extra], capture_output=True, text=True, env=self.environment(),
                              preexec_fn=self.become, timeout=60)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def guest(self, command: list[str], *options: str, timeout: float = 60) -> tuple[int, str, list[dict[str, Any]]]:
        """(exit status, output, lines that the evaluator would read)"""
        scratch = self.folder.parent / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        os.chown(scratch, self.uid, self.uid)
        ours, theirs = socket.socketpair()

        def prepare() -> None:
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)
            self.become()

        with ours, theirs:
            process = subprocess.Popen([str(RUNNER), "--guest", "--scratch", str(scratch), *options, "--", *command], stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, env=self.environment(), preexec_fn=prepare, close_fds=False)  # fmt: skip
            theirs.close()
            output, _ = process.communicate(timeout=timeout)
            ours.settimeout(5)
            said = b""
            while block := ours.recv(65536):
                said += block
        return process.returncode, output, [json.loads(line) for line in said.splitlines()]


@pytest.fixture(params=["as this user", "as nobody"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if not RUNNER.exists():
        pytest.fail(f"{RUNNER} is not built: run make build")
    uid, python = os.getuid(), sys.executable
    if request.param == "as nobody":
        if uid != 0:
            pytest.skip("only root can become somebody else")
        uid, python = NOBODY, SYSTEM_PYTHON
        if subprocess.run([python, "-c", "pass"], preexec_fn=lambda: os.setuid(NOBODY), capture_output=True).returncode:
            pytest.skip("nobody may not run the system's Python here")
        for place in (tmp_path, *tmp_path.parents):
            if place.stat().st_uid == 0 and place != Path("/"):
                with contextlib.suppress(OSError):
                    place.chmod(place.stat().st_mode | 0o055)
    folder = tmp_path / "others"
    folder.mkdir()
    os.chown(folder, uid, uid)

    def become() -> None:
        if uid != os.getuid():
            os.setgid(uid)
            os.setuid(uid)

    path = str(tmp_path / "door")
    with socket.socket() as over_ip, socket.socket(socket.AF_UNIX) as at_path, socket.socket(socket.AF_UNIX) as by_name:
        over_ip.bind(("127.0.0.1", 0))
        at_path.bind(path)
        os.chmod(path, 0o777)
        by_name.bind("\0" + path)
        for door in (over_ip, at_path, by_name):
            door.listen(8)
        judge = subprocess.Popen([python, "-c", _VICTIM, "judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=become)
        assert judge.stdout
        address = judge.stdout.readline().strip()
        shared = [Path(f"{place}/of-all-{judge.pid}") for place in ("/dev/shm", "/tmp")]
        for file in shared:
            file.touch()
            file.chmod(0o666)
        yield World(folder, uid, python, judge, [str(judge.pid), address, str(folder), str(over_ip.getsockname()[1]), path])
        for file in shared:
            file.unlink()
        judge.kill()
        judge.wait()


@pytest.mark.parametrize(("device", "network"), [("cpu", "none"), ("cuda", "none"), ("cuda", "loopback")])
def test_every_attempt_is_refused(device: str, network: str, world: World) -> None:
    status, output, said = world.guest([world.python, str(ATTEMPTS), *world.arguments], "--device", device, "--network", network)
    assert status == 0, output
    found = json.loads(output.splitlines()[-1])
    assert {name: result for name, result in found.items() if result != "refused"} == {}, said
    assert world.judge.poll() is None and world.words() == "EXPECTED"
    assert said[0]["event"] == "sandbox" and isinstance(said[0]["sandbox"]["missing"], list)
    assert list(world.folder.iterdir()) == []


def test_the_attempts_work_where_nothing_holds_them(world: World) -> None:
    """Otherwise the test above would prove nothing."""
    found = world.outside()
    for name in (
        "write a file",
        "write to /tmp",
        "write to a file of others in /tmp",
        "change a mode",
        "secrets",
        "connect over IP",
        "connect to a path",
        "connect to a name",
        "stop",
        "kill",
        "go on",
        "a signal by a longer number",
        "a timer that makes it go on",
        "outlive its parent",
        "outlive its parent by a longer number",
        "sockets of the kernel",
    ):
        assert found[name].startswith("succeeded"), (name, found[name])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_process_that_is_not_private_can_be_written_to_from_outside_a_guest(tmp_path: Path) -> None:
    """What prctl(PR_SET_DUMPABLE) of the judges is for; root may look into anything, so this is about ordinary users."""
    if os.getuid() != 0:
        pytest.skip("only root can become two ordinary processes of one user")
    results = {}
    for kind in ("open", "judge"):
        become = lambda: os.setuid(NOBODY)  # noqa: E731
        victim = subprocess.Popen([SYSTEM_PYTHON, "-c", _VICTIM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=become)
        assert victim.stdin and victim.stdout
        address = victim.stdout.readline().strip()
        code = f"open('/proc/{victim.pid}/mem', 'r+b', buffering=0).close()"
        done = subprocess.run([SYSTEM_PYTHON, "-c", code], preexec_fn=become, capture_output=True, text=True)
        results[kind] = done.returncode
        assert address
        victim.kill()
        victim.wait()
    assert results["judge"] != 0
    # Where the machine's own policy (Yama) already forbids it there is nothing to show.
    if not Path("/proc/sys/kernel/yama/ptrace_scope").exists():
        assert results["open"] == 0


def test_no_daemon_survives(world: World) -> None:
    mark = f"{1000 + os.getpid() % 1000}.{int(time.time() * 1000) % 100000:05d}"
    status, output, _ = world.guest([world.python, str(ATTEMPTS), *world.arguments, mark])
    assert status == 0, output
    assert _running(mark) == []


def test_killing_the_group_ends_a_guest_with_its_daemons(world: World) -> None:
    """As the evaluator does at a deadline: nothing of the guest's may outlive that, even what left the group."""
    mark = f"{2000 + os.getpid() % 1000}.{int(time.time() * 1000) % 100000:05d}"
    scratch = world.folder.parent / "scratch"
    scratch.mkdir()
    os.chown(scratch, world.uid, world.uid)
    code = f"import os, time\nif os.fork() == 0:\n  os.setsid()\n  os.execv('/bin/sleep', ['sleep', '{mark}'])\ntime.sleep(600)"
    ours, theirs = socket.socketpair()

    def prepare() -> None:
        os.dup2(theirs.fileno(), 3)
        world.become()

    process = subprocess.Popen([str(RUNNER), "--guest", "--scratch", str(scratch), "--", world.python, "-c", code], preexec_fn=prepare, close_fds=False)
    with ours, theirs:
        _until(lambda: bool(_running(mark)))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _until(lambda: not _running(mark))


def test_memory_is_counted_over_all_processes(world: World) -> None:
    code = "import os, time\nos.fork()\nx = bytearray(80 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(60)"
    status, _, said = world.guest([world.python, "-c", code], "--max-rss", str(120 << 20))
    assert status != 0 and said[-1] == {"event": "fault", "signal": 9, "address": "0x0", "where": "memory"}
    status, output, said = world.guest([world.python, "-c", "x = bytearray(40 << 20); print('fits')"], "--max-rss", str(120 << 20))
    assert (status, output.strip()) == (0, "fits") and all(line["event"] == "sandbox" for line in said)


def test_files_in_memory_that_nobody_maps_are_counted(world: World) -> None:
    code = "import os, time\nfd = os.memfd_create('x')\nfor _ in range({}): os.write(fd, bytes(1 << 20))\nprint('fits')\ntime.sleep({})"
    status, _, said = world.guest([world.python, "-c", code.format(200, 60)], "--max-rss", str(120 << 20))
    assert status != 0 and said[-1] == {"event": "fault", "signal": 9, "address": "0x0", "where": "memory"}
    status, output, _ = world.guest([world.python, "-c", code.format(40, 1.5)], "--max-rss", str(120 << 20))
    assert (status, output.strip()) == (0, "fits")


@pytest.mark.parametrize("end", ["import sys; sys.exit(7)", "import os; os.kill(os.getpid(), 11)", "import ctypes; ctypes.string_at(8)"])
def test_it_ends_as_the_guest_did(end: str, world: World) -> None:
    status, _, _ = world.guest([world.python, "-c", end])
    assert status == (7 if "exit" in end else -signal.SIGSEGV)


def test_compilers_and_scratch_files_work(world: World) -> None:
    code = (
        "import os, subprocess, tempfile, ctypes, pathlib, shutil, multiprocessing\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "(folder / 'a.cpp').write_text('extern \"C\" int f() { return 42; }')\n"
        "subprocess.run(['g++', '-shared', '-fPIC', '-o', folder / 'a.so', folder / 'a.cpp'], check=True)\n"
        "shutil.copy2(folder / 'a.so', folder / 'b.so')\n"
        "(folder / 'run').write_text('#!/bin/sh\\necho started'); os.chmod(folder / 'run', 0o755)\n"
        "assert subprocess.run([folder / 'run'], capture_output=True, text=True).stdout == 'started\\n'\n"
        "lock = multiprocessing.Lock()\n"
        "print(ctypes.CDLL(str(folder / 'b.so')).f())"
    )
    status, output, _ = world.guest([world.python, "-c", code])
    assert (status, output.split()[-1:]) == (0, ["42"]), output


def test_the_cuda_driver_finds_what_it_needs_and_no_more(world: World) -> None:
    """Seen on an H200: cuInit names its threads through /proc and listens on a socket of packets."""
    code = (
        "import socket, threading\n"
        "open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write('named')\n"
        "with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s: s.bind(''); s.listen(1)\n"
        "for family, kind in ((socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM), (socket.AF_INET, socket.SOCK_SEQPACKET)):\n"
        "    try: socket.socket(family, kind)\n"
        "    except PermissionError: continue\n"
        "    raise SystemExit(f'{family} {kind}')\n"
        "print('good')"
    )
    status, output, _ = world.guest([world.python, "-c", code], "--device", "cuda")
    assert (status, output.strip()) == (0, "good")


def test_processes_of_a_guest_can_speak_with_each_other_over_a_network_of_their_own(world: World) -> None:
    """As compute-sanitizer does with the program that it watches; a path in the file system stays closed."""
    code = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as door, socket.create_connection(door.getsockname()) as near:\n"
        "    far, _ = door.accept()\n"
        "    near.sendall(b'spoken')\n"
        "    print(far.recv(6).decode())\n"
        "for family, kind in ((socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_STREAM)):\n"
        "    try: socket.socket(family, kind)\n"
        "    except PermissionError: continue\n"
        "    raise SystemExit(f'{family} {kind}')\n"
        "with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as packets:\n"
        "    try: packets.connect('/a/path/that/is/long')\n"
        "    except PermissionError: print('closed')\n"
    )
    status, output, said = world.guest([world.python, "-c", code], "--device", "cuda", "--network", "loopback")
    if not said[0]["sandbox"]["loopback"]:
        pytest.skip("no network namespace can be made here")
    assert (status, output.split()) == (0, ["spoken", "closed"]), output
    status, output, said = world.guest([world.python, "-c", code], "--device", "cuda")
    assert status != 0 and "PermissionError" in output and not said[0]["sandbox"]["loopback"]


def test_bad_arguments_are_refused() -> None:
    network = ["--scratch", "/tmp", "--network", "all", "--", "true"]
    for arguments in ([], ["--scratch", "/tmp"], network, ["--scratch", "relative", "--", "true"], ["--what", "x", "--", "true"]):
        done = subprocess.run([str(RUNNER), "--guest", *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("error: usage")


def _running(argument: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if argument.encode() in (entry / "cmdline").read_bytes().split(b"\0") and b"sleep" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def _until(done: Any) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
