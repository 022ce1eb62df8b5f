"""The part of the tester that `make test` runs: a fixed list of cases, and that it catches and shrinks planted defects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from .__main__ import job_of
from .check import Failure, Options
from .driver import Driver, Outcome, warm_up
from .generate import generate
from .shrink import shrink


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


@pytest.fixture
def driver() -> Iterator[Driver]:
    with Driver(jobs=1, batch=12) as made:
        yield made


def failures(driver: Driver, keys: list[str], options: Options) -> dict[str, str]:
    found: dict[str, str] = {}

    def report(outcome: Outcome) -> None:
        if outcome.failure is not None:
            found[outcome.key] = str(outcome.failure)

    driver.run((job_of(key, options) for key in keys), report)
    return found


def test_kernels_compute_what_torch_does(driver: Driver) -> None:
    assert failures(driver, [f"suite/{n}" for n in range(10)], Options(programs=2)) == {}


def test_aten_steps_compute_what_torch_does(driver: Driver) -> None:
    assert failures(driver, [f"aten/{n}" for n in range(8)], Options(programs=0)) == {}


def test_emitted_cuda_compiles(driver: Driver) -> None:
    found = failures(driver, [f"cuda/{n}" for n in range(4)], Options("cuda", programs=1, compile_only=True))
    if any("no_compiler" in text for text in found.values()):
        pytest.skip("NVRTC is not installed")
    assert found == {}


def dropped_tail(source: str) -> str:
    """The last element of every vector loop's remainder is forgotten."""
    return source.replace("const i64 count = ", "const i64 count = -1 + ")


def dropped_term(source: str) -> str:
    """Every sum, difference and product of two values is the first of them."""
    return re.sub(r"= (n\d+\w*) [-+*] [^;]*;", r"= \1;", source)


@pytest.mark.parametrize(("defect", "seen"), [(dropped_tail, ("run", "unwritten")), (dropped_term, ("run", "mismatch"))])
def test_a_planted_defect_is_caught_and_shrunk(defect: Callable[[str], str], seen: tuple[str, str]) -> None:
    with Driver(jobs=1, batch=6, change=defect) as driver:
        caught: list[tuple[str, Failure]] = []

        def report(outcome: Outcome) -> None:
            if outcome.failure is not None:
                caught.append((outcome.key, outcome.failure))

        driver.run((job_of(f"planted/{n}", Options(programs=1), steps=6) for n in range(8)), report)
        alike = [(key, failure) for key, failure in caught if (failure.stage, failure.kind) == seen]
        assert alike, f"caught only {caught}"
        key, failure = alike[0]
        job = job_of(key, Options(programs=1), steps=6)
        small = shrink(driver, job.case, failure, job.options, most=24, programs=1)
        assert failure.like(small.failure)
        assert len(small.case.steps) <= 3 and len(small.case.steps) < len(job.case.steps)
    # What is left names the defect and nothing else: the case is right without it.
    with Driver() as sound:
        assert sound.check(small.case, small.options) is None


def test_a_crash_costs_one_case(driver: Driver) -> None:
    def crash(source: str) -> str:
        return source.replace("void k0(void** args) {", "void k0(void** args) { *(volatile int*)8 = 1;")

    with Driver(jobs=1, batch=4, change=crash) as broken:
        found = failures(broken, [f"suite/{n}" for n in range(2)], Options(programs=1))
    kinds = {text.split(":")[0] for text in found.values()}
    assert kinds == {"crash/SIGSEGV"}, found


def test_cases_are_the_same_everywhere() -> None:
    """A key in a report must name the same case tomorrow."""
    assert generate("suite/0") == generate("suite/0")
    assert replace(generate("suite/0"), training=True) != generate("suite/1")
