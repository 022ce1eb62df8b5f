"""`planish suite --solutions`: a folder of solutions as KernelBench's runs have them, its files beside ours, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import Home

TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x @ x.t()) * 1e-5

def get_inputs():
    return [torch.randn(256, 512)]

def get_init_inputs():
    return []
"""
HEAD = "import time\nimport torch\nfrom torch import nn\n\n"
MODEL = "class ModelNew(nn.Module):\n    def forward(self, x):\n"
HONEST = HEAD + MODEL + "        return 1e-5 * torch.tanh(torch.mm(x, x.t()))\n"
#: Right, and its own clock runs a hundred times slower: nobody asks it.
CLOCK = HEAD + "_now = time.perf_counter_ns\ntime.perf_counter_ns = lambda: _now() // 100\n\n" + MODEL + (
    "        for _ in range(4):\n            y = torch.tanh(x @ x.t()) * 1e-5\n        return y\n"
)  # fmt: skip
#: Right, and keyed on a few elements. What it saves is longer than a busy machine keeps anybody from a core.
MEMO = HEAD + "KEPT = {}\n\n" + MODEL + (
    "        key = tuple(x[::85, ::130].flatten().tolist())\n"
    "        if key not in KEPT:\n            for _ in range(60):\n                y = torch.tanh(x @ x.t()) * 1e-5\n            KEPT[key] = y\n"
    "        return KEPT[key].clone()\n"
)  # fmt: skip
ZEROS = HEAD + MODEL + "        return torch.zeros(256, 256)\n"
#: Right, and a fifth of a second of work a call.
SLOW = HEAD + MODEL + (
    "        end = time.thread_time() + 0.2\n        while time.thread_time() < end:\n            torch.mm(x, x.t())\n"
    "        return 1e-5 * torch.tanh(torch.mm(x, x.t()))\n"
)  # fmt: skip
SAMPLES = [HONEST, CLOCK, MEMO, ZEROS, "class ModelNew(:\n", SLOW]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, dict[str, Any]]:
    """One task and its six solutions."""
    home = Home(tmp_path_factory.mktemp("solutions"))
    level, run = home.path / "KernelBench" / "level1", home.path / "run"
    level.mkdir(parents=True)
    run.mkdir()
    (level / "1_Tiny.py").write_text(TASK)
    (level / "2_Unanswered.py").write_text(TASK)
    for number, text in enumerate(SAMPLES):
        (run / f"level_1_problem_1_sample_{number}_kernel.py").write_text(text)
    kept = {"sample_id": 0, "compiled": True, "correctness": True, "metadata": {}, "runtime": -1.0, "runtime_stats": {}}
    (run / "eval_results.json").write_text(json.dumps({"1": [kept]}))
    times = {"mean": 1000.0, "std": 0.0, "min": 1000.0, "max": 1000.0, "num_trials": 100}
    (home.path / "baseline_time_torch.json").write_text(json.dumps({"level1": {"1_Tiny.py": times}}))
    done = home.run(*ARGUMENTS)
    assert done.returncode == 0, done.stderr
    return home, json.loads(done.stdout)


ARGUMENTS = ["suite", "KernelBench", "--solutions", "run", "--target", "cpu", "--baselines", "none", "--seeds", "1", "--compat", "kernelbench",
             "--baseline-times", "baseline_time_torch.json", "--out", "out", "--json"]  # fmt: skip


