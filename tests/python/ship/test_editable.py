"""Packages that `pip install --editable` points to: a library from a checkout is as installed as any other; what the user works on stays the user's."""

from __future__ import annotations

import importlib
import json
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from planish.ship import names
from planish.ship.reach import reach

LIBRARY = """
import json
import torch
from . import settings

def load(path):
    with open(path) as file:
        return json.load(file)

class Linear(torch.nn.Module):
    def __init__(self, path=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.path = path
    def load(self):
        return load(self.path)
    def forward(self, x):
        if self.path is not None:
            self.load()
        return x * self.weight * settings.scale
"""
PROJECT = """
import torch
from . import settings

class Linear(torch.nn.Module):
    def forward(self, x):
        return x * settings.scale
"""


def editable(folder: Path, name: str, source: str, how: str) -> ModuleType:
    """A package in a checkout, as pip leaves it: a list of files and a `.pth`, or (older) a link."""
    package, packages = folder / name / "src" / name, folder / f"{name}-packages"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    (package / "settings.py").write_text("scale = 2.0\n")
    (folder / name / "train.py").touch()
    (packages / f"{name}-1.0.dist-info").mkdir(parents=True)
    (packages / f"__editable__.{name}-1.0.pth").write_text(f"{package.parent}\n")
    if how == "link":
        (packages / f"{name}.egg-link").write_text(f"{package.parent}\n.")
    else:
        (packages / f"{name}-1.0.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        told = {"dir_info": {"editable": how == "editable"}, "url": (folder / name).as_uri()}
        (packages / f"{name}-1.0.dist-info/direct_url.json").write_text(json.dumps(told))
    site.addsitedir(str(packages))
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process, with what it knows of packages forgotten before and after."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for known in (names._home, names._editable_roots):
        known.cache_clear()
    yield
    for known in (names._home, names._editable_roots):
        known.cache_clear()


@pytest.mark.parametrize("how", ["editable", "link"])
def test_a_library_from_a_checkout_is_installed(tmp_path: Path, fresh: None, how: str) -> None:
    library = editable(tmp_path, f"checkout_of_{how}", LIBRARY, how)
    assert names.whose(library.__file__) == "installed"
    assert names.whose(str(tmp_path / f"checkout_of_{how}/train.py")) == "own"
    found = reach(library.Linear(), {"weight"})
    assert not found.problem, found.problem


def test_the_same_files_on_the_path_alone_are_the_users(tmp_path: Path, fresh: None) -> None:
    library = editable(tmp_path, "not_editable", LIBRARY, "copied")
    assert names.whose(library.__file__) == "own"
    assert "reads a file" in reach(library.Linear(), {"weight"}).problem


def test_what_somebody_works_on_is_compared_as_their_own(tmp_path: Path, fresh: None) -> None:
    project = editable(tmp_path, "worked_on", PROJECT, "editable")
    model = project.Linear()
    found = reach(model)
    assert not found.problem and found.fits(model, False)
    project.settings.scale = 3.0
    assert not found.fits(model, False)
    then, now = found, reach(model)
    assert now.differs(then.tokens, then.soft) is not None
