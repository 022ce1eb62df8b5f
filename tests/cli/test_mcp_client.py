"""`planish mcp` with the official Python client: a whole session on a CPU task."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command import BINARY, Home, processes_with
from optimised_task import SMALL
from test_try import FUNCTION, source

if TYPE_CHECKING:  # it takes seconds, and one process of the test run needs it
    from mcp import Client


def answered(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content[0].text
    # For clients that know no structured content it stands in the last block of text.
    assert json.loads(result.content[-1].text) == result.structured_content
    document: dict[str, Any] = result.structured_content
    return document


async def tries(client: Client, home: Home) -> None:
    told: list[str] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")

    opened = answered(await client.call_tool("open_task", {"task": "task.py", "target": "cpu", "graph": True}, progress_callback=progress))
    assert told and all(told), told
    region = opened["regions"][0]
    assert region["id"] == "task" and region["bound_ms"] > 0 and opened["graph"]["nodes"] and opened["device"]["target"] == "cpu"
    kernel = (home.path / source(home, region["description"])).read_text()

    wrong = await client.call_tool("try_candidate", {"task": "task.py", "target": "cpu", "source": kernel.replace("v * v", "v * v * 1.01f")})
    assert answered(wrong)["outcome"] == "wrong" and "expected" in wrong.content[0].text
    right = answered(await client.call_tool("try_candidate", {"task": "task.py", "target": "cpu", "source": kernel, "quick": False}))
    assert right["ok"] and right["warm"] and right["speedup"] > 0 and right["verdict"]["kind"] and right["trial"] == "t2", right
    assert "samples_ms" not in right["evaluation"]["bench"]
    assert answered(await client.call_tool("read_trial", {"trial": "t2"})) == right
    python = answered(await client.call_tool("try_candidate", {"task": "task.py", "target": "cpu", "source": FUNCTION}))
    assert python["ok"] and python["form"] == "solution", python
    file = answered(await client.call_tool("try_candidate", {"task": "task.py", "target": "cpu", "file": "kernel.cpp", "region": "task"}))
    assert file["ok"] and file["program"] == right["program"]
    forgot = await client.call_tool("try_candidate", {"task": "task.py", "target": "cpu", "source": kernel.split("//@")[0]})
    assert forgot.is_error and forgot.structured_content["error"]["kind"] == "bad_source"


async def learns(client: Client) -> None:
    from mcp import MCPError

    resources = {r.name: str(r.uri) for r in (await client.list_resources()).resources}
    assert "pointwise" in resources and len((await client.list_resource_templates()).resource_templates) == 2
    text = (await client.read_resource(resources["pointwise"])).contents[0].text
    assert "pointwise" in text
    hits = answered(await client.call_tool("search_patterns", {"query": "softmax of a row", "limit": 3}))["hits"]
    assert len(hits) == 3
    shown = answered(await client.call_tool("show_pattern", {"id": hits[0]["id"]}))
    assert shown["pattern"]["id"] == hits[0]["id"] and shown["pattern"]["source"]
    with pytest.raises(MCPError):
        await client.read_resource("planish://pattern/none")
    with pytest.raises(MCPError):
        await client.call_tool("no_such_tool", {})


async def runs(client: Client, home: Home) -> None:
    told: list[str] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")

    arguments = {"task": "task.py", "target": "cpu", "budget": "10s", "evaluations": 3, "seed": 1, "baselines": "none", "out": "out"}
    run = answered(await client.call_tool("start_run", arguments))["run"]
    ended = answered(await client.call_tool("watch_run", {"run": run, "seconds": 280}, progress_callback=progress))
    assert ended["state"] == "finished" and ended["evaluated"] >= 3 and told, ended
    assert [r["id"] for r in ended["regions"]][:1] == ["r0"]
    elites = answered(await client.call_tool("list_archive", {"run": run}))["elites"]
    for elite in elites[:1]:
        shown = answered(await client.call_tool("read_verdict", {"run": run, "candidate": elite["program"]}))
        assert shown["program"] == elite["program"] and shown["source"] and shown["verdict"]
    shipped = answered(await client.call_tool("ship_winner", {"run": run, "form": "file", "out": "winner.py"}))
    assert shipped["outcome"] == ended["outcome"] and (home.path / "winner.py").exists()
    listed = answered(await client.call_tool("list_runs", {}))["runs"]
    assert listed[0]["run"] == run
    document = json.loads((await client.read_resource(f"planish://run/{run}")).contents[0].text)
    assert document["run"] == run and document["result"]["outcome"] == ended["outcome"]

    # A run that is to end sooner does, with what it has.
    long = answered(await client.call_tool("start_run", {"task": "task.py", "target": "cpu", "budget": "10m", "baselines": "none"}))["run"]
    while answered(await client.call_tool("watch_run", {"run": long, "seconds": 0.2}))["state"] == "starting":
        pass
    answered(await client.call_tool("cancel_run", {"run": long}))
    ended = answered(await client.call_tool("watch_run", {"run": long, "seconds": 280}))
    assert ended["state"] in ("interrupted", "finished"), ended
    failed = answered(await client.call_tool("start_run", {"task": "broken.py", "target": "cpu"}))["run"]
    ended = answered(await client.call_tool("watch_run", {"run": failed, "seconds": 120}))
    assert ended["state"] == "failed" and ended["error"]["kind"] == "no_model", ended


async def cancels(client: Client) -> None:
    call = asyncio.create_task(client.call_tool("open_task", {"task": "slow.py"}))
    while not processes_with("slow.py"):
        await asyncio.sleep(0.05)
        if any("planish.oracle" in line for line in processes_with("planish.oracle")):
            break
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not (await client.call_tool("open_task", {"task": "task.py", "target": "cpu"})).is_error


def test_a_whole_session(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the Python package mcp is not installed (make setup-mcp)")
    from mcp import Client, StdioServerParameters

    home = Home(tmp_path)
    home.task(SMALL)
    home.task("x = 1\n", "broken.py")
    home.task(SMALL.replace("import torch\n", "import time\nimport torch\ntime.sleep(600)\n", 1), "slow.py")

    async def session() -> None:
        async with Client(StdioServerParameters(command=str(BINARY), args=["mcp"], env=home.environment(), cwd=home.path)) as client:
            assert client.server_info is not None and client.server_info.name == "planish" and "open_task" in (client.instructions or "")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"open_task", "try_candidate", "search_patterns", "start_run", "watch_run", "cancel_run", "list_archive", "ship_winner"} <= set(tools)
            assert tools["open_task"].input_schema["required"] == ["task"]
            await tries(client, home)
            await learns(client)
            await runs(client, home)
            await cancels(client)

    asyncio.run(session())
    assert not processes_with(str(tmp_path))
