"""Text in, text out: the built command against arguments, environment and stores. Nothing here needs a task to run."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish-bin"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PLANISH_", "XDG_"))}
    env |= {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, env=env | environment, cwd=home, timeout=300, check=False)


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["optimize"],
        ["optimize", "--frobnicate"],
        ["verify", "only_one.py"],
        ["optimize", "task.py", "--budget", "soon"],
        ["optimize", "task.py", "--budget", "-5s"],
        ["optimize", "task.py", "--target", "tpu"],
        ["optimize", "task.py", "--accuracy", "2"],
        ["optimize", "task.py", "--accuracy", "nan"],
        ["optimize", "task.py", "--seed", "x"],
        ["optimize", "task.py", "--strategy", "magic"],
        ["optimize", "task.py", "--evals", "-1"],
        ["optimize", "task.py", "--baselines", "eager,magic"],
        ["verify", "task.py", "task.py", "--seeds", "0"],
        ["runs", "--limit", "0"],
        ["cache"],
    ],
)
def test_usage_errors(home: Path, arguments: list[str]) -> None:
    (home / "task.py").write_text("x = 1\n")
    done = run(home, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(lines(done.stderr, "error: ")) == 1
    assert lines(done.stderr, "hint: ")
    assert "Traceback" not in done.stderr
    assert not (home / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["optimise", "task.py"], "there is no verb 'optimise'", "did you mean 'optimize'?"),
        (["rnus"], "there is no verb 'rnus'", "did you mean 'runs'?"),
        (["frobnicate"], "there is no verb 'frobnicate'", "planish --help lists what there is"),
        (["optimize", "task.py", "--buget", "5s"], "planish optimize has no option '--buget'", "did you mean '--budget'?"),
        (["optimize", "--buget=5s", "task.py"], "planish optimize has no option '--buget'", "did you mean '--budget'?"),
        (["runs", "--limt", "3"], "planish runs has no option '--limt'", "did you mean '--limit'?"),
        (["cache", "claen"], "there is no action 'claen'", "did you mean 'clean'?"),
        (["optimize", "task.py", "--strategy", "hilclimb"], "there is no strategy 'hilclimb'", "did you mean 'hillclimb'?"),
        (["optimize", "task.py", "--target", "gpu"], "there is no target 'gpu'", "did you mean 'cuda'?"),
        (["optimize", "task.py", "--baselines", "max_autotun"], "there is no baseline 'max_autotun'", "did you mean 'max_autotune'?"),
        (["optimize", "task.py", "two.py"], "", "planish optimize --help"),
        (["verify", "task.py"], "no solution was named: a shipped folder, or a Python file", "for example planish verify model.py planish-model; "),
        (["optimize", "task.py", "--budget"], "--budget needs a value: time to search for", "planish optimize --help says what it takes"),
        (["runs", "--limit"], "--limit needs a value: ", "planish runs --help says what it takes"),
        (["export"], "no run was named: a run (its id, the beginning of it, or latest)", "for example planish export latest --form file; "),
        (["suite"], "no folder was named: tasks: Python files", "for example planish suite tasks --budget 30s; "),
        (["patterns", "show"], "no id was named: its id, or the beginning of it", "for example planish patterns show 3f9a; "),
    ],
)
def test_what_was_meant(home: Path, arguments: list[str], error: str, hint: str) -> None:
    (home / "task.py").write_text("x = 1\n")
    done = run(home, *arguments)
    assert done.returncode == 2
    assert error in lines(done.stderr, "error: ")[0]
    assert hint in lines(done.stderr, "hint: ")[0]


def test_nothing_is_coloured(home: Path) -> None:
    """NO_COLOR asks for no colours; there are none to begin with."""
    for arguments in (["--help"], ["runs"], ["frobnicate"]):
        done = run(home, *arguments, NO_COLOR="1")
        assert "\033[" not in done.stdout + done.stderr


@pytest.mark.parametrize("verb", [["optimize", "none.py"], ["verify", "none.py", "."], ["suite", "none"]])
def test_no_such_file(home: Path, verb: list[str]) -> None:
    done = run(home, *verb)
    assert done.returncode == 2
    assert "error: none" in done.stderr and "no such" in done.stderr
    assert not (home / "data").exists()


def test_an_error_is_a_document_too(home: Path) -> None:
    done = run(home, "optimize", "none.py", "--json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert document["error"]["kind"] == "no_such_file"
    assert "none.py" in document["error"]["message"]
    assert document["error"]["hint"]
    usage = run(home, "optimize", "--frobnicate", "--json")
    assert usage.returncode == 2
    assert json.loads(usage.stdout)["error"]["kind"] == "usage"


def test_version_and_help(home: Path) -> None:
    assert run(home, "--version").stdout.startswith("planish 0.")
    for verb in ("optimize", "verify", "suite", "runs", "show", "doctor", "cache"):
        assert verb in run(home, "--help").stdout
        helped = run(home, verb, "--help")
        assert helped.returncode == 0 and helped.stdout
    assert not any(line.split()[:1] == ["evaluator"] for line in run(home, "--help").stdout.splitlines()), "a verb for Planish's own processes"


def test_an_empty_store_has_no_runs_and_is_not_created(home: Path) -> None:
    done = run(home, "runs")
    assert done.returncode == 0
    assert "no runs" in done.stdout
    assert json.loads(run(home, "runs", "--json").stdout)["runs"] == []
    shown = run(home, "show", "x", "--json")
    assert shown.returncode == 2
    assert json.loads(shown.stdout)["error"]["kind"] == "no_such_run"
    latest = json.loads(run(home, "show", "latest", "--json").stdout)["error"]
    assert latest["message"].endswith("has no run yet") and latest["hint"] == "planish optimize TASK.py makes one"
    resumed = run(home, "optimize", "--resume", "x")
    assert resumed.returncode == 2 and "no run x" in resumed.stderr
    assert not (home / "data").exists()


def test_a_store_of_a_newer_version(home: Path) -> None:
    store = home / "new.db"
    with sqlite3.connect(store) as database:
        database.execute("PRAGMA user_version=99")
    before = store.read_bytes()
    done = run(home, "runs", "--store", str(store), "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "store_newer"
    assert store.read_bytes() == before


def test_the_store_comes_from_flag_then_environment(home: Path) -> None:
    assert json.loads(run(home, "runs", "--json", PLANISH_STORE=str(home / "env.db")).stdout)["store"] == str(home / "env.db")
    chosen = run(home, "runs", "--json", "--store", str(home / "flag.db"), PLANISH_STORE=str(home / "env.db"))
    assert json.loads(chosen.stdout)["store"] == str(home / "flag.db")


def test_the_environment_sets_options_and_flags_win(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    done = run(home, "optimize", "task.py", PLANISH_BUDGET="soon")
    assert done.returncode == 2 and "'soon' is not a duration" in done.stderr
    done = run(home, "optimize", "task.py", "--budget", "later", PLANISH_BUDGET="soon")
    assert "'later' is not a duration" in done.stderr


def test_a_project_file_sets_options(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    (home / "planish.toml").write_text('[optimize]\nbudget = "whenever"\n')
    done = run(home, "optimize", "task.py")
    assert done.returncode == 2 and "'whenever' is not a duration" in done.stderr


def test_a_pyproject_sets_options_where_it_has_a_table_of_ours(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    others = '[project]\nname = "x"\ndependencies = [\n  "a",\n]\n[tool.ruff]\nline-length = 9\n'
    (home / "pyproject.toml").write_text(others + '[optimize]\nbudget = "not ours"\n')
    assert "is not a duration" not in run(home, "optimize", "task.py", "--baselines", "nonsense").stderr
    (home / "pyproject.toml").write_text(others + '[tool.planish.optimize]\nbudget = "whenever"\n')
    done = run(home, "optimize", "task.py")
    assert done.returncode == 2 and "'whenever' is not a duration" in done.stderr
    named = run(home, "--config", "pyproject.toml", "optimize", "task.py")
    assert named.returncode == 2 and "'whenever' is not a duration" in named.stderr
    (home / "planish.toml").write_text('[optimize]\nbudget = "never"\n')
    assert "'never' is not a duration" in run(home, "optimize", "task.py").stderr, "the file of our own goes before"


def test_a_pyproject_names_models(home: Path) -> None:
    (home / "pyproject.toml").write_text('[tool.planish]\n[[tool.planish.model]]\nname = "m"\n')
    done = run(home, "runs")
    assert done.returncode == 2 and "base_url" in done.stderr, "what is missing of a model is an error of every verb"


def test_a_pyproject_that_is_not_toml_is_told_and_hides_no_file_of_the_users(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    own = home / "config" / "planish" / "planish.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[optimize]\nbudget = "own"\n')
    for text in ("[project\n", '[tool.planish.optimize]\nbudget = "1s\n'):
        (home / "pyproject.toml").write_text(text)
        done = run(home, "optimize", "task.py")
        assert "'own' is not a duration" in done.stderr and "warning: pyproject.toml: not TOML at line " in done.stderr
        assert "warning" not in run(home, "--no-config", "cache", "dir").stderr
        named = run(home, "--config=pyproject.toml", "cache", "dir")
        assert named.returncode == 2 and "pyproject.toml: not TOML at line" in named.stderr


def test_what_decides_where_settings_stand_is_a_table_and_no_words(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    own = home / "config" / "planish" / "planish.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[optimize]\nbudget = "own"\n')
    (home / "pyproject.toml").write_text('# tool.planish is what we could use\n[tool.other]\nnote = "tool.planish"\n')
    assert "'own' is not a duration" in run(home, "optimize", "task.py").stderr
    for text in ('[tool."planish"]\noptimize = { budget = "whenever" }\n', '[tool]\nplanish.optimize.budget = "whenever"\n'):
        (home / "pyproject.toml").write_text(text)
        assert "'whenever' is not a duration" in run(home, "optimize", "task.py").stderr, text
    (home / "planish.toml").write_text('# not tool.planish\n[tool.other]\nx = 1\n[optimize]\nbudget = "never"\n[[model]]\nname = "m"\n')
    done = run(home, "optimize", "task.py")
    assert done.returncode == 2 and "planish.toml: [[model]] 1 (m): `base_url` is missing" in done.stderr, "models stand where settings do"
    (home / "planish.toml").write_text('# not tool.planish\n[optimize]\nbudget = "never"\n')
    assert "'never' is not a duration" in run(home, "optimize", "task.py").stderr


def test_a_file_of_settings_that_cannot_be_read_is_what_is_wrong(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    (home / "broken.toml").write_text('[runs]\nlimit = 3\n[optimize]\nbudget = "1s\n')
    for words in (("--config", "broken.toml"), ("--config=broken.toml",)):
        for verb in (("runs",), ("optimize", "task.py")):
            done = run(home, *words, *verb)
            assert done.returncode == 2 and "broken.toml: not TOML at line 4" in lines(done.stderr, "error: ")[0], verb
        assert run(home, *words, "--help").returncode == 0 and run(home, *words, "runs", "--help").returncode == 0
    gone = run(home, "--config", "gone.toml", "runs")
    assert gone.returncode == 2 and "gone.toml: no such file of settings" in gone.stderr
    assert "there is no verb 'rnus'" in run(home, "--config", "broken.toml", "rnus").stderr
    assert "no verb was named" in run(home, "--config", "broken.toml").stderr
    assert "error: --store needs a value: where runs are kept" in run(home, "runs", "--store").stderr, "an option without its value"
    (home / "planish.toml").write_text("[runs\n")
    assert "planish.toml: not TOML at line 1" in run(home, "runs").stderr
    assert run(home, "--no-config", "runs").returncode == 0


def test_settings_that_no_verb_reads_are_told(home: Path) -> None:
    known = "[runs]\nlimit = 7\n[spending]\ntokens = 3\n"
    (home / "planish.toml").write_text('budget = "9s"\n[optimize]\nbugdet = "3s"\nbudget = "3s"\n[optimise]\nseed = 1\n' + known)
    warnings = lines(run(home, "runs").stderr, "warning: ")
    assert len(warnings) == 3 and all("planish.toml: " in each for each in warnings)
    meant = ("[optimize] has no setting 'bugdet': did you mean 'budget'?", "no verb 'optimise': did you mean 'optimize'?")
    for each in ("'budget' stands in no verb's table", *meant):
        assert any(each in warning for warning in warnings), (each, warnings)
    (home / "planish.toml").write_text('[runs]\nlimit = "many"\n')
    wrong = run(home, "runs")
    assert wrong.returncode == 2 and "'many'" in wrong.stderr and "it stands in planish.toml" in wrong.stderr


def test_a_suite_hands_on_which_settings_count(home: Path) -> None:
    (home / "tasks").mkdir()
    (home / "tasks" / "task.py").write_text("class Model(:\n")
    (home / "planish.toml").write_text('[optimize]\nturns = "whenever"\n')
    (home / "other.toml").write_text("")
    assert run(home, "suite", "tasks").returncode == 2, "this file is wrong for every command"
    for words in (("--no-config",), ("--config", "other.toml")):
        done = run(home, *words, "suite", "tasks", "--json")
        assert [row["error"]["kind"] for row in json.loads(done.stdout)["tasks"]] == ["not_python"], "the task has a mistake, and no settings have"


def test_no_file_of_settings_is_read_where_none_is_wanted(home: Path) -> None:
    (home / "task.py").write_text("x = 1\n")
    (home / "planish.toml").write_text('[optimize]\nbudget = "whenever"\n')
    done = run(home, "--no-config", "optimize", "task.py", "--baselines", "nonsense")
    assert "there is no baseline 'nonsense'" in done.stderr and "whenever" not in done.stderr
    (home / "other.toml").write_text('[optimize]\nbudget = "never"\n')
    named = run(home, "--no-config", "--config", "other.toml", "optimize", "task.py")
    assert "'never' is not a duration" in named.stderr, "a file that is named is read"


def test_an_empty_suite(home: Path) -> None:
    (home / "empty").mkdir()
    done = run(home, "suite", "empty", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "no_tasks"


def test_the_cache(home: Path) -> None:
    folder = home / "cache" / "planish"
    assert run(home, "cache", "dir").stdout.strip() == str(folder)
    assert json.loads(run(home, "cache", "size", "--json").stdout)["files"] == 0
    (folder / "binaries").mkdir(parents=True)
    (folder / "binaries" / "x").write_bytes(b"12345")
    assert json.loads(run(home, "cache", "size", "--json").stdout)["bytes"] == 5
    assert run(home, "cache", "clean").returncode == 0
    assert folder.exists() and not any(folder.iterdir())
    assert run(home, "cache", "clean").returncode == 0


def test_doctor_names_what_it_looked_for(home: Path) -> None:
    done = run(home, "doctor", "--json")
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    expected = {"gpu", "driver", "nvrtc", "g++", "python", "torch", "triton", "bytecode", "runner", "compiler", "runtime", "store", "cache"}
    assert expected | {"user_namespaces", "private_tmp", "landlock", "seccomp", "guest_user"} <= checks.keys()
    assert checks["guest_user"]["ok"] == (os.geteuid() != 0)
    assert all(check["ok"] or check["advice"] for check in checks.values())
    assert done.returncode == (0 if any(document["targets"].values()) else 3)
    assert not (home / "data").exists()


def test_doctor_says_where_python_compiles_torch_at_each_start(home: Path) -> None:
    found = {}
    for kept in (False, True):
        elsewhere = {} if kept else {"PYTHONPYCACHEPREFIX": str(home / "empty"), "PYTHONDONTWRITEBYTECODE": "1"}
        checks = json.loads(run(home, "doctor", "--json", **elsewhere).stdout)["checks"]
        found[kept] = next(check for check in checks if check["name"] == "bytecode")
    assert not found[False]["ok"] and "-m compileall -q " in found[False]["advice"]
    assert found[True]["ok"] or found[True]["advice"]


def test_doctor_without_a_compiler_or_torch(home: Path) -> None:
    done = run(home, "doctor", "--json", PLANISH_PYTHON="/nonexistent/python", PLANISH_CXX="/nonexistent/g++")
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert done.returncode == 3
    assert not checks["python"]["ok"] and "PLANISH_PYTHON" in checks["python"]["advice"]
    assert not checks["torch"]["ok"] and not checks["g++"]["ok"]
    text = run(home, "doctor", PLANISH_PYTHON="/nonexistent/python", PLANISH_CXX="/nonexistent/g++")
    assert "-> " in text.stdout
