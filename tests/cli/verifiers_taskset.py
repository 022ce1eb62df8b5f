"""Grades one completion through the taskset for `verifiers`, without a model. Imported where that package is installed."""

from __future__ import annotations

import asyncio
from typing import Any

import verifiers.v1 as vf
from planish.environment.verifiers import KernelTaskset, KernelTasksetConfig


def graded(url: str, completion: str) -> dict[str, Any]:
    taskset = KernelTaskset(KernelTasksetConfig(url=url))
    tasks = {task.data.name: task for task in taskset}
    task = tasks["small"]
    assert "ModelNew" in task.data.prompt_text and "torch.relu(x) * 2 + y" in task.data.prompt_text

    class Replied(vf.Trace):
        @property
        def last_reply(self) -> str:
            return completion

    trace = Replied.model_construct(rewards={}, metrics={})
    asyncio.run(task.score(trace))
    assert trace.reward == task_reward(trace)
    return {"names": sorted(tasks), "correct": trace.metrics["correct"]}


def task_reward(trace: vf.Trace) -> float:
    reward = trace.rewards["grade"]
    assert reward is not None and reward.score >= 0.3
    return reward.value
