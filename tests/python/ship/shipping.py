"""Makes shipped folders for the tests: any task as a program of aten steps alone, in the layout of docs/formats/ship.md."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import planish
import torch
from planish import rt
from planish.capture import capture, load_task
from planish.ship import guards

PACKAGE = Path(planish.__file__).parent


def aten_program(graph: dict[str, Any], target: str = "cpu") -> dict[str, Any]:
    """The graph as it stands, one aten step a node."""
    roles: dict[int, dict[str, Any]] = {}
    for item in graph["inputs"]:
        kind = item["kind"]
        source = {"kind": kind, **{k: item[k] for k in ("index", "name", "blob") if k in item and not (kind == "const" and k == "name")}}
        if kind == "user":
            source.pop("name", None)
        roles[item["value"]] = {"role": {"user": "input", "const": "const"}.get(kind, "param"), "source": source}
    outputs = {o["value"] for o in graph["outputs"] if "value" in o}
    buffers = []
    for value, about in enumerate(graph["values"]):
        role = roles.get(value) or {"role": "output" if value in outputs else "temp"}
        buffers.append({**role, "dtype": about["dtype"], "shape": about["shape"], "strides": about["strides"]})
    rename = {"value": "buffer", "values": "buffers"}
    steps = [
        {"kind": "aten", "op": node["op"], "args": [{rename.get(k, k): v for k, v in arg.items()} for arg in node["args"]], "outs": node["outs"]}
        for node in graph["nodes"]
    ]
    facts = ("versions", "differentiable", "read")  # of effects: they stand in ship.json
    results = [{("buffer" if k == "value" else k): v for k, v in out.items() if k not in facts} for out in graph["outputs"]]
    return {"schema": "planish.program/1", "target": target, "arch": "x86-64", "buffers": buffers, "kernels": [], "steps": steps, "outputs": results}


def write(folder: Path, task: Path, program: dict[str, Any] | None, graph: dict[str, Any], **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("executor.py", "ship/module.py", *(f"ship/{part}.py" for part in (*guards.PARTS, "guards"))):
        shutil.copy(PACKAGE / name, folder / Path(name).name)
    if task.is_file():
        shutil.copy(task, folder / "reference.py")
    else:
        (folder / "module.py").unlink()
    if program is not None:
        (folder / "program.json").write_text(json.dumps(program))
    effects = [{k: o[k] for k in ("kind", "target", "versions", "differentiable", "read") if k in o} for o in graph["outputs"] if "target" in o]
    manifest = {"schema": "planish.ship/1", "mode": "program" if program else "baseline", "effects": effects, "input_tree": graph["input_tree"],
                "output_tree": graph["output_tree"], "scalars": graph["scalars"], "default_dtype": "f32", "binaries": [], **more}  # fmt: skip
    (folder / "ship.json").write_text(json.dumps(manifest))
    return folder


def ship(folder: Path, source: str, **more: Any) -> Path:
    """A task's source text, captured and shipped as aten steps."""
    folder.mkdir(parents=True, exist_ok=True)
    task_path = folder / "task.py"
    task_path.write_text(source)
    task = load_task(task_path)
    blobs = folder / "shipped" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    args, kwargs = task.make_inputs(0, "cpu")
    graph = capture(task.model, args, kwargs, blobs, task_path).graph
    if not any(blobs.iterdir()):  # what ships has no empty folders
        blobs.rmdir()
    return write(folder / "shipped", task_path, aten_program(graph), graph, **more)


def with_kernels(folder: Path, source: str, program: dict[str, Any], binaries: list[str], extension: bool = True, **more: Any) -> Path:
    """A task's source text, shipped with a hand-written program of kernels, complete enough to be exported."""
    made = ship(folder, source)
    (made / "program.json").write_text(json.dumps(program))
    (made / "kernels").mkdir(exist_ok=True)
    library = rt.find_library()
    shutil.copy(library, made / "libplanish_rt.so")
    if extension:
        shutil.copy(library.parent / "planish_call.so", made)
    names = []
    for k, (binary, kernel) in enumerate(zip(binaries, program["kernels"], strict=True)):
        names.append(f"kernels/k{k}.so")
        shutil.copy(binary, made / names[-1])
        (made / "kernels" / f"k{k}.cpp").write_text(kernel["source"])
    manifest = json.loads((made / "ship.json").read_text()) | {"binaries": names, "task": {"name": "task"}, "planish": "test", "torch": torch.__version__}
    (made / "ship.json").write_text(json.dumps(manifest | more))
    return seal(made)


def seal(folder: Path) -> Path:
    """Writes the digests of all files into ship.json."""
    files = {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file() and p.name != "ship.json"}
    manifest = json.loads((folder / "ship.json").read_text())
    (folder / "ship.json").write_text(json.dumps({**manifest, "files": {k: v for k, v in files.items() if "__pycache__" not in k}}))
    return folder


def _direct_calls() -> int:
    """Calls that the C form answered, in every shipped folder and file of this process."""
    found = [m for n, m in list(sys.modules.items()) if n == "planish.ship.guards" or (n.startswith("planish_shipped_") and n.endswith("_guards"))]
    extensions = {id(s.extension): s.extension for m in found for s in m.shipped.values() if s.extension is not None}
    return sum(e.hits() for e in extensions.values())


@contextmanager
def runs() -> Iterator[list[str]]:
    """Counts the program runs of every shipped module inside the block, in whichever form; to be read after it."""
    seen: list[str] = []
    classes = {m.Executor for n, m in list(sys.modules.items()) if (n.startswith("planish_shipped_") or n == "planish.executor") and hasattr(m, "Executor")}
    originals = {cls: cls.run for cls in classes}
    for cls, original in originals.items():

        def counted(self: Any, tensors: Any, original: Any = original) -> Any:
            seen.append("run")
            return original(self, tensors)

        cls.run = counted
    before = _direct_calls()
    try:
        yield seen
    finally:
        seen += ["direct"] * (_direct_calls() - before)
        for cls, original in originals.items():
            cls.run = original


def program_ran(model: torch.nn.Module, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
    """Whether the call went through the program, and its result."""
    with runs() as seen:
        result = model(*args, **kwargs)
    return bool(seen), result
