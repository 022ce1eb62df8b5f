"""`planish mcp` by the line: what a client may send wrongly, and what is left when it goes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import BINARY, Home, processes_with
from optimised_task import SMALL

#: A task that takes its time to be opened.
SLOW = SMALL.replace("import torch\n", "import time\nimport torch\ntime.sleep(600)\n", 1)


class Agent:
    """A client that says what it likes. Notifications that come before an answer are kept in `told`."""

    def __init__(self, home: Home, *before: str) -> None:
        pipe, command = subprocess.PIPE, [str(BINARY), *before, "mcp"]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=home.environment(), cwd=home.path)
        self.told: list[dict[str, Any]] = []

    def send(self, line: str | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, "it ended"
            message: dict[str, Any] = json.loads(line)
            if "method" not in message:
                return message
            self.told.append(message)

    def post(self, number: int, method: str, **params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self.post(number, method, **params)
        answer = self.receive()
        assert answer["id"] == number, answer
        return answer

    def call(self, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.ask(number, "tools/call", name=tool, arguments=arguments)
        result: dict[str, Any] = answer["result"]
        return result

    def hello(self) -> None:
        answer = self.ask(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})
        assert answer["result"]["protocolVersion"] == "2025-06-18" and answer["result"]["serverInfo"]["name"] == "planish"
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def close(self) -> int:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        return self.process.wait(60)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.task(SMALL)
    home.task(SLOW, "slow.py")
    return home


@pytest.fixture
def agent(home: Home) -> Iterator[Agent]:
    agent = Agent(home)
    try:
        agent.hello()
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.process.kill()
        agent.close()


def nothing_left(home: Home) -> bool:
    end = time.monotonic() + 60
    while processes_with(str(home.path)) and time.monotonic() < end:
        time.sleep(0.05)
    return not processes_with(str(home.path))


def wait_for_a_child(home: Home, word: str) -> None:
    end = time.monotonic() + 60
    while not any(word in line for line in processes_with(str(home.path))) and time.monotonic() < end:
        time.sleep(0.02)
    assert any(word in line for line in processes_with(str(home.path)))


def test_runs_read_the_settings_that_the_server_reads(home: Home) -> None:
    (home.path / "named.toml").write_text('[optimize]\nstrategy = "no_such_strategy"\n')
    for before, expected in ((("--config", "named.toml"), "no_such_strategy"), ((), "no_such_coder")):
        (home.path / "planish.toml").write_text('[optimize]\ncoder = ["no_such_coder"]\n')
        agent = Agent(home, *before)
        try:
            agent.hello()
            run = agent.call(1, "start_run", task="task.py", budget="1s", baselines="none")["structuredContent"]["run"]
            ended = agent.call(2, "watch_run", run=run, seconds=60)
            assert expected in json.dumps(ended), (before, ended)
        finally:
            agent.close()


def test_what_is_no_request_is_refused_and_the_session_goes_on(agent: Agent) -> None:
    for line, code in (
        ("{", -32700),
        (b"\xff\xfe\x00", -32700),
        ("[1, 2]", -32600),
        ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "no/such"}', -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "no_such"}}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "open_task", "arguments": "task.py"}}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "planish://run/none"}}', -32002),
        ('{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}', -32002),
    ):
        agent.send(line)
        assert agent.receive()["error"]["code"] == code, line
    assert agent.ask(2, "ping")["result"] == {}


def test_what_is_asked_wrongly_of_a_tool_is_its_answer(agent: Agent) -> None:
    for tool, arguments, kind, said in (
        ("open_task", {}, "bad_argument", "task is missing"),
        ("open_task", {"task": 3}, "bad_argument", "task must be a text"),
        ("open_task", {"task": "task.py", "target": "gpu"}, "bad_argument", "one of auto, cpu, cuda"),
        ("open_task", {"task": "none.py"}, "no_such_file", "no such file"),
        ("open_task", {"task": "task.py", "accuracy": "much"}, "usage", "no accuracy"),
        ("try_candidate", {"task": "task.py"}, "bad_argument", "as source or as file"),
        ("read_trial", {"trial": "t9"}, "no_such_trial", "no trial t9"),
        ("search_patterns", {"query": "gemm", "limit": 0}, "bad_argument", "from 1 to 100"),
        ("show_pattern", {"id": "zzzz"}, "no_such_pattern", "zzzz"),
        ("watch_run", {"run": "none"}, "no_such_run", "none"),
        ("cancel_run", {"run": "none"}, "not_running", "none"),
        ("list_archive", {"run": "none"}, "no_such_run", "none"),
        ("ship_winner", {"run": "none"}, "no_such_run", "none"),
        ("start_run", {"task": "task.py", "budget": "soon"}, "usage", "no"),
        ("start_run", {"task": "task.py", "out": "/dev/zero"}, "usage", "is not a folder"),
    ):
        result = agent.call(1, tool, **arguments)
        assert result["isError"] and result["structuredContent"]["error"]["kind"] == kind, (tool, result)
        assert said in result["content"][0]["text"], (tool, result)


def test_a_task_that_is_none_is_the_answer_of_opening_it(home: Home, agent: Agent) -> None:
    result = agent.call(1, "open_task", task=home.task("x = 1\n", "empty.py"), target="cpu")
    assert result["isError"] and result["structuredContent"]["error"]["kind"] == "no_model"


def test_a_cancelled_call_ends_with_all_that_it_started(home: Home, agent: Agent) -> None:
    agent.send(
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 7,
                "method": "tools/call",
                "params": {"name": "open_task", "arguments": {"task": "slow.py"}, "_meta": {"progressToken": 1}},
            }
        )
    )
    wait_for_a_child(home, "planish.oracle")
    agent.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7, "reason": "enough"}}))
    end = time.monotonic() + 60
    while any("planish.oracle" in line for line in processes_with(str(home.path))) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any("planish.oracle" in line for line in processes_with(str(home.path)))
    # It was not answered, and the next is, by an evaluator of its own.
    result = agent.call(8, "open_task", task="task.py", target="cpu")
    assert not result["isError"] and result["structuredContent"]["regions"][0]["id"] == "task"
    assert any(told["params"]["progressToken"] == 1 for told in agent.told)


@pytest.mark.parametrize("how", ["closes stdin", "terminates", "kills"])
def test_a_client_that_goes_in_the_middle_leaves_nothing(home: Home, agent: Agent, how: str) -> None:
    run = agent.call(1, "start_run", task="task.py", target="cpu", budget="10m", baselines="none")["structuredContent"]["run"]
    agent.post(2, "tools/call", name="open_task", arguments={"task": "slow.py"})
    agent.post(3, "tools/call", name="watch_run", arguments={"run": run, "seconds": 600})
    wait_for_a_child(home, "optimize")
    wait_for_a_child(home, "planish.oracle")
    if how == "kills":
        agent.process.kill()
    elif how == "terminates":
        agent.process.send_signal(signal.SIGTERM)
    code = agent.close()
    assert code == (-signal.SIGKILL if how == "kills" else 0)
    assert nothing_left(home), processes_with(str(home.path))
