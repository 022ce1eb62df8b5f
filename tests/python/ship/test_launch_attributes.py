"""What exported sources ask the driver for beside a launch's sizes, with a driver that only listens."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

SOURCE = Path(__file__).resolve().parents[3] / "python" / "planish" / "ship" / "source" / "launch.py"


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported_launch", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stream = SimpleNamespace(cuda_stream=0)
    monkeypatch.setattr(torch.cuda, "device", lambda _device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    return module


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"cluster": (2, 1, 1)}, [(4, (2, 1, 1))]),
        ({"cooperative": True}, [(2, (1, 0, 0))]),
        ({"programmatic": True}, [(6, (1, 0, 0))]),
        ({"cluster": (2, 1, 1), "programmatic": True}, [(4, (2, 1, 1)), (6, (1, 0, 0))]),
        ({"cluster": (4, 2, 1), "cooperative": True}, [(4, (4, 2, 1)), (2, (1, 0, 0))]),
    ],
)
def test_attributes(launch: ModuleType, options: dict[str, Any], expected: list[tuple[int, tuple[int, ...]]]) -> None:
    asked: list[tuple[int, tuple[int, ...]]] = []

    def listen(function: str, *args: Any) -> None:
        assert function == "cuLaunchKernelEx"
        config = args[0]._obj
        assert (tuple(config.grid), tuple(config.block), config.shared) == ((8, 2, 1), (32, 1, 1), 7)
        asked.extend((config.attributes[i].id, tuple(config.attributes[i].value)) for i in range(config.count))

    launch._driver = listen  # type: ignore[attr-defined]
    kernel = launch.CudaKernel.__new__(launch.CudaKernel)
    kernel._function = lambda *_: None
    kernel(torch.zeros(4), grid=(8, 2, 1), block=(32, 1, 1), shared=7, **options)
    assert asked == expected
