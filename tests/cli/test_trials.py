"""What a run would do, and what it did as a table: --dry-run and `export --format csv`."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import sqlite3
from pathlib import Path

import pytest
from command import Home
from optimised_task import SMALL, Optimised


def test_a_dry_run_names_regions_budget_and_folder_and_leaves_nothing(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path, warm)
    home.task(SMALL, "small.py")
    code, document = home.document("optimize", "small.py", "--target", "cpu", "--budget", "7s", "--baselines", "compile", "--dry-run")
    assert code == 0 and document["outcome"] == "dry_run"
    assert (document["budget_seconds"], document["baselines"], document["strategy"]) == (7, ["eager", "compile"], "swarm")
    assert document["regions"][0]["id"] == "r0" and document["regions"][0]["bytes"] >= 2 * 64 * 96 * 4
    assert document["out"] == str(tmp_path / "planish-out" / "small-RUN")
    assert not (tmp_path / "planish-out").exists() and not home.store_bytes()


def test_a_dry_run_of_a_bad_task_is_its_error(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path, warm)
    home.task("x = 1\n", "bad.py")
    code, document = home.document("optimize", "bad.py", "--target", "cpu", "--dry-run")
    assert code == 2 and document["error"]["kind"] == "no_model"


@pytest.mark.parametrize("option", ["--resume", "--record", "--replay"])
def test_a_dry_run_goes_on_with_no_run_and_keeps_none(tmp_path: Path, option: str) -> None:
    home = Home(tmp_path)
    home.task(SMALL, "small.py")
    done = home.run("optimize", "small.py", "--dry-run", option, "x")
    assert done.returncode == 2 and "--dry-run" in done.stderr and option in done.stderr
    assert not (tmp_path / "x").exists()


def test_a_word_that_would_be_a_formula_is_quoted_and_each_line_is_counted(optimised: Optimised, tmp_path: Path) -> None:
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    (store,) = (tmp_path / "data").rglob("store.db")
    with contextlib.closing(sqlite3.connect(store)) as kept, kept:
        kept.execute("UPDATE evaluations SET proposer = '=cmd()'")
    home = Home(tmp_path)
    code, document = home.document("export", "latest", "--format", "csv", "--out", "trials.csv")
    with (tmp_path / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert code == 0 and rows and {row["proposer"] for row in rows} == {"'=cmd()"} and document["lines"] == len(rows)


def test_trials_are_a_table_with_a_column_for_each_gene(optimised: Optimised) -> None:
    done = optimised.home.run("export", "latest", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert done.returncode == 0 and rows and all(None not in row and None not in row.values() for row in rows), "every line has every column"
    assert [int(row["number"]) for row in rows] == list(range(len(rows)))
    kernels = [row for row in rows if any(row[name] for name in row if name.startswith("gene_"))]
    assert kernels and all(row["outcome"] for row in rows)
    timed = [row for row in kernels if row["outcome"] == "ok" and row["median_ms"]]
    assert timed and all(float(row["median_ms"]) > 0 and len(row["program"]) == 64 for row in timed)


def test_a_table_of_trials_is_written_where_it_is_asked_for(optimised: Optimised) -> None:
    code, document = optimised.home.document("export", "latest", "--format", "csv", "--out", "trials.csv")
    with (optimised.home.path / "trials.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert code == 0 and document["lines"] == len(lines) - 1
