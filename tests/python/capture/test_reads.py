"""Which files a task is made of."""

from __future__ import annotations

import py_compile
import sys
from pathlib import Path

import pytest
import torch
from planish.capture.reads import watch_reads


def test_what_is_opened_for_a_task_is_named_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_this.py").write_text("X = 1\n")
    py_compile.compile(str(tmp_path / "beside_this.py"))
    torch.save(torch.ones(2), tmp_path / "weights.pt")
    (tmp_path / "before.txt").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "before.txt").read_text()
    with watch_reads() as files:
        import beside_this  # type: ignore[import-not-found] # noqa: F401

        torch.load(tmp_path / "weights.pt")
        (tmp_path / "gone.txt").write_text("")
        (tmp_path / "gone.txt").unlink()
        with (tmp_path / "log.txt").open("a") as log:
            log.write("what it writes it is not made of")
        with (tmp_path / "both.txt").open("w+") as both:
            both.read()
        Path("/proc/self/stat").read_text()
        import xmlrpc.client  # noqa: F401
    (tmp_path / "before.txt").read_text()
    del sys.modules["beside_this"]
    assert {Path(path).name for path in files} == {"beside_this.py", "weights.pt", "both.txt"}
