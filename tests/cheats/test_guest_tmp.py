"""A guest's own /tmp and current folder (docs/sandbox.md): written to as if they were the machine's, seen by nobody else, gone with it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_guest import ATTEMPTS, RUNNER, SOURCE, World, json, world  # noqa: F401

OWN_TMP = "planish.runner.own_tmp"


@pytest.fixture
def inside(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, dict[str, Any]]]:  # noqa: F811
    """Runs a Python text in a place with its own /tmp, where these paths are still read."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE / "python"))

    def run(code: str, *needed: Path, command: list[str] | None = None, device: str = "cpu") -> tuple[str, dict[str, Any]]:
        whole = [world.python, "-m", OWN_TMP, *map(str, needed), "--", *(command or [world.python, "-c", code])]
        status, output, said = world.guest(whole, "--tmp", "own", "--device", device)
        if not said[0]["sandbox"]["private_tmp"]:
            pytest.skip("no mount namespace can be made here")
        assert status == 0, output
        return output, said[0]["sandbox"]

    return run


def test_what_is_written_to_tmp_is_read_back_and_lies_in_scratch(inside: Any, world: World) -> None:  # noqa: F811
    name = f"written-{os.getpid()}"
    code = (
        "import os, pathlib, subprocess, tempfile\n"
        f"place = pathlib.Path('/tmp/{name}'); place.mkdir(); (place / 'a').write_text('mine')\n"
        f"assert subprocess.run(['/bin/cat', '/tmp/{name}/a'], capture_output=True, text=True).stdout == 'mine'\n"
        "made = tempfile.mkdtemp(dir='/tmp'); os.rename(made, '/tmp/renamed'); (place / 'a').chmod(0o755); os.utime(place / 'a')\n"
        f"assert (pathlib.Path(os.environ['TMPDIR']) / '{name}' / 'a').read_text() == 'mine'\n"
        "assert not [name for name in os.environ if 'GUEST' in name]"
    )
    inside(code)
    assert not (Path("/tmp") / name).exists()
    assert (world.folder.parent / "scratch" / "tmp" / name / "a").read_text() == "mine"


