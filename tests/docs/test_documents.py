"""What the documents say of the repository itself: paths that are there, links that lead somewhere, tables that are what their script prints."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADLINE = "max_autotune_no_cudagraphs"
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


def test_tables_of_results_are_what_their_script_makes(summary: ModuleType) -> None:
    """README.md's figures too: they come from the same rows and documents."""
    for page in summary.PAGES:
        assert page.read_text() == summary.made(page), f"{page}: python bench/results_summary.py --write"
        assert summary.BEGIN in page.read_text() or summary.BLOCK.search(page.read_text()), f"{page} has no table"


def campaign(order: int, *rows: dict[str, Any], baselines: str = "eager,max_autotune_no_cudagraphs") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A campaign's facts and rows; times as {name: ms}."""
    facts = {"campaign": str(order), "order": order, "baselines": baselines.split(",")}
    whole = {"device": "H100", "commit": "c", "outcome": "improved"}
    return facts, [{**whole, **row, "times_ms": {k: {"median": v, "lo": None, "hi": None} for k, v in row.get("times_ms", {}).items()}} for row in rows]


@pytest.mark.parametrize(
    ("campaigns", "headline", "best"),
    [
        # The last run counts, also where an earlier one gained more, and also where it failed.
        ([campaign(1, {"times_ms": {"shipped": 1, HEADLINE: 4}}), campaign(2, {"times_ms": {"shipped": 1, HEADLINE: 3, "eager": 2.5}})], 3, 2.5),
        ([campaign(1, {"times_ms": {"shipped": 1, HEADLINE: 4}}), campaign(2, {"outcome": "interrupted"})], 1, 1),
        ([campaign(1, {"outcome": "refused"}), campaign(2, {"times_ms": {"shipped": 1, HEADLINE: 4}})], 4, 4),
        # Nothing of ours ships: 1.00, whatever was found.
        ([campaign(1, {"outcome": "no_improvement", "times_ms": {"shipped": 2, HEADLINE: 2, "eager": 9, "candidate": 1.5}})], 1, 1),
        # A baseline that the gate refuses and that is faster than what ships lowers the figure.
        ([campaign(1, {"times_ms": {"shipped": 7.3, "eager": 13.2, HEADLINE: 6.2}, "refused_baselines": [HEADLINE]})], 6.2 / 7.3, 6.2 / 7.3),
        # CUDA graphs are one of all.
        ([campaign(1, {"times_ms": {"shipped": 1, HEADLINE: 20, "eager_cuda_graph": 6}})], 20, 6),
        # Beside less than the headline's baseline a run lowers a figure, and never raises or makes one.
        ([campaign(1, {"times_ms": {"shipped": 1, HEADLINE: 7}}), campaign(2, {"times_ms": {"shipped": 1, "eager": 5}}, baselines="eager")], 5, 5),
        ([campaign(1, {"times_ms": {"shipped": 1, HEADLINE: 4}}), campaign(2, {"times_ms": {"shipped": 1, "eager": 9}}, baselines="eager")], 4, 4),
        ([campaign(1, {"times_ms": {"shipped": 1, "eager": 9}}, baselines="eager")], None, None),
        ([campaign(1, {"gains": {HEADLINE: 2.5}})], 2.5, 2.5),
    ],
)
def test_rows_count_by_the_rule_that_is_written_beside_them(summary: ModuleType, campaigns: list[Any], headline: float | None, best: float | None) -> None:
    rows = summary.results_rows
    read = [(facts, [rows.Measured(facts, {"task": "1/7_T", **row}) for row in given]) for facts, given in campaigns]
    counts, elsewhere = rows.counted(read, 1)
    if headline is None:
        assert not counts and list(elsewhere) == [(1, 7)]
        return
    assert (counts[(1, 7)].headline, counts[(1, 7)].best) == pytest.approx((headline, best)) and not elsewhere


