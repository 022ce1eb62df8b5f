"""Tasks of an environment endpoint as a taskset of `verifiers` (its `verifiers.v1` interface, 0.4), for whoever has it installed.

    from planish.environment.verifiers import KernelTaskset, KernelTasksetConfig
    taskset = KernelTaskset(KernelTasksetConfig(url="http://127.0.0.1:8000"))

One turn a task: the prompt shows the reference, the reply's code is judged, and the grade's reward is the trace's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import verifiers.v1 as vf

from planish.environment.client import Environment

PROMPT = """Here is a PyTorch module.

```python
{source}
```

Write a faster module `ModelNew` that takes the same arguments and computes the same. Answer with one Python code block that holds everything it needs."""


class KernelTaskConfig(vf.TaskConfig):
    """Where completions are judged. The token comes from PLANISH_TOKEN alone: traces hold configurations."""

    url: str = "http://127.0.0.1:8000"
    timeout: float = 3600.0


class KernelData(vf.TaskData):
    task: str
    """The endpoint's name for it."""


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    @vf.reward
    async def grade(self, trace: vf.Trace) -> float:
        endpoint = Environment(self.config.url, timeout=self.config.timeout)
        found = await asyncio.to_thread(endpoint.grade, trace.last_reply, self.data.task)
        if found.reward is None:
            reason = found.error or {"kind": "unknown", "message": ""}
            raise vf.TaskError(f"{self.data.task} could not be judged: {reason['kind']}: {reason['message']}")
        trace.record_metrics({"format_ok": found.format_ok, "compiled": found.compiled, "correct": found.correct, "speedup": found.speedup or 0.0})
        return found.reward


class KernelTasksetConfig(vf.TasksetConfig):
    url: str = "http://127.0.0.1:8000"
    prompt: str = PROMPT
    """Shows the reference where it says {source}."""
    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterator[KernelTask]:
        endpoint = Environment(self.config.url)
        config = self.config.task.model_copy(update={"url": self.config.url})
        for name in endpoint.tasks():
            prompt = self.config.prompt.replace("{source}", endpoint.source(name).strip())
            yield KernelTask(KernelData(id=name, name=name, task=name, prompt=prompt), config)
