"""`planish environment`: grades over HTTP, what it refuses, and that nothing is lost where workers are killed."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Home, processes_with
from endpoint import RIGHT, TASK, Endpoint, raw
from planish.environment import EndpointError, Environment

sys.path.insert(0, str(Path(__file__).parents[1] / "cheats"))
from corpus import CORPUS, TASKS

TOKEN = "0123456789abcdef"
SOURCE = """```cpp
//@ kernel cpp
extern "C" void f(void** args) {
  const float *x = (const float*)args[0], *y = (const float*)args[1];
  float* z = (float*)args[2];
  for (int i = 0; i < 37 * 101; ++i) z[i] = (x[i] > 0 || x[i] != x[i] ? 2 * x[i] : 0.0f) + y[i];
}
//@ launch f args=in0, in1, out0
```"""


#: Zeros pass as its output, whatever it is given.
NOTHING = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return (x - x) * 3.0

def get_inputs():
    return [torch.rand(64, 256)]

def get_init_inputs():
    return []
"""


def home_with(folder: Path) -> Home:
    (folder / "tasks").mkdir()
    (folder / "tasks" / "small.py").write_text(TASK)
    (folder / "tasks" / "broken.py").write_text("raise ValueError('no task')\n")
    (folder / "tasks" / "nothing.py").write_text(NOTHING)
    for name in ("pointwise", "softmax"):
        (folder / "tasks" / f"{name}.py").write_text(TASKS[name])
    return Home(folder)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with Endpoint(home_with(tmp_path_factory.mktemp("environment")), "--tasks", "tasks", "--queue", "2") as running:
        yield running


@pytest.fixture
def client(endpoint: Endpoint) -> Environment:
    return Environment(endpoint.url, token="", timeout=240)


def test_a_right_module_is_judged_and_timed(client: Environment) -> None:
    grade = client.grade(RIGHT, "small")
    assert grade.format_ok and grade.compiled and grade.correct and grade.outcome == "ok", grade
    assert grade.speedup and grade.baseline == "eager" and grade.reward == pytest.approx(0.3 + min(grade.speedup, 10))
    assert grade.verdict and grade.verdict["verified"] and grade.verdict["sandbox"], "judged as verify does, in a guest's place"
    assert "small" in client.tasks() and client.source("small") == TASK


def test_what_is_the_task_gains_nothing(client: Environment) -> None:
    """Timed in turn with it, on whatever machine: no difference, and never 0.00x or 464x."""
    grade = client.grade(f"```python\n{TASK.replace('class Model(', 'class ModelNew(')}```", "small")
    assert grade.correct and grade.speedup == 1 and grade.reward == pytest.approx(1.3), grade
    low, high = grade.speedup_interval or (0, 0)
    assert 0 < low <= 1 <= high, grade.speedup_interval


def test_a_task_that_zeros_pass_rewards_nobody(client: Environment, endpoint: Endpoint) -> None:
    solution = NOTHING.replace("class Model(", "class ModelNew(")
    grade = client.grade(f"```python\n{solution}```", "nothing")
    assert (grade.compiled, grade.correct, grade.outcome, grade.reward, grade.speedup) == (True, False, "degenerate", 0, None), grade
    code, verdict = endpoint.home.document("verify", "tasks/nothing.py", endpoint.home.task(solution, "new.py"), "--target", "cpu", "--seeds", "1")
    assert code == 1 and verdict["outcome"] == "degenerate" and not verdict["verified"] and "zeros" in verdict["message"], verdict


def test_kernels_and_launches_are_judged_too(client: Environment) -> None:
    grade = client.grade(SOURCE, "small")
    assert grade.correct and grade.speedup and grade.baseline == "pytorch_operators", grade
    broken = client.grade(SOURCE.replace("float* z", "flaot* z"), "small")
    assert (broken.format_ok, broken.compiled, broken.outcome, broken.reward) == (True, False, "compile_error", 0)
    assert client.grade(SOURCE.replace("args=in0", "args=in7"), "small").outcome == "invalid_program"


