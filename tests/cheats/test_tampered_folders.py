"""More attacks on a shipped folder than test_altered_folders has: by what its manifest says, by what else lies there, by files that are no files, by its
environment, and while it is looked at. Each is refused by `planish verify`; what `planish.load` can see as well, it refuses too."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import planish
import pytest
import torch
from evaluator import PLANISH
from test_altered_folders import _evil_library, _manifest, _sha256, seal, shipped, verify  # noqa: F401

Attack = Callable[[Path, Path], None]


def _evil(mark: Path) -> str:
    return f"open({str(mark)!r}, 'w').close()\n"


def _write(name: str, content: str | bytes, sealed: bool = True) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        if sealed:
            seal(folder)

    return attack


def _append(name: str, sealed: bool) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(_evil(mark))
        if sealed:
            seal(folder)

    return attack


def _field(**fields: object) -> Attack:
    return lambda folder, mark: _manifest(folder, **fields)


def _without(*names: str) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        path = folder / "ship.json"
        document = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in document.items() if k not in names}))

    return attack


def _lists(name: str) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        files = json.loads((folder / "ship.json").read_text())["files"]
        _manifest(folder, files={**files, name: _sha256(b"")})

    return attack


def _removed(name: str) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        (folder / name).unlink()
        seal(folder)

    return attack


def _instead(name: str, make: Callable[[Path], None]) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return attack


def _beside(name: str, make: Callable[[Path], object]) -> Attack:
    def attack(folder: Path, mark: Path) -> None:
        make(folder / name)

    return attack


def _sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


def _listen(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(path.name)
    finally:
        os.chdir(here)


def _ship_json(text: str | bytes) -> Attack:
    return _write("ship.json", text, sealed=False)


def _manifest_elsewhere(folder: Path, mark: Path) -> None:
    shutil.move(folder / "ship.json", folder.parent / "ship.json")
    (folder / "ship.json").symlink_to(folder.parent / "ship.json")


def _kernel_of_another_name(folder: Path, mark: Path) -> None:
    _evil_library(folder / "kernels" / "k1.so", mark)
    seal(folder)


def _two_binaries(folder: Path, mark: Path) -> None:
    shutil.copy(folder / "kernels" / "k0.so", folder / "kernels" / "k1.so")
    seal(folder)
    _manifest(folder, binaries=["kernels/k0.so", "kernels/k1.so"])


def _empty_kernel(folder: Path, mark: Path) -> None:
    (folder / "kernels" / "k0.so").write_bytes(b"")
    evidence = json.loads((folder / "evidence.json").read_text())
    evidence["kernels"][0]["binary_sha256"] = _sha256(b"")
    (folder / "evidence.json").write_text(json.dumps(evidence))
    seal(folder)


def _evil_extension(folder: Path, mark: Path) -> None:
    _evil_library(folder / "planish_call.so", mark)
    seal(folder)


def _as_baseline(folder: Path, mark: Path) -> None:
    """Runs nothing of what it claims, with the rights of PyTorch's own compilers."""
    document = json.loads((folder / "ship.json").read_text())
    del document["program"]
    (folder / "ship.json").write_text(json.dumps({**document, "mode": "baseline", "baseline": "eager", "binaries": []}))


def _as_solution(folder: Path, mark: Path) -> None:
    (folder / "solution.py").write_text("from reference import Model as ModelNew\n")
    seal(folder)
    document = json.loads((folder / "ship.json").read_text())
    del document["program"]
    _manifest(folder)
    (folder / "ship.json").write_text(json.dumps({**document, "mode": "solution", "solution": _sha256((folder / "solution.py").read_bytes()), "binaries": []}))


def _twice(folder: Path, mark: Path) -> None:
    """Two readers may take different ones of two fields of one name."""
    text = (folder / "ship.json").read_text()
    (folder / "ship.json").write_text(text.rstrip().removesuffix("}") + ', "files": {}}')


def _one_bit(folder: Path, mark: Path) -> None:
    data = bytearray((folder / "kernels" / "k0.so").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "kernels" / "k0.so").write_bytes(data)


