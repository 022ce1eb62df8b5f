"""Shipped folders that somebody has altered, and sealed again as well as a forger can: `planish verify` refuses each before it loads any of it."""

from __future__ import annotations

import hashlib
import importlib._bootstrap_external
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from evaluator import PLANISH, TASK, Evaluator
from test_bad_candidates import GOOD

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "ship"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "executor"))

from planish import rt
from planish.ship.archive import cpu_flags
from shipping import seal, ship

Alteration = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder as `planish optimize` leaves it, with a kernel that the compile worker has made."""
    folder = tmp_path_factory.mktemp("shipped")
    task = folder / "task.py"
    task.write_text(TASK)
    evaluator = Evaluator(folder, task)
    program = evaluator.document(GOOD)
    evaluated = evaluator.evaluate(GOOD)
    evaluator.close()
    assert evaluated["outcome"] == "ok"
    made = ship(folder, TASK)
    sha256 = evaluated["compile"]["kernels"][0]["sha256"]
    (made / "kernels").mkdir()
    shutil.copy(next((folder / "cache").rglob(f"{sha256}.so")), made / "kernels" / "k0.so")
    (made / "kernels" / "k0.cpp").write_text(GOOD)
    (made / "program.json").write_text(json.dumps(program))
    library = rt.find_library()
    for name in ("libplanish_rt.so", "planish_call.so"):
        shutil.copy(library.parent / name, made)
    samples = [1.0, 2.0, 3.0]
    kernel = {"language": "cpp", "entry": "k0", "source_sha256": _sha256(GOOD.encode()), "binary_sha256": sha256}
    times = {"shipped": {"median_ms": 2.0, "lo_ms": 1.0, "hi_ms": 3.0, "samples_ms": samples}}
    (made / "evidence.json").write_text(json.dumps({"schema": "planish.evidence/1", "times": times, "kernels": [kernel]}))
    _manifest(made, binaries=["kernels/k0.so"], program=evaluated["program"], task={"name": "task"}, planish="0.1.0", torch=torch.__version__,
              cpu_flags=sorted(cpu_flags()))  # fmt: skip
    seal(made)
    yield made


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest(folder: Path, **fields: object) -> None:
    path = folder / "ship.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _evil_library(at: Path, mark: Path) -> None:
    source = f'#include <stdio.h>\n__attribute__((constructor)) static void run() {{ fclose(fopen("{mark}", "w")); }}\nextern "C" void k0(void**) {{}}\n'
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(at)], input=source, text=True, check=True)


def _forged_times(folder: Path, mark: Path) -> None:
    _edit(folder / "evidence.json", '"median_ms": 2.0', '"median_ms": 0.002')
    seal(folder)


def _no_evidence(folder: Path, mark: Path) -> None:
    (folder / "evidence.json").unlink()
    seal(folder)


def _empty_evidence(folder: Path, mark: Path) -> None:
    (folder / "evidence.json").write_text("{}")
    seal(folder)


def _wrong_hash(folder: Path, mark: Path) -> None:
    with (folder / "reference.py").open("a") as file:
        file.write("# changed\n")


def _another_binary(folder: Path, mark: Path) -> None:
    _evil_library(folder / "kernels" / "k0.so", mark)
    evidence = json.loads((folder / "evidence.json").read_text())
    evidence["kernels"][0]["binary_sha256"] = _sha256((folder / "kernels" / "k0.so").read_bytes())
    (folder / "evidence.json").write_text(json.dumps(evidence))
    seal(folder)


def _another_mark(folder: Path, mark: Path) -> None:
    """It says that a compiler made it which is not here."""
    _evil_library(folder / "kernels" / "k0.so", mark)
    binary = folder / "kernels" / "k0.so"
    at = binary.read_bytes().index(b"GCC: (") + len(b"GCC: (")
    data = bytearray(binary.read_bytes())
    data[at] ^= 1
    binary.write_bytes(data)
    evidence = json.loads((folder / "evidence.json").read_text())
    evidence["kernels"][0]["binary_sha256"] = _sha256(binary.read_bytes())
    (folder / "evidence.json").write_text(json.dumps(evidence))
    seal(folder)


def _another_source(folder: Path, mark: Path) -> None:
    _edit(folder / "kernels" / "k0.cpp", "* 2", "* 3")
    seal(folder)


def _another_program(folder: Path, mark: Path) -> None:
    _edit(folder / "program.json", "* 2 + y", "* 3 + y")
    _edit(folder / "kernels" / "k0.cpp", "* 2 + y", "* 3 + y")
    seal(folder)


def _binary_outside(folder: Path, mark: Path) -> None:
    _evil_library(folder.parent / "evil.so", mark)
    _manifest(folder, binaries=["../evil.so"])


def _file_outside(folder: Path, mark: Path) -> None:
    (folder.parent / "other.txt").write_text("x")
    files = json.loads((folder / "ship.json").read_text())["files"]
    _manifest(folder, files={**files, "../other.txt": _sha256(b"x")})


def _link(folder: Path, mark: Path) -> None:
    shutil.move(folder / "kernels" / "k0.so", folder.parent / "k0.so")
    (folder / "kernels" / "k0.so").symlink_to(folder.parent / "k0.so")


def _linked_folder(folder: Path, mark: Path) -> None:
    shutil.move(folder / "kernels", folder.parent / "kernels-elsewhere")
    (folder / "kernels").symlink_to(folder.parent / "kernels-elsewhere")


def _eager_module(folder: Path, mark: Path) -> None:
    """It runs the original and says that the program did it."""
    with (folder / "module.py").open("a") as file:
        file.write("ModelNew.forward = Model.forward\n_shipped.runs = iter(range(10**6)).__next__\n")
    seal(folder)


def _another_guard(folder: Path, mark: Path) -> None:
    with (folder / "guards.py").open("a") as file:
        file.write(f"open({str(mark)!r}, 'w').close()\n")
    seal(folder)


def _another_runtime(folder: Path, mark: Path) -> None:
    _evil_library(folder / "libplanish_rt.so", mark)
    seal(folder)


def _added_file(folder: Path, mark: Path) -> None:
    (folder / "torch.py").write_text(f"open({str(mark)!r}, 'w').close()\n")


def _bytecode(folder: Path, mark: Path) -> None:
    """Python takes it for module.py's, by its time and size."""
    source = (folder / "module.py").read_bytes()
    evil = compile(f"open({str(mark)!r}, 'w').close()\n" + source.decode(), "module.py", "exec")
    stat = (folder / "module.py").stat()
    cached = Path(importlib.util.cache_from_source(str(folder / "module.py")))
    cached.parent.mkdir()
    cached.write_bytes(importlib._bootstrap_external._code_to_timestamp_pyc(evil, stat.st_mtime, stat.st_size))  # type: ignore[attr-defined]


