"""Planish as OpenEvolve's evaluator (examples/openevolve/evaluator.py)."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from types import ModuleType

import pytest
from command import BINARY, ROOT, Home
from optimised_task import SMALL
from serving import served
from test_try import FUNCTION

EVALUATOR = ROOT / "examples" / "openevolve" / "evaluator.py"
WRONG = FUNCTION.replace("x * x)", "x * x * 1.01)")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("openevolve"))
    home.task(SMALL)
    with served(home), pytest.MonkeyPatch.context() as patch:
        for name, value in home.environment({"PLANISH_TASK": "task.py", "PLANISH_TARGET": "cpu", "PLANISH_BIN": str(BINARY)}).items():
            patch.setenv(name, value)
        patch.chdir(home.path)
        yield home


def evaluator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("planish_evaluator", EVALUATOR)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_programs_get_scores_and_reasons(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = evaluator().judge
    metrics, artifacts = judge(home.task(FUNCTION, "right.py"), True)
    assert metrics["correct"] == 1 and metrics["combined_score"] == metrics["speedup"] > 0 and artifacts["outcome"] == "ok"
    metrics, artifacts = judge(home.task(WRONG, "wrong.py"), True)
    assert metrics["combined_score"] == 0 and artifacts["outcome"] == "wrong" and "mismatch" in artifacts["verdict"]
    metrics, artifacts = judge(home.task('//@ kernel cpp\nextern "C" void f(void**) {}\n', "none.py"), True)
    assert metrics["combined_score"] == 0 and "launch" in artifacts["error"] + artifacts["hint"]
    with pytest.raises(RuntimeError, match="no_model"):
        monkeypatch.setenv("PLANISH_TASK", home.task("x = 1\n", "broken.py"))
        judge("right.py", True)
    monkeypatch.delenv("PLANISH_TASK")
    with pytest.raises(RuntimeError, match="PLANISH_TASK"):
        judge("right.py", True)


def test_openevolve_evaluates_with_it(home: Home) -> None:
    pytest.importorskip("openevolve", reason="the Python package openevolve is not installed")
    from openevolve.config import EvaluatorConfig
    from openevolve.evaluator import Evaluator

    config = EvaluatorConfig(cascade_evaluation=True, cascade_thresholds=[0.01], timeout=280)
    judged = Evaluator(config, str(EVALUATOR))
    right = asyncio.run(judged.evaluate_program(FUNCTION, "right"))
    assert right["correct"] == 1 and right["combined_score"] > 0
    wrong = asyncio.run(judged.evaluate_program(WRONG, "wrong"))
    assert wrong["combined_score"] == 0
    artifacts = judged.get_pending_artifacts("wrong")
    assert artifacts is not None and artifacts["outcome"] == "wrong"
