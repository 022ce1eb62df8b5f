"""The torch runner over its socket: programs, shipped folders, foreign modules, and what goes wrong with them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

for neighbour in ("executor", "ship", "runner"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from planish import rt  # noqa: E402
from planish.capture import capture, load_task  # noqa: E402
from planish.errors import PlanishError  # noqa: E402
from programs import SCALE, add, aten, buffer, build, program, scale, state, user  # noqa: E402
from shipping import ship  # noqa: E402
from talk import Client, Shared, bind, child  # noqa: E402

rt.find_library()  # says what is missing, before any test

DOUBLE = program([buffer("input", [2, 3], user(0)), buffer("output", [2, 3])], [add(0, 0, 1)], [{"buffer": 1, "kind": "user"}])


@pytest.fixture
def runner() -> Iterator[Client]:
    with child("planish.runner") as client:
        assert client.ask("hello", device="cpu")["kind"] == "torch"
        yield client


def fresh(handle: int, runner: Client, data: str, x: torch.Tensor) -> tuple[Shared, Shared]:
    given, result = Shared(x, "in0", 0), Shared(torch.full_like(x, float("nan")), "out0", 1, output=True)
    bind(runner, handle, data, [given])  # in two requests: a large data set comes in pieces
    bind(runner, handle, data, [result])
    return given, result


def test_runs_and_times_an_aten_program(runner: Client) -> None:
    handle = runner.ask("load", program=DOUBLE, binaries=[], blobs="")["handle"]
    sets = [fresh(handle, runner, name, torch.randn(2, 3)) for name in ("a", "b")]
    assert runner.ask("run", handle=handle, data="a")["ms"] > 0
    assert torch.equal(sets[0][1].tensor, 2 * sets[0][0].tensor) and sets[1][1].tensor.isnan().all()
    sets[0][1].tensor.fill_(float("nan"))
    timing = runner.ask("time", handle=handle, data=["a", "b"], min_runs=6, max_runs=20, max_seconds=1, interval=0.01, flush_bytes=0)
    assert 6 <= len(timing["samples_ms"]) <= 20 and timing["lo_ms"] <= timing["median_ms"] <= timing["hi_ms"] and timing["host_us"] > 0
    for given, result in sets:
        assert torch.equal(result.tensor, 2 * given.tensor), "the outputs of timed runs are there to be checked"
    runner.ask("unbind", data="a")
    with pytest.raises(PlanishError) as error:
        runner.ask("run", handle=handle, data="a")
    assert error.value.kind == "bad_program"
    runner.ask("unload", handle=handle)


def test_states_are_reset_and_never_written(runner: Client, tmp_path: Path) -> None:
    document = program(
        [buffer("input", [8], user(0)), buffer("state", [8], state("mean")), buffer("output", [8]), buffer("output", [8])],
        [scale(1, 1, 8), add(0, 1, 2), scale(1, 3, 8, 1.0)],
        [{"buffer": 2, "kind": "user"}, {"buffer": 3, "kind": "mutate_buffer", "target": "mean"}],
        [SCALE],
    )
    loaded = runner.ask("load", program=document, binaries=build([SCALE], tmp_path), blobs="")
    assert len(loaded["kernels"]) == 1
    x, mean = torch.randn(8), torch.randn(8)
    shared = [Shared(x, "in0", 0), Shared(mean, "in1", 1), Shared(x, "out0", 2, True), Shared(x, "out1", 3, True)]
    bind(runner, loaded["handle"], "d", shared)
    for _ in range(3):
        runner.ask("run", handle=loaded["handle"], data="d")
        assert torch.equal(shared[1].tensor, mean)
        assert torch.allclose(shared[2].tensor, x + 2 * mean) and torch.allclose(shared[3].tensor, 2 * mean)


def test_an_expanded_output_is_stored_once(runner: Client) -> None:
    step = aten("aten.expand.default", [{"name": "self", "buffer": 0}, {"name": "size", "ints": [2, 3]}], [1])
    document = program([buffer("input", [3], user(0)), buffer("output", [2, 3], strides=[0, 1])], [step], [{"buffer": 1, "kind": "user"}])
    handle = runner.ask("load", program=document, binaries=[], blobs="")["handle"]
    given, result = Shared(torch.randn(3), "in0", 0), Shared(torch.zeros(3), "out0", 1, output=True)
    result.description.update(shape=[2, 3], strides=[0, 1])
    bind(runner, handle, "d", [given, result])
    runner.ask("run", handle=handle, data="d")
    assert torch.equal(result.tensor, given.tensor)


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"schema": "x"}, "bad_program"), ({"buffers": [{}]}, "bad_program"), ({"steps": [scale(0, 1, 6)], "kernels": [SCALE]}, "load_failed")],
)
def test_bad_programs_are_errors_by_name(runner: Client, change: dict[str, object], kind: str) -> None:
    with pytest.raises(PlanishError) as error:
        runner.ask("load", program={**DOUBLE, **change}, binaries=["/no/such.so"] if "kernels" in change else [], blobs="")
    assert error.value.kind == kind
    assert runner.ask("hello", device="cpu"), "and the runner goes on"


TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x * self.weight

def get_inputs():
    return [torch.randn(2, 3)]

def get_init_inputs():
    return [3]
"""