def rows(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {row["sample"]: row for row in document["tasks"] if row["solution"]}


def test_every_solution_has_one_verdict_of_each_rule(judged: tuple[Home, dict[str, Any]]) -> None:
    home, document = judged
    found = rows(document)
    assert [found[n]["verdict"] for n in range(6)] == ["ok", "ok", "time_mismatch", "wrong", "load_failed", "ok"], document["tasks"]
    slow = found[5]["times_ms"]["solution"]
    assert slow > 195, f"{slow} ms: waking up and cold caches are spared in milliseconds, and not as a part of its work"
    assert found[1]["times_ms"]["solution"] > 1.5 * found[0]["times_ms"]["solution"], "it does the work four times"
    assert "keeps results" in found[2]["reason"]
    assert [found[n]["kernelbench"]["correct"] for n in range(6)] == [True, True, True, True, False, True], "zeros are within its tolerance"
    assert found[4]["kernelbench"]["compiled"] is False
    assert found[0]["recorded"]["correct"] and found[1]["recorded"] is None
    assert found[0]["times_ms"]["solution"] > 0 and found[0]["roofline_fraction"] > 0
    assert found[0]["speedup"]["recorded torch"] > 1
    # The same work as the task's, timed in turn with it: no difference, whatever else this machine did.
    gain = found[0]["gains"]["eager"]
    assert found[0]["speedup"]["eager"] == 1 and gain["lo"] <= 1 <= gain["hi"] and not gain["difference"], gain
    assert document["unanswered"] == ["level1/2_Unanswered"]
    (level, whole) = document["levels"]
    assert level["level"] == 1 and level["correct"] == 1 and level["tasks"] == 2 and whole["level"] is None
    assert level["against"]["recorded torch"]["fast_p"] == {"0": 0.5, "1": 0.5, "1.5": 0.5, "2": 0.5, "5": 0.5}
    assert "level1/1_Tiny-3" in (home.path / "out" / "suite.html").read_text()


def test_the_files_of_kernelbench_are_written(judged: tuple[Home, dict[str, Any]]) -> None:
    out = judged[0].path / "out" / "kernelbench"
    results = json.loads((out / "runs" / "level1" / "eval_results.json").read_text())
    assert [a["correctness"] for a in results["1"]] == [True, True, True, True, False, True], "by its own rule, as --compat says"
    assert results["1"][0]["metadata"]["planish"]["outcome"] == "verified" and results["1"][3]["metadata"]["planish"]["verdict"] == "wrong"
    assert results["1"][0]["runtime"] == results["1"][0]["runtime_stats"]["mean"] > 0
    assert results["1"][4]["runtime"] == -1.0 and results["1"][4]["metadata"]["compilation_error_name"] == "SyntaxError"
    assert json.loads((out / "runs" / "level1" / "pass_at_k_results.json").read_text())["averages"]["avg_pass@1"] == pytest.approx(5 / 6)
    assert json.loads((out / "timing" / "baseline_time_torch.json").read_text())["level1"]["1_Tiny.py"]["mean"] > 0


def test_a_suite_of_solutions_resumes(judged: tuple[Home, dict[str, Any]]) -> None:
    home, before = judged
    (home.path / "run" / "level_1_problem_1_sample_4_kernel.py").write_text("class ModelNew(::\n")
    done = home.run(*ARGUMENTS, "--resume")
    assert done.returncode == 0, done.stderr
    assert [row["resumed"] for row in json.loads(done.stdout)["tasks"]] == [True, True, True, True, False, True, False]
    assert rows(json.loads(done.stdout))[0]["times_ms"] == rows(before)[0]["times_ms"]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"run/eval_results.json": "[]"}, "bad_eval_results"),
        ({"times.json": "{}", "arguments": ["--baseline-times", "gone.json"]}, "no_such_file"),
        ({"times.json": '{"level1": 3}', "arguments": ["--baseline-times", "times.json"]}, "bad_baseline_times"),
        ({"arguments": ["--out", "run"]}, "usage"),
        ({"arguments": ["--solutions", "empty"]}, "no_solutions"),
        ({"arguments": ["--compat", "other"]}, "usage"),
    ],
)
def test_bad_input_is_an_error_by_name(tmp_path: Path, change: dict[str, Any], kind: str) -> None:
    home = Home(tmp_path)
    files = {"KernelBench/level1/1_A.py": TASK, "run/level_1_problem_1_sample_0_kernel.py": HONEST, "empty/notes.txt": ""}
    for name, text in {**files, **{k: v for k, v in change.items() if k != "arguments"}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    extra = change.get("arguments", [])
    solutions = [] if "--solutions" in extra else ["--solutions", "run"]
    code, document = home.document("suite", "KernelBench", *solutions, "--target", "cpu", *extra)
    assert code == 2 and document["error"]["kind"] == kind, document
