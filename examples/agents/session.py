"""One session of an agent with Planish, by the official Python client: python -m pip install mcp, then

    python examples/agents/session.py [--planish build/bin/planish]

It opens task.py, tries a kernel that is wrong and one that is right, lets the swarm search for a few seconds, reads the best kernel's
verdict, and ships the winner as one file. docs/agents.md shows what it prints.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

HERE = Path(os.path.relpath(Path(__file__).parent))
KERNEL = """#include <cmath>
extern "C" void whole(void** args) {
  const float* x = static_cast<const float*>(args[X]);
  const float* scale = static_cast<const float*>(args[SCALE]);
  float* y = static_cast<float*>(args[2]);
  for (int i = 0; i < 512 * 1024; ++i) {
    const float v = x[i];
    y[i] = v / (1 + std::exp(-(v * scale[i % 1024] + FACTOR * v * v)));
  }
}
//@ launch whole args=in0, in1, out0
"""


async def session(planish: str, out: str) -> None:
    server = StdioServerParameters(command=planish, args=["mcp"])
    async with Client(server) as client:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            async def progress(_: float, __: float | None, message: str | None) -> None:
                print(f"    … {message}")

            said = ", ".join(f"{k}={v!r}" for k, v in arguments.items() if k != "source")
            print(f">>> {tool}({said})")
            result = await client.call_tool(tool, arguments, progress_callback=progress)
            print(result.content[0].text)
            if result.is_error:
                raise SystemExit(1)
            document: dict[str, Any] = result.structured_content
            return document

        task = {"task": str(HERE / "task.py"), "target": "cpu"}
        opened = await call("open_task", **task)
        # Which of the two inputs is the parameter is the graph's business.
        first = opened["regions"][0]["description"].splitlines()[0]
        kernel = KERNEL.replace("X]", "1]" if "[1024]" in first else "0]").replace("SCALE]", "0]" if "[1024]" in first else "1]")
        await call("search_patterns", query="pointwise activation with a broadcast vector", limit=2)
        await call("try_candidate", **task, source=kernel.replace("FACTOR", "1.01f"))
        await call("try_candidate", **task, source=kernel.replace("FACTOR", "1.0f"), quick=False)
        run = (await call("start_run", **task, budget="15s", evaluations=12, baselines="none", out=out))["run"]
        await call("watch_run", run=run, seconds=600)
        best = (await call("list_archive", run=run))["elites"]
        if best:
            await call("read_verdict", run=run, candidate=min(best, key=lambda elite: elite["median_ms"])["program"])
        await call("ship_winner", run=run, form="file", out=f"{out}/winner.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planish", default="planish")
    parser.add_argument("--out", default="planish-session")
    options = parser.parse_args()
    asyncio.run(session(options.planish, options.out))


if __name__ == "__main__":
    main()