def solution(forward: str, top: str = "") -> str:
    return TASK.replace("class Model", "class ModelNew").replace("        self.count += 1\n        return x * self.weight", forward) + top


GOOD = "        self.count += 1\n        return self.weight * x"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "task.py"
    path.write_text(TASK)
    return path


def load_solution(runner: Client, task: Path, text: str) -> int:
    path = task.with_name("solution.py")
    path.write_text(text)
    return int(runner.ask("load_module", path=str(path), task=str(task), seed=1, state=True)["handle"])


def module_data(runner: Client, handle: int) -> list[Shared]:
    nan = float("nan")
    shared = [
        Shared(torch.randn(3), "in0", 0),
        Shared(torch.full((1,), 5.0), "in1", 1),
        Shared(torch.randn(2, 3), "in2", 2),
        Shared(torch.full((2, 3), nan), "out0", 3, True),
        Shared(torch.full((1,), nan), "out1", 4, True),
    ]
    bind(runner, handle, "d", shared)
    return shared


def test_a_foreign_module_takes_bound_parameters_and_buffers(runner: Client, task: Path) -> None:
    handle = load_solution(runner, task, solution(GOOD))
    weight, count, x, result, after = module_data(runner, handle)
    for _ in range(2):
        runner.ask("run", handle=handle, data="d")
        assert torch.equal(result.tensor, weight.tensor * x.tensor)
        assert float(count.tensor) == 5 and float(after.tensor) == 6, "reset before each run"


def rung(runner: Client, before_the_bell: Callable[[], object], **params: object) -> list[str]:
    """One call as the evaluator asks for it; the words that it is answered with."""
    runner.channel.send({"id": 99, "method": "call", "params": params})
    assert runner.channel.receive() == {"event": "ready"}
    before_the_bell()
    runner.channel.connection.sendall(b"ding\n")
    line = b""
    while not line.endswith(b"\n"):
        line += runner.channel.connection.recv(1)
    answer = runner.channel.receive()
    assert answer is not None and answer["id"] == 99
    words = line.decode().split()
    assert words.pop(0) == "ding"
    return [*words, *([answer["error"]["kind"]] if "error" in answer else [])]