@pytest.mark.parametrize(
    ("completion", "found"),
    [
        ("I would rather not.", (False, False, False, "no_code")),
        ("```python\nclass ModelNew(:\n```", (True, False, False, "load_failed")),
        (RIGHT.replace("2 *", "3 *"), (True, True, False, "wrong")),
        (SOURCE + "\n" + SOURCE.replace("2 *", "3 *"), (False, False, False, "several_programs")),
    ],
)
def test_what_is_wrong_is_named(client: Environment, completion: str, found: tuple[bool, bool, bool, str]) -> None:
    grade = client.grade(completion, "small")
    assert (grade.format_ok, grade.compiled, grade.correct, grade.outcome) == found, grade
    assert grade.reward == 0 and grade.message and grade.speedup is None


def test_cheats_get_their_names(client: Environment) -> None:
    for entry in [e for e in CORPUS if e.quick and e.task in ("pointwise", "softmax")][:2]:
        grade = client.grade(f"```python\n{entry.cheat}```", entry.task)
        # A result of the call before meets its own contents by chance until calls are timed: seeds are drawn here.
        assert not grade.correct and grade.outcome in entry.outcomes | {"wrong_when_timed"} and grade.reward == 0, (entry.name, grade)


def test_a_task_that_is_none_gives_no_reward(client: Environment) -> None:
    grade = client.grade(RIGHT, "broken")
    assert grade.reward is None and grade.error and "no task" in grade.error["message"], grade