def _hook(folder: Path, mark: Path) -> None:
    _append("guards.py", False)(folder, mark)


SEEN_BY_LOAD = True
#: attack, what verify says, and whether `planish.load` sees it too
ATTACKS: dict[str, tuple[Attack, str, bool]] = {
    "guards changed": (_append("guards.py", False), "has changed", SEEN_BY_LOAD),
    "executor changed": (_append("executor.py", False), "has changed", SEEN_BY_LOAD),
    "module.py changed": (_append("module.py", False), "has changed", SEEN_BY_LOAD),
    "executor changed and sealed": (_append("executor.py", True), "executor.py is not what this version", False),
    "a bit of a kernel": (_one_bit, "kernels/k0.so has changed", False),
    "sitecustomize": (_append("sitecustomize.py", False), "was added", SEEN_BY_LOAD),
    "sitecustomize sealed": (_append("sitecustomize.py", True), "nothing that Planish ships", False),
    "a .pth file": (_write("evil.pth", "import os", False), "was added", False),
    "a package named torch": (_write("torch/__init__.py", "", False), "was added", SEEN_BY_LOAD),
    "an empty folder named torch": (_beside("torch", Path.mkdir), "folder torch was added", False),
    "an empty folder for neighbours": (_beside("neighbours", Path.mkdir), "folder neighbours was added", False),
    "bytecode in a folder": (_write("neighbours/__pycache__/x.cpython-311.pyc", b"x", False), "is bytecode", False),
    "bytecode beside its source": (_write("guards.pyc", b"x"), "nothing that Planish ships", False),
    "a library beside its source": (_write("guards.abi3.so", b"x"), "nothing that Planish ships", False),
    "another kernel, unused": (_kernel_of_another_name, "kernels/k1.so is nothing that a folder", False),
    "a second binary": (_two_binaries, "k1.so is nothing that a folder", False),
    "a kernel of no bytes": (_empty_kernel, "not what its source compiles to", False),
    "another extension": (_evil_extension, "planish_call.so is not what this version", False),
    "a constant that nobody uses": (_write("blobs/" + _sha256(b"x"), b"x"), "is nothing that a folder", False),
    "a note in the folder of kernels": (_write("kernels/README", "x"), "is nothing that a folder", False),
    "a solution beside the program": (_write("solution.py", "x = 1\n"), "solution.py is nothing that a folder", False),
    "a part missing": (_removed("frozen.py"), "frozen.py is missing", False),
    "the runtime missing": (_removed("libplanish_rt.so"), "libplanish_rt.so is missing", False),
    "module.py missing": (_removed("module.py"), "module.py is missing", False),
    "the reference missing": (_removed("reference.py"), "reference.py is not what", False),
    "the kernel missing": (_removed("kernels/k0.so"), "k0.so", False),
    "called a baseline": (_as_baseline, "is nothing that a folder of mode `baseline`", False),
    "called a solution": (_as_solution, "is nothing that a folder of mode `solution`", False),
    "no mode": (_without("mode"), "names no mode", False),
    "a mode that is a number": (_field(mode=3), "names no mode", False),
    "another default dtype": (_field(default_dtype="f64"), "default dtype", False),
    "a field that nothing is known of": (_field(hooks=["os.system"]), "field `hooks`", False),
    "no effects": (_without("effects"), "effects", False),
    "flags that are no list": (_field(cpu_flags="avx2"), "cpu_flags", False),
    "flags left out": (_without("cpu_flags"), "does not say that its kernels need", False),
    "binaries that are numbers": (_field(binaries=[7]), "binary is not kernels/k0.so", False),
    "binaries that are text": (_field(binaries="kernels/k0.so"), "binaries for", False),
    "another tree of inputs": (_field(input_tree="[]"), "`input_tree` in ship.json", False),
    "files that are a list": (_field(files=[]), "no planish.ship/1 document", SEEN_BY_LOAD),
    "no files": (_without("files"), "no planish.ship/1 document", False),
    "digests that are numbers": (lambda folder, mark: _manifest(folder, files={p.name: 1 for p in folder.glob("*.py")}), "was added", SEEN_BY_LOAD),
    "two fields named files": (_twice, "was added", SEEN_BY_LOAD),
    "an absolute path": (_lists("/etc/hostname"), "lies outside", False),
    "a path with dots": (_lists("kernels/../reference.py"), "lies outside", SEEN_BY_LOAD),
    "a path that begins with a dot": (_lists("./reference.py"), "./reference.py is missing", SEEN_BY_LOAD),
    "an empty path": (_lists(""), "lies outside", False),
    "a path with a null byte": (_lists("guards.py\0.txt"), "is missing", False),
    "a path that draws on the terminal": (_lists("\x1b[2Jverified"), "is missing", False),
    "a name that draws on the terminal": (_write("\x1b[2J\nverified: all of it", "", False), "was added", False),
    "a name that is no text": (_beside("", lambda path: open(os.fsencode(path) + b"/\xff\xfe.py", "w").close()), "was added", SEEN_BY_LOAD),
    "a very long name": (_write("n" * 250 + ".py", "", False), "was added", SEEN_BY_LOAD),
    "a manifest that is a link": (_manifest_elsewhere, "ship.json is no plain file", False),
    "a file that is a pipe": (_instead("context.py", os.mkfifo), "no plain file", SEEN_BY_LOAD),
    "a pipe beside": (_beside("door", os.mkfifo), "no plain file", False),
    "a socket beside": (_beside("door", _listen), "no plain file", False),
    "a file that is a device": (_instead("context.py", lambda path: path.symlink_to("/dev/zero")), "no plain file", SEEN_BY_LOAD),
    "a file that is a folder": (_instead("context.py", Path.mkdir), "context.py is missing", SEEN_BY_LOAD),
    "a link to itself": (_beside("self", lambda path: path.symlink_to(path)), "no plain file", False),
    "a terabyte that nobody lists": (_beside("large.bin", _sparse(1 << 40)), "was added", False),
    "a kernel of a terabyte": (_instead("kernels/k0.so", _sparse(1 << 40)), "bytes, at most", False),
    "a manifest of a gigabyte": (_instead("ship.json", _sparse(1 << 30)), "bytes, at most", False),
    "evidence of no times": (_write("evidence.json", '{"schema": "planish.evidence/1", "times": []}'), "evidence.json is no", False),
    "evidence that is deep": (_write("evidence.json", "[" * 100_000), "evidence.json is no JSON", False),
    "a program that is deep": (_write("program.json", "[" * 100_000), "program.json", False),
    "a program of another schema": (_write("program.json", '{"schema": "planish.program/9"}'), "program.json", False),
}