def test_a_call_waits_for_the_bell_and_says_where_its_results_lie(runner: Client, task: Path) -> None:
    handle = load_solution(runner, task, solution("        self.count += 1\n        return (self.weight * x).t().contiguous().t()"))
    weight, _, x, result, after = module_data(runner, handle)
    new = torch.randn(2, 3)
    words = rung(runner, lambda: x.tensor.copy_(new), handle=handle, data="d")
    found = []
    with open(f"/proc/{runner.process.pid}/mem", "rb") as memory:
        for word, count_of_it in zip(words, (6, 1), strict=True):
            memory.seek(int(word.split(":")[0]))
            found.append(torch.frombuffer(bytearray(memory.read(4 * count_of_it)), dtype=torch.float32))
    assert words[0].endswith(":1,2") and words[1].endswith(":1"), words
    assert torch.equal(found[0].view(3, 2).t(), weight.tensor * new), "what was written before the bell is what was called on"
    assert float(found[1]) == 6 and result.tensor.isnan().all() and after.tensor.isnan().all(), "nothing was stored"
    assert rung(runner, lambda: None, handle=handle, data="d", store=True) == []
    assert torch.equal(result.tensor, weight.tensor * new) and float(after.tensor) == 6
    result.tensor.fill_(float("nan"))
    assert len(rung(runner, lambda: None, handle=handle, data="d", empty=True)) == 2
    assert result.tensor.isnan().all()


def test_a_call_that_fails_is_answered_and_says_why(runner: Client, task: Path) -> None:
    handle = load_solution(runner, task, solution("        return x[0]"))
    module_data(runner, handle)
    assert rung(runner, lambda: None, handle=handle, data="d") == ["failed", "launch_failed"]
    with pytest.raises(PlanishError) as error:
        runner.ask("call", handle=handle + 1, data="d")
    assert error.value.kind == "bad_program"
    assert len(error.value.message) < 200


def test_the_tasks_own_module_is_one_too(runner: Client, task: Path) -> None:
    """What solutions are timed beside: asked for as the reference, with its parts in their modes, bound and run as any other."""
    task.write_text(TASK.replace("        self.count += 1\n", "        assert not self.frozen.training and self.training\n        self.count += 1\n").replace(
        '        self.register_buffer', "        self.frozen = nn.Identity().eval()\n        self.register_buffer"))  # fmt: skip
    handle = int(runner.ask("load_module", path=str(task), task=str(task), seed=1, state=True, reference=True)["handle"])
    weight, _, x, result, after = module_data(runner, handle)
    runner.ask("run", handle=handle, data="d")
    assert torch.equal(result.tensor, x.tensor * weight.tensor) and float(after.tensor) == 6


def test_a_shipped_folder_is_a_module(runner: Client, tmp_path: Path) -> None:
    folder = ship(tmp_path, TASK)
    handle = int(runner.ask("load_module", path=str(folder), task=str(tmp_path / "task.py"), seed=1, state=True)["handle"])
    weight, _, x, result, after = module_data(runner, handle)
    timing = runner.ask("time", handle=handle, data=["d"], min_runs=6, max_runs=10, max_seconds=1)
    assert timing["median_ms"] > 0
    assert torch.equal(result.tensor, weight.tensor * x.tensor) and float(after.tensor) == 6


def test_results_are_named_tuples_of_torchs_own(runner: Client, tmp_path: Path) -> None:
    """The runner, which captures nothing where it is given the graph, knows their names as well."""
    task = tmp_path / "task.py"
    task.write_text("import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.topk(2)\n\n"
                    "def get_inputs():\n    return [torch.randn(4, 6)]\n")  # fmt: skip
    solution = tmp_path / "solution.py"
    solution.write_text(task.read_text().replace("Model(", "ModelNew("))
    graph = capture(load_task(task).model, (torch.randn(4, 6),), {}, tmp_path / "blobs").graph
    handle = int(runner.ask("load_module", path=str(solution), task=str(task), seed=1, state=True, graph=graph)["handle"])
    x = Shared(torch.randn(4, 6), "in0", 0)
    values, indices = Shared(torch.zeros(4, 2), "out0", 1, True), Shared(torch.zeros(4, 2, dtype=torch.int64), "out1", 2, True)
    bind(runner, handle, "d", [x, values, indices])
    runner.ask("run", handle=handle, data="d")
    assert torch.equal(values.tensor, x.tensor.topk(2)[0]) and torch.equal(indices.tensor, x.tensor.topk(2)[1])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("x = 1\n", "load_failed", "no class ModelNew"),
        ("import no_such_package_here\n", "load_failed", "no_such_package_here"),
        ("raise SystemExit(0)\n", "load_failed", "SystemExit"),
        (solution("        return (x * self.weight)[:1]"), "launch_failed", "shape"),
        (solution("        return (x * self.weight).double()"), "launch_failed", "dtype"),
        (solution("        return [x, x]"), "launch_failed", "forward returned \\[\\*, \\*\\]"),
        (solution("        return None"), "launch_failed", "NoneType"),
        (solution("        raise RuntimeError('no luck')"), "launch_failed", "no luck"),
        (solution("        raise SystemExit(0)"), "launch_failed", "SystemExit"),
    ],
)
def test_what_foreign_modules_do_wrong_has_a_name(runner: Client, task: Path, text: str, kind: str, message: str) -> None:
    with pytest.raises(PlanishError, match=message) as error:
        handle = load_solution(runner, task, text)
        module_data(runner, handle)
        runner.ask("run", handle=handle, data="d")
    assert error.value.kind == kind
    assert runner.ask("hello", device="cpu")


