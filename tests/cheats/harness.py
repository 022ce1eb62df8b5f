"""Opens a case in an oracle of this process and judges outputs, as the evaluator would over the wire."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from planish.oracle.service import Service


class Harness:
    """One opened task with one data set, `d`."""

    def __init__(self, source: str, folder: Path | None = None, accuracy: Any = "eager", device: str = "cpu") -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="planish-case-"))
        path = self.folder / "task_under_test.py"
        path.write_text(source)
        self.service = Service()
        self.service.hello({"device": device})
        self.opened = self.service.open({"task": str(path), "accuracy": accuracy, "blobs": str(self.folder)})
        self.graph = self.opened["graph"]
        self.region = self.service.regions["task"]

    def make(self, seed: int, regime: str = "task", region: str = "task") -> dict[str, Any]:
        """New contents for `d`; the result of make or refresh."""
        params = {"region": region, "data": "d", "seed": seed, "regime": regime}
        if "d" in self.service.data and self.service.data["d"].region == region:
            return self.service.refresh(params)
        result = self.service.make(params)
        return result if isinstance(result, dict) else result.result

    @property
    def data(self) -> Any:
        return self.service.data["d"]

    def inputs(self) -> dict[str, torch.Tensor]:
        """The graph's inputs by name; copies, so that a candidate cannot write them by accident."""
        return {item["name"]: slot.view.clone() for item, slot in zip(self.graph["inputs"], self.data.inputs, strict=True)}

    def eager(self) -> list[torch.Tensor]:
        """What eager gives on the present data."""
        from planish.oracle.interpret import Mode

        region = self.service.regions[self.data.region]
        values = region.run.run(self.data.input_tensors(), [v for _, v in region.outputs], Mode())
        return [values[v].clone() for _, v in region.outputs]

    def judge(self, outputs: list[torch.Tensor], stage: str = "screen") -> dict[str, Any]:
        """Writes the outputs where a runner would and checks them."""
        for slot, output in zip(self.data.outputs, outputs, strict=True):
            slot.view.copy_(output.reshape(slot.view.shape))
        return self.service.check({"data": "d", "stage": stage})
