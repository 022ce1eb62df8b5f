"""The wheel, made of what is built, in a clean virtual environment: what `make wheel` does after its own compilation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from command import BINARY, ROOT

BUILD = BINARY.parent.parent


def script(name: str, *arguments: str) -> str:
    done = subprocess.run(["sh", f"cmake/{name}", sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return folder / script("wheel.sh", str(folder), str(BUILD))


def test_it_is_for_every_cpython_and_needs_no_more_than_an_old_c_library(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_34_x86_64.whl")
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)], capture_output=True, text=True, check=True)
    audit = json.loads(shown.stdout[shown.stdout.index("{") :])
    assert audit["overall_tag"] == "manylinux_2_34_x86_64" and audit["external_libs"] == {}, audit
    # The C++ library is inside: no GLIBCXX symbols of this machine's.
    assert set(audit["versioned_symbols"]) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, audit
    versions = {tuple(map(int, symbol.removeprefix("GLIBC_").split("."))) for symbols in audit["versioned_symbols"].values() for symbol in symbols}
    assert (2, 17) < max(versions) <= (2, 34), audit


def test_it_holds_the_programs_and_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(metadata).decode())
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names if name.startswith("planish/bin/") and not name.endswith("/")}
    programs = {"planish/bin/planish-bin", "planish/bin/planish-runner", "planish/bin/planish-compiler"}
    assert programs | {"planish/lib/libplanish_rt.so", "planish/lib/planish_call.so", "planish/py.typed"} <= names
    assert set(modes) == programs and all(mode & 0o111 for mode in modes.values())
    ours = {f"planish/{path.relative_to(ROOT / 'python/planish')}" for path in (ROOT / "python/planish").rglob("*.py")}
    assert ours <= names
    for field in ("Summary", "License-Expression", "Requires-Python", "Keywords", "Description"):
        assert about[field] or (field == "Description" and about.get_payload()), field
    assert not any(name.startswith("torch ") or name.startswith("torch>") for name in about.get_all("Requires-Dist", []) if "extra ==" not in name)


def test_it_is_installed_and_optimises_a_task_in_a_clean_environment(wheel: Path) -> None:
    assert script("try_wheel.sh", str(wheel), "command").splitlines()[-1] == "ok"
    assert os.path.getsize(wheel) < 32 << 20