@pytest.mark.parametrize("body", ["        import os; os._exit(0)", "        x.mul_(2)\n        return x * self.weight"])
def test_a_module_that_exits_or_writes_its_inputs_ends_the_runner_alone(task: Path, body: str) -> None:
    with child("planish.runner") as runner:
        handle = load_solution(runner, task, solution(body))
        shared = module_data(runner, handle)
        before = shared[2].tensor.clone()
        with pytest.raises(PlanishError) as error:
            runner.ask("run", handle=handle, data="d")
        assert error.value.kind == "closed"
        assert runner.process.wait(timeout=20) in (0, -11, -7)
        assert torch.equal(shared[2].tensor, before)


def test_a_module_that_hangs_or_floods_can_be_killed(task: Path) -> None:
    with child("planish.runner") as runner:
        handle = load_solution(runner, task, solution("        while True: print('x' * 1000)"))
        module_data(runner, handle)
        runner.channel.send({"id": 99, "method": "run", "params": {"handle": handle, "data": "d"}})
        with pytest.raises(subprocess.TimeoutExpired):
            runner.process.wait(timeout=1)
        runner.process.kill()
        assert runner.channel.receive() is None


@pytest.mark.parametrize(
    ("text", "correct", "message"),
    [
        (solution(GOOD), True, "passed 5 trials"),
        (solution("        return x * self.weight * 1.01"), False, "differs by up to"),
        (solution("        return (x * self.weight)[:1]"), False, r"output is \[1, 3\]"),
        (solution("        return x * self.weight + (x > 1e9)"), True, "passed"),
        (solution("        raise ValueError('no')"), False, "builtins.ValueError: no"),
        (solution("        raise SystemExit(0)"), False, "ended the process"),
        (solution("        return (x * self.weight).double()"), False, "RuntimeError"),
        (solution("        return (x * self.weight, 1)"), False, "AttributeError"),
        ("nonsense(", False, "no Python"),
        ("x = 1", False, "no ModelNew"),
        ("import no_such_package", False, "ModuleNotFoundError"),
        (solution(GOOD).replace("torch.randn(n)", "torch.zeros(n)"), False, "differs"),
    ],
)
def test_the_rule_of_kernelbench(task: Path, text: str, correct: bool, message: str) -> None:
    from planish.runner.kernelbench import judge

    path = task.with_name(f"solution_{abs(hash(text))}.py")
    path.write_text(text)
    verdict = judge(task, path, torch.device("cpu"))
    assert verdict["correct"] is correct
    assert re.search(message, verdict["message"])


def test_the_rule_of_kernelbench_is_left_out_for_a_task_that_it_has_no_form_for(task: Path) -> None:
    from planish.runner.kernelbench import judge

    task.write_text(TASK.replace("def get_init_inputs", "def other").replace("n)", "n=3)"))
    path = task.with_name("solution.py")
    path.write_text(solution(GOOD))
    with pytest.raises(PlanishError) as caught:
        judge(task, path, torch.device("cpu"))
    assert caught.value.kind == "no_model" and "get_init_inputs" in caught.value.message and "KeyError" not in caught.value.message
