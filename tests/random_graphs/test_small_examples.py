"""The tasks of examples/small: small enough that eager's kernels take less time than their launches, and each of them kernels of ours alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import capture, load_task
from torch.utils._python_dispatch import TorchDispatchMode

from .parts import ROOT, Tool

TASKS = sorted((ROOT / "examples" / "small").glob("*.py"))
MOST_KERNELS = 2
MOST_BYTES = 8 << 20


class Count(TorchDispatchMode):
    """Operators that make new values; what only looks at a tensor differently launches nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        views = function.is_view or function.name() in ("aten::_unsafe_view", "aten::detach", "aten::lift_fresh")
        self.kernels += isinstance(result, torch.Tensor | tuple) and not views
        return result


def test_there_are_enough_of_them() -> None:
    assert len(TASKS) >= 14


@pytest.mark.parametrize("path", TASKS, ids=[path.stem for path in TASKS])
def test_becomes_one_or_two_kernels(path: Path, tool: Tool) -> None:
    task = load_task(path)
    args, kwargs = task.make_inputs(0, "cpu")
    with torch.no_grad(), Count() as eager:
        result = task.model(*args, **kwargs)
    outputs = result if isinstance(result, tuple) else (result,)
    sizes = [t.numel() * t.element_size() for t in (*args, *outputs)]
    assert eager.kernels >= 3 and sum(sizes) > 1e5 and max(sizes) <= MOST_BYTES
    with tempfile.TemporaryDirectory() as blobs:
        graph = capture(task.model, args, kwargs, Path(blobs), path).graph
    for target in ("cuda", "cpu"):
        answer = tool.ask({"graph": graph, "target": target, "programs": 1, "seed": 3})
        assert "error" not in answer, answer["error"]
        steps = answer["programs"][0]["program"]["steps"]
        assert [s for s in steps if s["kind"] == "aten"] == [], json.dumps([s.get("op") for s in steps])
        assert len(answer["regions"]) <= MOST_KERNELS
