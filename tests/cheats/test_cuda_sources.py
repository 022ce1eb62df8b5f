"""The corpus of a GPU, where there is none: its sources are Python and CUDA C++ that compile, and its entries are well formed. `make test-gpu` judges them."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from corpus import CORPUS, Entry
from corpus_cuda import CUDA_CORPUS, CUDA_TASKS
from evaluator import SOURCE
from judge_corpus import Judged
from kernels_cuda import HONEST_HEAVY, KERNELS, JudgedKernel
from run_corpus import document, shared_out

sys.path.insert(0, str(SOURCE / "tests" / "gpu"))


@pytest.fixture(scope="module")
def compiler() -> object:
    from emit_check import Compiler

    try:
        return Compiler()
    except SystemExit as error:
        pytest.skip(str(error))


def in_modules(entry: Entry) -> list[str]:
    """The CUDA sources of a solution that has some for NVRTC."""
    return [found for text in (entry.cheat, entry.twin) for found in re.findall(r'SOURCE = r"""(.*?)"""', text, re.DOTALL)]


def test_every_cuda_source_compiles_but_the_one_that_is_to_fail(compiler: object) -> None:
    sources = {k.name: [k.source] for k in KERNELS} | {"honest": [HONEST_HEAVY]} | {e.name: in_modules(e) for e in CUDA_CORPUS}
    failed = {name for name, texts in sources.items() for text in texts if compiler.cuda(text)[3]}  # type: ignore[attr-defined]
    assert failed == {"no code"}
    assert sum(len(texts) for name, texts in sources.items()) >= len(KERNELS) + 2 * 7


def test_the_solutions_are_python_that_defines_a_model() -> None:
    for entry in CUDA_CORPUS:
        for text in (entry.cheat, entry.twin):
            classes = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
            assert classes == ["ModelNew"], entry.name
        assert entry.cheat != entry.twin, entry.name


def test_entries_are_well_formed() -> None:
    names = [e.name for e in (*CORPUS, *CUDA_CORPUS)] + [k.name for k in KERNELS if k.name not in {e.name for e in CORPUS}]
    assert len(set(names)) == len(names)
    for seen, outcomes in [*((e.seen, e.outcomes) for e in CUDA_CORPUS), *((k.seen, k.outcomes - {"ok"} or {"slow"}) for k in KERNELS)]:
        assert re.fullmatch(r"(\d+|issue)( (\d+|issue))*", seen) and outcomes and "ok" not in outcomes
    assert {e.task for e in CUDA_CORPUS} <= set(CUDA_TASKS)
    assert all(k.slow_as > 0 for k in KERNELS if "ok" in k.outcomes)
    assert {e.needs for e in CUDA_CORPUS} == {"", "triton", "nvcc"}


def test_the_corpus_is_shipped_and_run_with_the_other_tests_of_a_gpu() -> None:
    root = Path(SOURCE)
    assert "tests/cheats" in (root / "cmake" / "dist.sh").read_text()
    assert "tests/cheats/run_corpus.py" in (root / "tests" / "gpu" / "run.sh").read_text()


def test_a_kernel_that_may_pass_must_take_as_long_as_honest_work() -> None:
    early = next(k for k in KERNELS if k.slow_as > 0)
    after = {"outcome": "ok", "message": ""}
    quick, slow = ({"outcome": "ok", "message": "", "bench": {"median_ms": ms}} for ms in (0.003, 0.3))
    assert not JudgedKernel(early, quick, after, 0.31).caught and JudgedKernel(early, slow, after, 0.31).caught
    assert not JudgedKernel(early, slow, {"outcome": "device_lost", "message": ""}, 0.31).passed


def test_the_table_shows_what_was_missed_and_what_was_not_tried() -> None:
    entry, other = CUDA_CORPUS[:2]
    wrong, ok = {"verified": False, "outcome": "wrong", "message": ""}, {"verified": True, "outcome": "ok", "message": "", "sandbox": {"landlock": 7}}
    kernel = JudgedKernel(KERNELS[0], {"outcome": "ok", "message": ""}, {"outcome": "ok", "message": ""}, 0.3)
    text = document("cuda", [Judged(entry, wrong, ok), Judged(other, ok, wrong)], [kernel], [(CUDA_CORPUS[-1], "nvcc")], "a device, today.")
    assert "**Cheats caught: 1 of 3. Honest twins passed: 2 of 3.** a device, today." in text and "landlock 7" in text
    assert f"| {entry.name} | {entry.seen} | {entry.task}, timed | wrong | passed |" in text
    assert f"| {other.name} | {other.seen} | {other.task}, timed | **ok** | **wrong** |" in text
    assert f"| {KERNELS[0].name} | {KERNELS[0].seen} | **ok** | passed |" in text
    assert f"Not tried on this machine: {CUDA_CORPUS[-1].name} (no nvcc)." in text


@pytest.mark.parametrize("jobs", [1, 3, 8, 500])
def test_every_entry_is_judged_once_however_many_judge(jobs: int) -> None:
    parts = shared_out([*CORPUS, *CUDA_CORPUS], jobs)
    assert sorted(e.name for part in parts for e in part) == sorted(e.name for e in (*CORPUS, *CUDA_CORPUS))
    assert len(parts) <= jobs and all(parts)
