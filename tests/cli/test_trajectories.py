"""What a run tried, as data to learn from."""

from __future__ import annotations

import json
from typing import Any

from optimised_task import Optimised


def lines(optimised: Optimised, form: str) -> list[dict[str, Any]]:
    done = optimised.home.run("export", optimised.result["run"], "--format", form)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def claimed(optimised: Optimised) -> float | None:
    """What the run claims over eager."""
    return optimised.result["speedup"]["eager"] if optimised.result["outcome"] == "improved" else None


def test_trajectories_hold_every_attempt_with_its_verdict_and_reward(optimised: Optimised) -> None:
    shown = optimised.home.document("show", optimised.result["run"])[1]
    all_lines = lines(optimised, "trajectories")
    assert {line["schema"] for line in all_lines} == {"planish.trajectory/1"}
    assert all(line["task"]["source"] == (optimised.home.path / "small.py").read_text() for line in all_lines)
    for line in all_lines:
        attempts = line["attempts"]
        known = [e for e in shown["evaluations"] if e["region"] == line["region"]["id"]]
        assert [a["program"] for a in attempts] == [e["program"] for e in known] and attempts
        programs = {a["program"] for a in attempts}
        for attempt, stored in zip(attempts, known, strict=True):
            assert attempt["outcome"] == stored["outcome"] and attempt["verdict"]["kind"]
            assert attempt["parent"] is None or attempt["parent"] in programs
            assert attempt["form"] in (("genome",) if stored["genome"] else ("aten", "composed"))
            assert (attempt["source"] is None) == (attempt["form"] == "aten")
            if attempt["outcome"] == "ok" and line["region"]["pytorch_ms"]:
                gain, reward = attempt["gain"], attempt["reward"]
                assert gain["lo"] <= gain["ratio"] <= gain["hi"] and gain["difference"] == (gain["lo"] > 1 or gain["hi"] < 1)
                assert reward == 1 if not gain["difference"] else reward <= gain["hi"]
                assert claimed(optimised) is None or reward <= claimed(optimised), "no reward beyond what the run claims of the same work"
    assert {line["region"]["id"] for line in all_lines} >= {"r0", "task"}
    assert "aten.tanh.default" in next(line for line in all_lines if line["region"]["id"] == "r0")["region"]["description"]


def test_a_pair_is_the_best_right_kernel_of_a_region(optimised: Optimised) -> None:
    (pair,) = [line for line in lines(optimised, "pairs") if line["region"]["id"] == "r0"]
    assert pair["schema"] == "planish.pair/1" and "aten.tanh.default" in pair["pytorch"] and "//@ launch" in pair["kernel"]
    attempts = next(line for line in lines(optimised, "trajectories") if line["region"]["id"] == "r0")["attempts"]
    times = [a["median_ms"] for a in attempts if a["outcome"] == "ok" and a["form"] == "genome" and a["level"] == pair["level"]]
    assert pair["median_ms"] == min(times)
    # The region is all of the task, so that the pair's speed-up is the run's claim, and no time of the search.
    claim = pair["claim"]
    assert (claim is None) == (claimed(optimised) is None), pair
    # Of an interval that is wide beside its middle the lower end is claimed.
    wide = claim is not None and claim["hi"] - claim["lo"] > 0.5 * claim["ratio"]
    assert pair["speedup"] == (claim["lo"] if wide else claimed(optimised)), pair
    # Two attempts may have the same median.
    assert pair["search_gain"] in [a["gain"] for a in attempts if a["median_ms"] == pair["median_ms"]]


def test_it_goes_to_a_file_and_says_what_cannot_be(optimised: Optimised) -> None:
    code, document = optimised.home.document("export", optimised.result["run"], "--format", "pairs", "--out", "pairs.jsonl")
    assert code == 0 and document["lines"] >= 1 and (optimised.home.path / "pairs.jsonl").read_text().count("\n") == document["lines"]
    assert optimised.home.document("export", "none", "--format", "pairs")[1]["error"]["kind"] == "no_such_run"
    assert optimised.home.run("export", "none", "--format", "prose").returncode == 2
    assert optimised.home.run("export", "none", "--format", "pairs", "--form", "file").returncode == 2