def _refused_by_load(folder: Path) -> str:
    with pytest.raises(planish.PlanishError) as refused:
        planish.load(folder)
    return refused.value.kind


@pytest.mark.parametrize("name", ATTACKS)
def test_a_tampered_folder_is_refused_before_any_of_it_runs(name: str, shipped: Path, tmp_path: Path) -> None:  # noqa: F811
    attack, reason, by_load = ATTACKS[name]
    copy, mark = tmp_path / "shipped", tmp_path / "it-ran"
    shutil.copytree(shipped, copy)
    attack(copy, mark)
    code, document = verify(shipped, copy)
    message = str(document["message"])
    assert code == 1 and document["verified"] is False and message.startswith("altered: ") and reason in message, message
    assert "\x1b" not in message
    if by_load:
        assert _refused_by_load(copy) in ("altered", "not_shipped")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["kernels/k0.so", "libplanish_rt.so", "program.json"])
def test_another_library_or_program_than_was_shipped_never_runs(name: str, shipped: Path, tmp_path: Path) -> None:  # noqa: F811
    copy = tmp_path / "shipped"
    shutil.copytree(shipped, copy)
    (copy / name).write_bytes((copy / name).read_bytes() + b"\n")
    model = planish.load(copy)
    x = torch.randn(37, 101)
    with torch.no_grad(), pytest.warns(UserWarning, match="altered: .*" + name):
        assert torch.equal(model(x, x), torch.relu(x) * 2 + x)
    assert model._planish.shipped.runs() == 0


