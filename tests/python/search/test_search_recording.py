"""bench/search/record.py without a GPU: real genomes and compilers, made-up times."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("PLANISH_BUILD", ROOT / "build"))
TASK = "transpose_add"


def lines_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def record(dumps: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "search" / "record.py"), str(dumps), "--out", str(out), "--tasks", TASK, "--jobs", "1", "--pretend"]
    return subprocess.run([*command, *more], capture_output=True, text=True, timeout=120, env=dict(os.environ) | {"PLANISH_BUILD": str(BUILD)})


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump cut down to a dozen genomes, two of them with the same program, one that does not compile."""
    program = BUILD / "bin" / "planish-search-draw"
    if not program.is_file():
        pytest.skip("planish-search-draw is not built")
    printed = subprocess.run([program, TASK, "--count", "30"], capture_output=True, text=True, check=True).stdout
    head, *drawn = (json.loads(line) for line in printed.splitlines())
    assert len(drawn) == head["genomes"] >= 30
    assert len({one["genome"] for one in drawn}) == len(drawn)
    choices = {gene["name"]: gene["choices"] for gene in head["genes"]}
    for one in drawn:
        assert all(int(value) in choices[name] for name, value in (word.split("=") for word in one["genome"].split()))
    assert [one["genome"] for one in drawn[: len(head["seeds"])]] == head["seeds"]
    drawn = drawn[:12]
    drawn[5] |= {key: drawn[4][key] for key in ("launches", "scratch_bytes")}
    drawn[7]["launches"][0]["source"] = "this is no kernel"
    folder = tmp_path_factory.mktemp("dumps")
    with gzip.open(folder / f"{TASK}.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(line) + "\n" for line in [head | {"genomes": 12}, *drawn]))
    return folder


def test_a_recording_goes_on_where_it_was_and_holds_every_genome(dumps: Path, tmp_path: Path) -> None:
    stopped = record(dumps, tmp_path, "--seconds", "0.001")
    assert stopped.returncode == 1, stopped.stderr
    assert "goes on with them" in stopped.stderr
    rows = tmp_path / f"{TASK}.rows.jsonl"
    with rows.open("a") as file:
        file.write('{"genome": "cut off')
    done = record(dumps, tmp_path)
    assert done.returncode == 0, done.stderr
    assert not rows.exists()
    head, *table = lines_of(tmp_path / f"{TASK}.jsonl.gz")
    drawn = lines_of(dumps / f"{TASK}.jsonl.gz")
    assert head["complete"] and head["schema"] == "planish.search_table/2"
    assert {row["genome"] for row in table} == {one["genome"] for one in drawn[1:]}
    by_genome = {row["genome"]: row for row in table}
    same, first, broken = (by_genome[drawn[1 + i]["genome"]] for i in (5, 4, 7))
    assert same["program"] == first["program"]
    assert {k: v for k, v in same.items() if k != "genome"} == {k: v for k, v in first.items() if k != "genome"}
    assert broken["outcome"] == "compile_error"
    assert any("ms" in row and row["lo"] <= row["ms"] <= row["hi"] and row["kernels"][0][0] > 0 for row in table)
    assert "nothing to do" in record(dumps, tmp_path).stderr


def test_a_median_lies_in_its_interval() -> None:
    sys.path.insert(0, str(ROOT / "bench" / "search"))
    from record_device import median_interval

    middle, low, high = median_interval([float(i) for i in range(100)])
    assert middle == 49.5
    assert 38 <= low <= 41 and 58 <= high <= 61  # ranks 40 and 61 of 100 (binomial, 95 %)
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_expected_values_tell_rounding_from_errors() -> None:
    import torch

    sys.path.insert(0, str(ROOT / "bench" / "search"))
    from record_device import Expected

    exact = torch.linspace(-3, 5, 1001, dtype=torch.float64).exp()
    expected = Expected(exact, exact.float(), torch.float32)
    assert expected.problem(exact.float()) == ""
    wrong = exact.float()
    wrong[500] *= 1 + 1e-4
    assert "allowed" in expected.problem(wrong)
    wrong[500] = float("nan")
    assert "allowed" in expected.problem(wrong)
    whole = Expected(torch.arange(5), torch.arange(5), torch.int64)
    assert whole.problem(torch.arange(5)) == ""
    assert whole.problem(torch.tensor([0, 1, 2, 3, 9])) == "1 of 5 elements differ"