def test_every_row_says_where_it_comes_from(summary: ModuleType) -> None:
    fields = {"task", "device", "commit", "date", "budget", "outcome", "times_ms", "gains", "refused_baselines", "error_ratio", "note"}
    seen = set()
    for facts, rows in summary.results_rows.campaigns(ROOT / "docs" / "results" / "rows"):
        assert {"title", "command", "baselines", "torch", "suite"} <= set(facts) and facts["order"] not in seen
        seen.add(facts["order"])
        for row in rows:
            assert {"task", "device", "commit", "date", "budget", "outcome", "times_ms", "error_ratio"} <= set(row.doc) <= fields, row.doc
            assert row.outcome in ("improved", *summary.results_rows.NOTHING), row.doc
            assert row.outcome != "improved" or row.best is not None, row.doc
            assert all(set(time) == {"median", "lo", "hi"} and time["median"] > 0 for time in row.doc["times_ms"].values()), row.doc


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


def test_a_campaign_is_made_of_what_a_suite_wrote(summary: ModuleType, tmp_path: Path) -> None:
    """With the intervals of its results; refused tasks and failures are told apart."""
    import json

    time = {"median": 2.0, "lo": 1.9, "hi": 2.1, "runs": 9}
    result = {"device": {"name": "NVIDIA H100"}, "times_ms": {"shipped": time | {"median": 1.0}, HEADLINE: time, "compile": {"error": {"kind": "x"}}},
              "accuracy": {"ratio": 1.5, "degenerate": []}}  # fmt: skip
    tasks = [
        {"task": "level1/1_A", "outcome": "improved"},
        {"task": "level2/66_B", "outcome": "failed", "error": {"kind": "random_ops", "message": "uses dropout"}},
        {"task": "level3/7_C", "outcome": "failed", "error": {"kind": "device_lost", "message": "gone"}},
    ]
    (tmp_path / "suite.json").write_text(json.dumps({"settings": {"budget_seconds": 5.0, "baselines": ["eager", HEADLINE]}, "tasks": tasks}))
    (tmp_path / "level1" / "1_A").mkdir(parents=True)
    (tmp_path / "level1" / "1_A" / "result.json").write_text(json.dumps(result))
    facts, first, second, third = summary.results_rows.make_campaign(tmp_path, {"campaign": "c", "order": 1}, "abc", "2026-11-27")
    assert facts["baselines"] == ["eager", HEADLINE]
    assert (first["task"], first["device"], first["commit"], first["budget"], first["error_ratio"]) == ("1/1_A", "NVIDIA H100", "abc", "5s", 1.5)
    assert first["times_ms"] == {"shipped": {"median": 1.0, "lo": 1.9, "hi": 2.1}, HEADLINE: {"median": 2.0, "lo": 1.9, "hi": 2.1}}
    assert (second["outcome"], second["note"]) == ("refused", "uses dropout") and third["outcome"] == "failed"
    row = summary.results_rows.Measured(facts, first)
    assert row.headline == 2 and summary.results_rows.time_text(row, HEADLINE) == "2.000 (1.900 to 2.100)"


def test_the_chart_is_what_its_script_makes_and_is_read_on_light_and_dark() -> None:
    import sys

    sys.path.insert(0, str(ROOT / "bench"))
    import results_chart

    text = results_chart.CHART.read_text()
    assert text == results_chart.chart(), "python bench/results_chart.py --write"
    counts = [results_chart.results_rows.counted(results_chart.results_rows.campaigns(results_chart.results_rows.ROWS), level)[0] for level in (1, 2, 3)]
    assert text.count("<circle") == sum(len(one) for one in counts)
    colours = set(re.findall(r"(#[0-9a-f]{6})\b", text))
    assert colours >= {results_chart.TEXT, *results_chart.COLOURS.values()}
    for colour in colours:
        for page in ("#ffffff", "#0d1117"):
            assert contrast(colour, page) >= 3, (colour, page)


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines have it; 3 for graphics and large text."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 700