@pytest.mark.parametrize("text", ["", "[]", "nothing", '{"schema": "planish.ship/2"}', "[" * 100_000, b"\xff\xfe"])
def test_a_manifest_that_is_none_is_named(text: str | bytes, shipped: Path, tmp_path: Path) -> None:  # noqa: F811
    copy = tmp_path / "shipped"
    shutil.copytree(shipped, copy)
    _ship_json(text)(copy, tmp_path)
    command = [str(PLANISH), "verify", str(shipped.parent / "task.py"), str(copy), "--target", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode in (1, 2) and ("not_shipped" in done.stdout + done.stderr or "altered" in done.stdout), done.stdout + done.stderr
    assert _refused_by_load(copy) == "not_shipped"


def test_a_folder_may_have_any_name(shipped: Path, tmp_path: Path) -> None:  # noqa: F811
    name = "-rf 'a' new\nline $(touch ünï)"
    shutil.copytree(shipped, tmp_path / name)
    code, document = verify(shipped, tmp_path / name)
    assert code == 0 and document["verified"], document["message"]
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_hard_links_and_a_link_to_the_folder_are_the_files_that_they_are(shipped: Path, tmp_path: Path) -> None:  # noqa: F811
    shutil.copytree(shipped, tmp_path / "shipped", copy_function=os.link)
    (tmp_path / "link").symlink_to(tmp_path / "shipped")
    code, document = verify(shipped, tmp_path / "link")
    assert code == 0 and document["verified"], document["message"]


def test_what_changes_while_it_is_looked_at_is_not_verified(shipped: Path, tmp_path: Path) -> None:  # noqa: F811
    """Whenever it happens: a copy is proved, and in the end the folder must be what was copied."""
    copy, mark = tmp_path / "shipped", tmp_path / "it-ran"
    shutil.copytree(shipped, copy)
    original = (copy / "executor.py").read_bytes()
    over = threading.Event()

    def flip() -> None:
        while not over.is_set():
            (copy / "executor.py").write_bytes(original + _evil(mark).encode())
            time.sleep(0.05)
            (copy / "executor.py").write_bytes(original)
            time.sleep(0.05)

    changing = threading.Thread(target=flip)
    changing.start()
    try:
        verify(shipped, copy)
    finally:
        over.set()
        changing.join()
    assert not mark.exists(), "what ran was another than what was looked at"
    late = threading.Timer(1.5, _append("executor.py", False), (copy, mark))
    late.start()
    code, document = verify(shipped, copy)
    late.join()
    message = str(document["message"])  # on a slow machine that may be before the copy is whole
    assert code == 1 and ("executor.py has changed" in message or "changed while it was looked at" in message), message
    assert not mark.exists()


@pytest.mark.parametrize("where", ["current folder", "PYTHONPATH"])
def test_what_lies_around_changes_nothing_that_is_loaded(where: str, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    evil, mark = tmp_path / "evil", tmp_path / "it-ran"
    evil.mkdir()
    for name in ("names", "guards", "executor", "module", "reference", "_planish", "task"):  # nothing of PyTorch's: PYTHONPATH is the user's
        (evil / f"{name}.py").write_text(_evil(mark))
    if where == "current folder":
        for name in ("torch", "sitecustomize", "usercustomize", "planish", "json"):
            (evil / f"{name}.py").write_text(_evil(mark))
    _evil_library(evil / "libplanish_rt.so", mark)
    _evil_library(evil / "k0.so", mark)
    monkeypatch.chdir(evil)
    if where == "current folder":
        monkeypatch.setenv("PYTHONPATH", ":.:")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(evil))
    else:
        monkeypatch.setenv("PYTHONPATH", str(evil))
    code, document = verify(shipped, shipped)
    assert code == 0 and document["verified"], document["message"]
    assert not mark.exists()
