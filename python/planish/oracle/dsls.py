"""Languages for kernels that a guest's Python could import here: found by their files, not by importing them."""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

#: (what it is called, what is imported, the distribution whose version counts).
_KNOWN = (
    ("Triton", "triton", "triton"),
    ("CuTe DSL", "cutlass.cute", "nvidia-cutlass-dsl"),
    ("TileLang", "tilelang", "tilelang"),
    ("ThunderKittens", "thunderkittens", "thunderkittens"),
)


def importable(path: list[str] | None = None) -> list[str]:
    """One line each, as prompts have it: "Triton 3.6.0 (import triton)". `path`: folders to look in; sys.path where not given."""
    found = []
    for name, module, distribution in _KNOWN:
        if not _there(module, sys.path if path is None else path):
            continue
        try:
            version = f" {metadata.version(distribution)}"
        except metadata.PackageNotFoundError:
            version = ""
        found.append(f"{name}{version} (import {module})")
    return found


def _there(module: str, path: list[str]) -> bool:
    first, *rest = module.split(".")
    spec = PathFinder.find_spec(first, path)
    if spec is None:
        return False
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    return not rest or any((folder / rest[0]).is_dir() or (folder / f"{rest[0]}.py").is_file() for folder in folders)
