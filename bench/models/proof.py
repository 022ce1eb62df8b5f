"""What the oracle says of a program of first guesses: its gate, on data of every kind that the task takes, in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from first_guess import executor_of, program_of


def proof_of(name: str, module: torch.nn.Module, call: Any, folder: Path, look: Callable[[str, Any, Any], None] | None = None) -> dict[str, Any]:
    """By kind of data: whether it is within the gate, its largest statistic over its limit, and which that is. `look` gets the kind, the region
    and its data set after each check."""
    from planish.capture.live import write_live
    from planish.oracle.region import WHOLE
    from planish.oracle.service import Service

    (folder / "proof").mkdir()
    write_live(folder / "task", name, module, *call)
    service = Service()
    service.hello({"device": "cuda"})
    service.open({"task": str(folder / "task"), "blobs": str(folder / "proof")})
    task, region = service.task, service.regions[WHOLE]
    assert task is not None
    own = task.loaded.rebuild().to(task.device)
    program, cubins, blobs = program_of(Path(__file__), own, task.loaded.make_inputs(0, task.device), folder)
    state = dict(own.named_parameters(remove_duplicate=False)) | dict(own.named_buffers(remove_duplicate=False))
    data = region.create(90001, "task")
    held = {item["value"]: slot.view for item, slot in zip(task.graph["inputs"], data.inputs, strict=True)}
    users = {item["index"]: held[item["value"]] for item in task.graph["inputs"] if item["kind"] == "user"}
    executor, given = executor_of(program, cubins, blobs, own, tuple(users.get(i) for i in range(max(users, default=-1) + 1)))
    found: dict[str, Any] = {}
    kinds, found["skipped"] = region.regimes()
    for kind in kinds:
        region.fill(data, 90002, kind)
        with torch.no_grad():
            for item in task.graph["inputs"]:
                if item["kind"] in ("param", "buffer"):
                    state[item["name"]].copy_(held[item["value"]])
        results = [leaf for leaf in executor.run(given) if isinstance(leaf, torch.Tensor)]
        for slot, result in zip(data.outputs, results, strict=True):
            slot.view.copy_(result)
        said = region.check(data, "full")
        worst = max(said["outputs"], key=lambda row: row["ratio"], default={})
        found[kind] = [said["ok"], round(worst.get("ratio", 0.0), 3), worst.get("statistic", ""), said["message"]]
        if look is not None:
            look(kind, region, data)
    data.free()
    return found