def _another_reference(folder: Path, mark: Path) -> None:
    with (folder / "reference.py").open("a") as file:
        file.write("Model.eval = lambda self: self\n")
    seal(folder)


def _neighbour(folder: Path, mark: Path) -> None:
    (folder / "neighbours").mkdir()
    (folder / "neighbours" / "helper.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    seal(folder)


def _sealed_file(folder: Path, mark: Path) -> None:
    _added_file(folder, mark)
    seal(folder)


def _constant(folder: Path, mark: Path) -> None:
    (folder / "blobs").mkdir(exist_ok=True)
    (folder / "blobs" / ("0" * 64)).write_bytes(b"other")
    seal(folder)


def _deep(folder: Path, mark: Path) -> None:
    """Deeper than a path can be long."""
    here = os.getcwd()
    os.chdir(folder)
    try:
        for _ in range(20):
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
    finally:
        os.chdir(here)


def _other_scalars(folder: Path, mark: Path) -> None:
    _manifest(folder, scalars=[{"index": 7, "arg": {"int": 1}}])


def _other_evidence(folder: Path, mark: Path) -> None:
    _edit(folder / "evidence.json", '"source_sha256": "', '"source_sha256": "0')
    seal(folder)


def _not_a_program(folder: Path, mark: Path) -> None:
    (folder / "program.json").write_text("[]")
    seal(folder)


ALTERATIONS: dict[str, tuple[Alteration, str]] = {
    "times forged": (_forged_times, "samples have a median of 2"),
    "evidence missing": (_no_evidence, "evidence.json is missing"),
    "evidence empty": (_empty_evidence, "evidence.json is no"),
    "wrong hash": (_wrong_hash, "reference.py has changed"),
    "another binary": (_another_binary, "not what its source compiles to"),
    "another binary of a compiler that is not here": (_another_mark, "nobody can say here what is in it"),
    "another kernel source": (_another_source, "source is not the program's"),
    "another program": (_another_program, "not the program that ship.json names"),
    "a binary outside": (_binary_outside, "binary is not kernels/k0.so"),
    "a file outside": (_file_outside, "lies outside"),
    "a link": (_link, "no plain file"),
    "a linked folder": (_linked_folder, "no plain file"),
    "an eager module that says it ran the program": (_eager_module, "module.py is not what this version"),
    "other guards": (_another_guard, "guards.py is not what this version"),
    "another runtime": (_another_runtime, "libplanish_rt.so is not what this version"),
    "a file added": (_added_file, "was added"),
    "evidence of another kernel": (_other_evidence, "another kernel 0"),
    "bytecode": (_bytecode, "is bytecode"),
    "another reference": (_another_reference, "reference.py is not what"),
    "a neighbour that the task has not": (_neighbour, "neighbours/helper.py is not what"),
    "a file added and listed": (_sealed_file, "torch.py is"),
    "a constant that is another": (_constant, "is not what its name says"),
    "folders without end": (_deep, "lies deeper"),
    "other numbers in the manifest": (_other_scalars, "`scalars` in ship.json"),
    "a program that is none": (_not_a_program, "program.json"),
}


def verify(shipped: Path, folder: Path, *further: str, **variables: str) -> tuple[int, dict[str, object]]:
    home = shipped.parent
    environment = {**os.environ, **variables, "XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "data")}
    command = [str(PLANISH), "verify", str(home / "task.py"), str(folder), "--target", "cpu", "--seeds", "1", "--json", *further]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_folder_is_refused_before_any_of_it_runs(name: str, shipped: Path, tmp_path: Path) -> None:
    alter, reason = ALTERATIONS[name]
    copy, mark = tmp_path / "shipped", tmp_path / "it-ran"
    shutil.copytree(shipped, copy)
    alter(copy, mark)
    code, document = verify(shipped, copy)
    assert code == 1 and document["verified"] is False
    assert str(document["message"]).startswith("altered: ") and reason in str(document["message"]), document["message"]
    assert not mark.exists()


def test_the_folder_itself_is_proved_and_a_copy_of_it_too(shipped: Path, tmp_path: Path) -> None:
    shutil.copytree(shipped, tmp_path / "elsewhere")
    code, document = verify(shipped, tmp_path / "elsewhere")
    assert code == 0, document
    assert document["verified"] and document["not_repeated"] == []
    program = document["program"]
    assert isinstance(program, dict) and program["ran"] == program["calls"] > 0


def test_a_binary_that_cannot_be_compared_is_accepted_on_request_alone(shipped: Path, tmp_path: Path) -> None:
    """Another compiler made it, or there is none here; who alters a folder chooses what it says of that."""
    nowhere = str(tmp_path / "g++")
    status, document = verify(shipped, shipped, PLANISH_CXX=nowhere)
    assert status == 1 and not document["verified"] and "nobody can say here what is in it" in str(document["message"])
    status, document = verify(shipped, shipped, "--other-compiler", PLANISH_CXX=nowhere)
    assert status == 0 and document["verified"] and len(document["not_repeated"]) == 1


def test_falling_back_to_the_original_is_no_proof(shipped: Path, tmp_path: Path) -> None:
    shutil.copytree(shipped, tmp_path / "elsewhere")
    _manifest(tmp_path / "elsewhere", cpu_flags=[*sorted(cpu_flags()), "an_instruction_set_of_no_cpu"])
    code, document = verify(shipped, tmp_path / "elsewhere")
    assert code == 1 and document["verified"] is False
    assert "fell back" in str(document["message"])