def test_the_current_folder_is_its_own_and_reads_as_before(inside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    for name in ("small", "folder/inner"):
        (here / name).write_text("of the user")
    (here / "large").write_bytes(b"x" * (2 << 20))
    for path in (here, here / "folder"):
        path.chmod(0o755)
    monkeypatch.chdir(here)
    code = (
        "import os\n"
        "assert open('small').read() == open('folder/inner').read() == 'of the user' and os.path.getsize('large') == 2 << 20\n"
        "for name in ('small', 'new'): open(name, 'w').write('mine')\n"
        "for name in ('large', 'folder/inner', 'folder/new', '" + str(here) + "/small'):\n"
        "    try: open(name, 'a')\n"
        "    except OSError: continue\n"
        "    raise SystemExit(name)"
    )
    inside(code)
    assert sorted(path.name for path in here.iterdir()) == ["folder", "large", "small"] and (here / "small").read_text() == "of the user"


def test_files_of_the_host_and_of_other_guests_are_not_there(inside: Any, world: World) -> None:  # noqa: F811
    """Not under their names, through what the guest was started with, nor through the process above it."""
    other = world.folder.parent / "another guest"
    (other / "tmp").mkdir(parents=True)
    for place in (other / "tmp" / "theirs", world.folder / "secret"):
        place.write_text("theirs")
        place.chmod(0o644)
    other.chmod(0o755)
    secret = Path(f"/tmp/secret-{os.getpid()}")
    secret.write_text("of the host")
    names = [str(place) for place in (secret, other / "tmp" / "theirs", world.folder / "secret", other)]
    code = (
        f"import os\nfor name in {names!r}:\n"
        "    for way in (name, '/proc/self/root' + name, '/proc/1/root' + name, '/proc/1/cwd/..' + name):\n"
        "        assert not os.path.exists(way), way\n"
        "for number in os.listdir('/proc/self/fd'):\n"
        f"    assert not os.path.exists(f'/proc/self/fd/{{number}}/../secret-{os.getpid()}')\n"
        "os.symlink('" + str(secret) + "', '/tmp/link')\n"
        "assert not os.path.exists('/tmp/link') and not any('secret' in name for name in os.listdir('/tmp'))"
    )
    try:
        inside(code, ATTEMPTS)
        assert secret.read_text() == "of the host"
    finally:
        secret.unlink()


def test_two_at_once_do_not_see_each_other(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("PYTHONPATH", str(SOURCE / "python"))
    code = "import os, sys\nopen('/tmp/' + sys.argv[1], 'w').write('x'); print('written', flush=True); sys.stdin.readline(); print(sorted(os.listdir('/tmp')))"
    running: list[subprocess.Popen[str]] = []
    for name in ("first", "second"):
        scratch = tmp_path / name
        scratch.mkdir()
        os.chown(scratch, world.uid, world.uid)
        ours, theirs = socket.socketpair()

        def prepare(descriptor: int = theirs.fileno()) -> None:
            os.dup2(descriptor, 3)
            world.become()

        command = [str(RUNNER), "--guest", "--scratch", str(scratch), "--tmp", "own", "--", world.python, "-m", OWN_TMP, "--", world.python, "-c", code, name]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=prepare, close_fds=False))
        theirs.close()
        said = json.loads(ours.recv(65536).splitlines()[0])
        ours.close()
        if not said["sandbox"]["private_tmp"]:
            pytest.skip("no mount namespace can be made here")
        process = running[-1]
        assert process.stdout and process.stdout.readline() == "written\n"
    listed = [process.communicate("\n", timeout=60)[0] for process in running]
    assert "first" in listed[0] and "second" not in listed[0] and "second" in listed[1] and "first" not in listed[1]
    assert [process.returncode for process in running] == [0, 0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_attempt_but_its_own_tmp_is_refused(device: str, inside: Any, world: World) -> None:  # noqa: F811
    """On a folder that stays in sight below /tmp, where Landlock lets a guest write and read-only mounts do not."""
    command = [world.python, str(ATTEMPTS), *world.arguments]
    output, _ = inside("", ATTEMPTS, world.folder, command=command, device=device)
    found = json.loads(output.splitlines()[-1])
    assert {name: result for name, result in found.items() if result != "refused"} == {"write to /tmp": "succeeded: None"}
    assert world.words() == "EXPECTED" and list(world.folder.iterdir()) == []


def test_what_is_needed_below_tmp_stays_under_its_names(inside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solution behind links, with what lies beside it, and packages of an environment that lies in /tmp; nothing beside those folders."""
    real, packages, beside = tmp_path / "real", tmp_path / "packages", tmp_path / "beside"
    for folder in (real, packages, beside):
        folder.mkdir(mode=0o755)
    (real / "solution.py").write_text("x")
    (real / "neighbour.py").write_text("y")
    (packages / "planish_test_package.py").write_text("z = 1")
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(real)
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE / 'python'}:{packages}")
    code = (
        "import os, planish_test_package\n"
        f"assert open('{tmp_path}/first/solution.py').read() == 'x' and open('{real}/neighbour.py').read() == 'y'\n"
        f"assert os.path.realpath('{tmp_path}/first') == '{real}' and not os.path.exists('{beside}')\n"
        f"for place in ('{real}/solution.py', '{packages}/new', '{tmp_path}/first/new'):\n"
        "    try: open(place, 'a')\n"
        "    except OSError: continue\n"
        "    raise SystemExit(place)"
    )
    inside(code, tmp_path / "first" / "solution.py")


def test_what_a_guest_asks_for_can_only_be_below_tmp(world: World) -> None:  # noqa: F811
    """Whoever asks before it is asked for gets its /tmp and no more, and nobody gets a second answer."""
    code = (
        "import os, socket\n"
        "door = socket.socket(fileno=int(os.environ['PLANISH_GUEST_TMP']))\n"
        "door.send(b'\\0/\\0/etc\\0/tmp\\0/tmp/..\\0/tmp/../etc\\0relative\\0/proc/1/root\\0' + b'/tmp/' + b'x' * 5000)\n"
        "assert door.recv(2) == b'+'\n"
        f"assert set(os.listdir('/tmp')) <= {{'{world.folder.parts[2]}'}}, os.listdir('/tmp')\n"  # on the way to its scratch
        "try: answer = door.send(b'/tmp/x\\0') and door.recv(1)\n"
        "except OSError: answer = b''\n"
        "assert answer == b''\n"
        "for place in ('/etc/x', '/x'):\n"
        "    try: open(place, 'w')\n"
        "    except OSError: continue\n"
        "    raise SystemExit(place)"
    )
    status, output, said = world.guest([world.python, "-c", code], "--tmp", "own")
    if not said[0]["sandbox"]["private_tmp"]:
        pytest.skip("no mount namespace can be made here")
    assert status == 0, output


def test_a_store_outside_of_the_home_is_neither_read_nor_locked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A lock on a file that may only be read stops those who write it. What lies beside the store, the task say, and what is named in a folder, stays."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE / "python"))
    folder = Path(f"/var/tmp/planish-store-{os.getpid()}")
    store, task, out, shipped = folder / "runs.db", folder / "task.py", folder / "out", folder / "shipped"
    code = (
        "import fcntl, os, sys\nfrom pathlib import Path\nfrom planish.runner import own_tmp\nown_tmp.take(*map(Path, sys.argv[1:]))\n"
        f"fcntl.flock(os.open('{store}', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"  # the test holds the real one's
        f"found = open('{store}').read(), os.listdir('{out}'), open('{task}').read(), open('{shipped}/module.py').read()\n"
        "assert found == ('', [], 'of the user', 'of the user'), found\n"
    )
    command = [world.python, "-c", code, str(task), str(shipped / "module.py")]
    try:
        for place in (out, shipped):
            place.mkdir(parents=True)
        for path in (store, task, out / "result.json", shipped / "module.py"):
            path.write_text("of the user")
        hidden = [word for path in (store, out, shipped, folder / "none") for word in ("--hidden", str(path))]
        with open(store) as mine:
            fcntl.flock(mine, fcntl.LOCK_EX)
            status, output, said = world.guest(command, "--tmp", "own", *hidden)
            if not said[0]["sandbox"]["private_tmp"]:
                pytest.skip("no mount namespace can be made here")
            assert status == 0, output
            status, output, _ = world.guest(command, "--tmp", "own")
            assert status == 1 and "BlockingIOError" in output
            assert mine.read() == "of the user"
    finally:
        shutil.rmtree(folder)


def test_a_pipe_in_its_scratch_holds_nobody_up(world: World) -> None:  # noqa: F811
    """Seen: the first process of the place waited for ever to open what a guest had planted, and what that left behind went on."""
    shown = Path(f"/tmp/planted-{os.getpid()}")
    shown.write_text("of the host")
    shown.chmod(0o644)
    code = (
        "import os, socket\n"
        f"os.mkfifo(os.environ['TMPDIR'] + '/{shown.name}')\n"
        "door = socket.socket(fileno=int(os.environ['PLANISH_GUEST_TMP']))\n"
        f"door.send(b'{shown}\\0')\n"
        "door.settimeout(20)\n"
        f"assert door.recv(1) == b'+' and open('{shown}').read() == 'of the host'\n"
    )
    try:
        status, output, said = world.guest([world.python, "-c", code], "--tmp", "own")
        if not said[0]["sandbox"]["private_tmp"]:
            pytest.skip("no mount namespace can be made here")
        assert status == 0, output
    finally:
        shown.unlink()


def test_it_ends_as_usual_without_asking(world: World) -> None:  # noqa: F811
    code = (
        "import os\nif os.fork() == 0: os._exit(3)\nos.wait()\nassert not os.path.samefile('/tmp', os.environ['TMPDIR'])\n"
        "try: open('/tmp/x', 'w')\nexcept OSError: os._exit(7)"
    )
    status, output, _ = world.guest([world.python, "-c", code], "--tmp", "own")
    assert status == 7, output


def test_no_tmp_to_be_had_is_said_where_it_matters(tmp_path: Path) -> None:
    """Where Landlock alone holds a guest: it has a folder to work in, and is told what /tmp is not."""
    code = (
        "import os\nfrom planish.runner import own_tmp\nown_tmp.take()\n"
        f"assert os.getcwd() == '{tmp_path}'\n"
        "for number, name, said in ((13, '/tmp/x', True), (30, '/tmp/a/b', True), (13, '/etc/x', False), (2, '/tmp/x', False)):\n"
        "    error = RuntimeError('an extension')\n"
        "    error.__cause__ = OSError(number, 'refused', name)\n"
        "    assert ('no /tmp of their own' in own_tmp.advice(error)) == said, name\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "PLANISH_GUEST_FOLDER": str(tmp_path)}
    environment.pop("PLANISH_GUEST_TMP", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_who_may_mount_without_a_user_namespace_has_it_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """As root where user namespaces are off."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE / "python"))
    code = "import os\nfrom planish.runner import own_tmp\nown_tmp.take()\nopen('/tmp/x', 'w').close()\nprint(os.path.exists(os.environ['TMPDIR'] + '/x'))"
    _limited(world, monkeypatch, "max_user_namespaces")
    status, output, said = world.guest([world.python, "-c", code], "--tmp", "own")
    sandbox = said[0]["sandbox"]
    assert (status, output.strip(), sandbox["private_tmp"], sandbox["user_namespace"]) == (0, "True", True, False), output
    assert sandbox["no_capabilities"]


def test_without_mounts_the_tmp_of_all_stays_read_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """In a user namespace that allows no others of mounts: what some containers and hardened kernels are like."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE / "python"))
    code = (
        "import os\nfrom planish.runner import own_tmp\nown_tmp.take()\n"
        "open('x', 'w').close(); open(os.path.join(os.environ['TMPDIR'], 'y'), 'w').close()\n"
        "try: open(f'/tmp/planted-{os.getpid()}', 'w')\n"
        "except OSError as error: print(own_tmp.advice(error))"
    )
    _limited(world, monkeypatch, "max_mnt_namespaces")
    status, output, said = world.guest([world.python, "-c", code], "--tmp", "own")
    assert status == 0 and "no /tmp of their own" in output, output
    assert said[0]["sandbox"]["private_tmp"] is False and said[0]["sandbox"]["landlock"] > 0
    assert sorted(path.name for path in (world.folder.parent / "scratch" / "work").iterdir() if path.name == "x") == ["x"]


def _limited(world: World, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:  # noqa: F811
    """Guests are started in a user namespace that allows none of a kind."""
    command = ["unshare", "-Ur", "sh", "-c", f'echo 0 > /proc/sys/user/{limit}; exec "$0" "$@"']
    if subprocess.run([*command, "true"], preexec_fn=world.become, capture_output=True).stderr:
        pytest.skip("no user namespace can be limited here")
    real = subprocess.Popen

    def limited(runner: list[str], **options: Any) -> subprocess.Popen[str]:
        return real([*command, *runner], **options)

    monkeypatch.setattr("test_guest.subprocess.Popen", limited)


def test_other_words_for_its_tmp_are_refused(tmp_path: Path) -> None:
    done = subprocess.run([str(RUNNER), "--guest", "--scratch", str(tmp_path), "--tmp", "all", "--", "true"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: usage")


def test_of_the_users_home_it_sees_what_it_needs_alone(inside: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    home = Path("/var/tmp") / f"planish-home-{os.getpid()}"
    needed = ("tasks/task.py", "tasks/beside.py", ".cache/huggingface/hub/weights", "lib/module.py", "bin/tool")
    hidden = (".ssh/key", "notes.txt", ".local/share/planish/runs.sqlite", ".cache/huggingface/token", "project/notes.txt")
    try:
        for name in (*needed, *hidden):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text("of the user")
        for path in (home, *home.rglob("*")):
            path.chmod(0o755)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PYTHONPATH", f"{SOURCE / 'python'}:{home / 'lib'}")
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{home / 'bin'}")
        monkeypatch.setenv("CUDA_NOTES", str(home / "notes.txt"))
        monkeypatch.chdir(home / "project")
        code = (
            f"import os\nfor name in {needed!r}: assert open('{home}/' + name).read() == 'of the user', name\n"
            f"for name in {hidden!r}:\n"
            f"    for way in ('{home}/' + name, '/proc/self/root{home}/' + name, '/proc/1/root{home}/' + name, '/proc/1/cwd/..{home}/' + name):\n"
            "        assert not os.path.exists(way), way\n"
            "assert os.listdir('.') == []\n"
            f"for name in ('new', 'tasks/new', '.ssh'):\n"
            f"    try: os.mkdir('{home}/' + name)\n"
            "    except OSError: continue\n"
            "    raise SystemExit(name)\n"
            f"open('/tmp/mine', 'w').write('x')"
        )
        inside(code, home / "tasks" / "task.py")
    finally:
        shutil.rmtree(home)
