"""Which languages for kernels a guest could import: told by files, importing nothing."""

from __future__ import annotations

from pathlib import Path

from planish.oracle.dsls import importable


def package(folder: Path, *parts: str) -> None:
    place = folder.joinpath(*parts)
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("raise SystemExit('imported')\n")


def test_what_is_there_is_found_without_importing_it(tmp_path: Path) -> None:
    assert importable([str(tmp_path)]) == []
    package(tmp_path, "thunderkittens")
    package(tmp_path, "cutlass")
    assert importable([str(tmp_path)]) == ["ThunderKittens (import thunderkittens)"], "cutlass without cute is another package"
    package(tmp_path, "cutlass", "cute")
    assert importable([str(tmp_path)])[0].startswith("CuTe DSL") and importable([str(tmp_path)])[0].endswith("(import cutlass.cute)")


def test_a_version_is_told_where_there_is_one() -> None:
    from importlib import metadata

    for line in importable():
        if line.startswith("Triton"):
            assert line == f"Triton {metadata.version('triton')} (import triton)"