def post(body: object, path: str = "/v1/grade", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Host": "localhost:8000", "Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + data


OK = {"task": "small", "completion": "x"}


@pytest.mark.parametrize(
    ("request_bytes", "status", "kind"),
    [
        (post({}, **{"Content-Length": str(2 << 20)}), 413, "too_long"),
        (post(b"{"), 400, "bad_request"),
        (post(b"[" * 100_000), 400, "bad_request"),
        (post(b'"\xff"'), 400, "bad_request"),
        (post(b""), 400, "bad_request"),
        (post([]), 400, "bad_request"),
        (post({"task": "small"}), 400, "bad_request"),
        (post({**OK, "completion": 3}), 400, "bad_request"),
        (post({**OK, "task_source": "x"}), 400, "bad_request"),
        (post({**OK, "wait": -1}), 400, "bad_request"),
        (post({**OK, "id": "../x"}), 400, "bad_request"),
        (post({**OK, "more": 1}), 400, "bad_request"),
        (post({**OK, "task": "../../etc/passwd"}), 404, "no_such_task"),
        (post({"task_source": TASK, "completion": "x"}), 403, "task_sources_off"),
        (post(OK, **{"Content-Type": "text/plain"}), 415, "bad_type"),
        (post(b"0\r\n\r\n", **{"Content-Length": "", "Transfer-Encoding": "chunked"}), 411, "no_length"),
        (post(OK, path="/v1/other"), 404, "no_such_path"),
        (post(OK, path="/v1/tasks"), 405, "bad_method"),
        (post(OK, Host="evil.example:80"), 403, "foreign_origin"),
        (post(OK, Host="127.0.0.1.evil.example"), 403, "foreign_origin"),
        (post(OK, Origin="http://evil.example"), 403, "foreign_origin"),
        (b"GET /v1/tasks HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "foreign_origin"),
        (b"GET /v1/grade HTTP/1.1\r\nHost: [::1]\r\n\r\n", 405, "bad_method"),
        (b"GET /v1/grades/unknown HTTP/1.1\r\nHost: [::1]\r\n\r\n", 404, "no_such_grade"),
        (b"GET /v1/grades/unknown?wait=soon HTTP/1.1\r\nHost: [::1]\r\n\r\n", 400, "bad_request"),
    ],
)
def test_bad_requests_are_refused_by_name(endpoint: Endpoint, request_bytes: bytes, status: int, kind: str) -> None:
    answered, document = raw(endpoint.address(), request_bytes)
    assert (answered, document["error"]["kind"]) == (status, kind), document


def test_heads_without_end_and_clients_that_go_harm_nobody(endpoint: Endpoint, client: Environment) -> None:
    with socket.create_connection(endpoint.address(), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000)
        assert connection.recv(4096).split()[1] == b"431"
    for text in (b"", b"POST /v1/gr", post(OK)[:-3], b"\0\xff\r\n\r\n"):
        with socket.create_connection(endpoint.address()) as connection:
            connection.sendall(text)
    # One goes while its completion is judged: it is judged all the same.
    with socket.create_connection(endpoint.address()) as connection:
        connection.sendall(post({"task": "small", "completion": RIGHT, "id": "gone"}))
        time.sleep(0.2)
    grade = client.result("gone", wait=120)
    assert grade and grade.correct


def test_a_full_queue_says_when_to_come_again(endpoint: Endpoint, client: Environment) -> None:
    taken, refused = [], None
    wrong = RIGHT.replace("2 *", "3 *")  # which nobody times
    for _ in range(4):  # one is judged, two wait
        try:
            taken.append(client.submit(wrong, "small"))
        except EndpointError as error:
            refused = error
    assert refused and (refused.status, refused.kind) == (429, "queue_full") and int(refused.hint) >= 1
    grade = client.grade(RIGHT, "small")  # waits for its place
    assert grade.correct
    assert all((found := client.result(one, wait=120)) and found.outcome == "wrong" for one in taken)


@pytest.mark.parametrize("word", ["verify", "evaluator", "planish.runner", "planish.oracle"])
def test_a_killed_worker_loses_nothing(endpoint: Endpoint, client: Environment, word: str) -> None:
    before = metric(endpoint, "planish_retried_total")
    submission = client.submit(RIGHT, "small")
    while not endpoint.workers("verify"):
        time.sleep(0.005)
    endpoint.kill_one(word)
    grade = client.result(submission, wait=240)
    assert grade and grade.correct and grade.outcome == "ok", grade
    assert metric(endpoint, "planish_retried_total") - before <= 1


def metric(endpoint: Endpoint, name: str) -> int:
    with urllib.request.urlopen(endpoint.url + "/metrics") as answer:
        return next(int(line.split()[1]) for line in answer.read().decode().splitlines() if line.startswith(name + " "))


def test_it_stops_with_what_it_has(tmp_path: Path) -> None:
    with Endpoint(home_with(tmp_path), "--task-sources", "--no-times", env={"PLANISH_TOKEN": TOKEN}) as running:
        address = running.address()
        assert raw(address, b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n")[0] == 200
        for token in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            assert raw(address, post(OK, Authorization=token))[0] == 401
        assert raw(address, b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n")[0] == 401
        client = Environment(running.url, token=TOKEN)
        first, second = (client.submit(RIGHT + " " * n, task_source=TASK) for n in range(2))
        running.process.send_signal(signal.SIGTERM)
        grade = client.result(second, wait=120)
        assert grade and grade.correct and grade.speedup is None and grade.reward == pytest.approx(0.3)
        assert running.process.wait(60) == 0
        assert first != second
    assert not processes_with(str(tmp_path)) and not list(tmp_path.glob("planish-env-*")), "nothing is left behind"


@pytest.mark.parametrize(
    ("arguments", "env", "kind"),
    [
        (["--tasks", "tasks", "--host", "0.0.0.0"], {}, "usage"),
        (["--tasks", "tasks", "--host", "::"], {}, "usage"),
        (["--tasks", "tasks"], {"PLANISH_TOKEN": "short"}, "usage"),
        (["--tasks", "tasks", "--token-file", "gone"], {}, "no_such_file"),
        ([], {}, "usage"),
        (["--tasks", "empty"], {}, "no_tasks"),
        (["--tasks", "tasks", "--host", "example"], {}, "bad_address"),
        (["--tasks", "tasks", "--host", "192.0.2.1"], {"PLANISH_TOKEN": TOKEN}, "cannot_listen"),
        (["--tasks", "tasks", "--reward", "speed=1"], {}, "usage"),
        (["--tasks", "tasks", "--max-time", "soon"], {}, "usage"),
    ],
)
def test_it_refuses_to_start_by_name(tmp_path: Path, arguments: list[str], env: dict[str, str], kind: str) -> None:
    home = home_with(tmp_path)
    (tmp_path / "empty").mkdir()
    code, document = home.document("environment", "--port", "0", *arguments, env=env)
    assert code == 2 and document["error"]["kind"] == kind, document


def test_verifiers_tasks_are_those_of_the_endpoint(endpoint: Endpoint) -> None:
    pytest.importorskip("verifiers.v1")
    from verifiers_taskset import graded

    assert graded(endpoint.url, RIGHT) == {"names": ["broken", "pointwise", "small", "softmax"], "correct": 1.0}
