"""What the documents say of the repository itself: paths that are there, links that lead somewhere, tables that are what their script prints."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
#: The beginning of a path from the root of the repository, in code marks or in a command.
OURS = re.compile(r"(?:^|(?<=[\s('\"=]))((?:src|runtime|python|docs|bench|examples|cmake)/[\w./*-]*[\w*])")


def documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).exists()]


def problems_of(document: Path, root: Path = ROOT) -> list[str]:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.S | re.M)
    found = []
    for target in LINK.findall(CODE.sub("", text)):
        path = target.partition("#")[0]
        if "://" in target or not path:
            continue
        if not (document.parent / path).exists():
            found.append(f"the link {target} leads nowhere")
    for code in CODE.findall(text):
        for path in OURS.findall(code):
            if "TASK" in path or path.endswith("…"):
                continue
            there = any(root.glob(path)) if "*" in path else (root / path).exists() or any(root.glob(f"{path}.*"))
            if not there:
                found.append(f"{path} is not there")
    return found


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_document_names_is_there(document: Path) -> None:
    assert problems_of(document) == []


def test_a_missing_path_and_a_dead_link_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "there.cpp").touch()
    page = tmp_path / "page.md"
    page.write_text("[a](src/there.cpp) `src/there.cpp` `src/there` `src/*.cpp` [x](https://x.y) ```\n`src/a`\n")
    assert problems_of(page, tmp_path) == ["src/a is not there"]
    page.write_text("[a](src/gone.cpp) `python src/gone.py --x`")
    assert problems_of(page, tmp_path) == ["the link src/gone.cpp leads nowhere", "src/gone.py is not there"]


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    rows = {row[1]: row for row in re.findall(r"^\| \[(\d{4})\]\((\d{4}-[\w-]+\.md)\) \| (.+) \| (.+) \| (\d{4}-\d\d-\d\d) \|$", index, flags=re.M)}
    records = {p.name for p in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}
    assert set(rows) == records, "one row a record: number, link, what it is about, status, date"
    assert all(name.startswith(row[0]) for name, row in rows.items())


@pytest.fixture(scope="module")
def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_summary", ROOT / "bench" / "results_summary.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_summary_of_results_is_what_its_script_prints(summary: ModuleType) -> None:
    page = (ROOT / "docs" / "results" / "README.md").read_text()
    assert page == summary.put_in(page, summary.summary()), "python bench/results_summary.py --write"


def test_the_readme_quotes_the_summary(summary: ModuleType) -> None:
    """The table of gains in README.md: mean, median and copies of each set."""
    import json
    import statistics

    readme = (ROOT / "README.md").read_text()
    sets = {s["name"]: s for s in json.loads((ROOT / "docs" / "results" / "sets.json").read_text())["sets"]}
    for name in ("large", "small", "small-in-a-row", "cpu"):
        rows = list(summary.rows_of(sets[name], ROOT / "docs" / "results").values())
        gains = [r.headline for r in rows if r.headline]
        wanted = rf"\| {summary.geometric(gains):.2f}\b.* \| {statistics.median(gains):.2f} \| {sum(r.copies for r in rows)} \|"
        assert re.search(wanted, readme), f"{name}: README.md has no row {wanted}"


def test_a_copy_of_the_baseline_counts_as_one(summary: ModuleType) -> None:
    doc = {
        "form": "baseline",
        "accuracy": {"ratio": "inf"},
        "device": {"uuid": "GPU-abc"},
        "times_ms": {"eager": {"median": 4.0}, "max_autotune_no_cudagraphs": {"median": 2.0}, "shipped": {"median": 2.0}, "candidate": {"median": 2.5}},
    }
    row = summary.read_row("t", doc, "times_ms", "d.json")
    assert (row.copies, row.headline, row.best, row.as_found) == (True, 1.0, 1.0, 0.8)
    assert row.error_ratio == float("inf") and row.device == "GPU-abc"


def test_where_results_were_kept_the_lesser_gain_counts(summary: ModuleType) -> None:
    def time(dropped: float, kept: float) -> dict:
        return {"median": dropped, "kept": {"median": kept}}

    doc = {"form": "program", "accuracy": {"ratio": 1}, "times_ms": {"max_autotune_no_cudagraphs": time(13, 13), "shipped": time(3.5, 10)}}
    assert summary.read_row("t", doc, "times_ms", "d.json").headline == pytest.approx(1.3)
