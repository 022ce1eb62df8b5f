#!/usr/bin/env python3
"""What becomes of another collection's operators, each written down in PyTorch: one small shape of each, through `planish import` and `planish optimize`.

    python bench/compatibility/operators.py CHECKOUT [--only WORD ...] [--capture] [--budget 5] [--most 150] [--rows FILE] [--page FILE]

CHECKOUT is one of Atrex-Bench. The shape is the one whose inputs are the fewest bytes; on a CPU its largest size that the model's construction does not know is
halved until the inputs are `--megabytes`, and its inputs are made there. Of each operator: whether it is captured whole or stays as it is (opaque), whether the
proof passed, what was gained over eager, or which sentence refuses it. A row is added to FILE when it is finished; an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE / "models"), str(ROOT / "python")]

import torch  # noqa: E402
from machine import Others, commit, described  # noqa: E402
from operators_page import write  # noqa: E402
from page import latest, read_rows  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

RESULTS = ROOT / "docs/results/compatibility"
_OURS = ("internal", "bad_message", "missing_runtime", "no_device", "device_lost")  # no refusal of the operator
_SENTENCE = 400  # characters of a message that are kept


def input_bytes(source: str, arguments: dict[str, Any]) -> float:
    """Of the inputs that a shape has; infinite where they cannot be told without making them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    space: dict[str, Any] = {}
    exec(compile(source, "input.py", "exec"), space)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            made = space["_make_inputs"](**arguments)
    except Exception:  # whatever a function raises that asks fake tensors for values
        return float("inf")
    return float(sum(t.numel() * t.element_size() for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)))


def shrunk(source: str, shape: dict[str, Any], most: float) -> dict[str, Any]:
    """The shape with the largest sizes that only the inputs know halved, until these are `most` bytes."""
    known = set((shape["init_kwargs"] or {}).values()) if all(not isinstance(v, list) for v in (shape["init_kwargs"] or {}).values()) else set()
    shape = copy.deepcopy(shape)
    given = shape["input_kwargs"] or {}
    while input_bytes(source, given) > most:
        sizes = [n for n, v in given.items() if type(v) is int and v % 2 == 0 and v > 16 and v not in known]
        if not sizes:
            break
        largest = max(sizes, key=lambda n: int(given[n]))
        given[largest] //= 2
    return shape


def prepared(operator: Path, out: Path, target: str, most: float) -> dict[str, Any]:
    """A copy with one shape; that shape."""
    source = (operator / "input.py").read_text()
    if target == "cpu":
        source = source.replace("'cuda'", "'cpu'").replace('"cuda"', '"cpu"')
    shapes = json.loads((operator / "shapes.json").read_text())
    name = min(shapes, key=lambda n: input_bytes(source, shapes[n]["input_kwargs"] or {}))
    shape = shrunk(source, shapes[name], most) if target == "cpu" else shapes[name]
    out.mkdir(parents=True)
    shutil.copy(operator / "reference.py", out)
    (out / "input.py").write_text(source)
    (out / "shapes.json").write_text(json.dumps({name: shape}))
    return {"shape": name, "input_kwargs": shape["input_kwargs"], "as_given": shape == shapes[name]}


def planish(arguments: list[str], folder: Path, limit: float) -> dict[str, Any]:
    """The document that a verb writes."""
    environment = os.environ | {"XDG_DATA_HOME": str(folder / "data")}
    command = os.environ.get("PLANISH_BUILD", str(ROOT / "build")) + "/bin/planish"
    try:
        done = subprocess.run([command, *arguments, "--json"], cwd=folder, env=environment, capture_output=True, text=True, timeout=limit, check=False)
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": {"kind": "internal", "message": f"no answer after {limit:.0f} s"}}
    except json.JSONDecodeError:
        return {"error": {"kind": "internal", "message": f"code {done.returncode} and no document: {done.stderr[-_SENTENCE:]}"}}
    return found


def row_of(operator: Path, target: str, budget: float, most: float, megabytes: float) -> dict[str, Any]:
    start = time.monotonic()
    row: dict[str, Any] = {"name": operator.name, "library": "Atrex-Bench", "called": "operator"}
    with tempfile.TemporaryDirectory(prefix="planish-operators-") as temporary:
        folder = Path(temporary)
        row |= prepared(operator, folder / "from" / operator.name, target, megabytes * 2**20)
        made = planish(["import", "from", "--out", "in"], folder, 60)
        tasks = sorted((folder / "in" / "tasks").glob("*.py"))
        if "error" in made or len(tasks) != 1:
            return row | {"form": "internal", "said": str(made.get("error") or made["left_out"])}
        arguments = ["optimize", str(tasks[0]), "--target", target, "--budget", f"{budget or 1}s", "--max-time", f"{most}s", "--baselines", "eager"]
        found = planish([*arguments, "--dry-run"], folder, 2 * most + 60)
        row |= taken(found)
        if budget and "error" not in found:
            row |= searched(planish(arguments, folder, 2 * most + 60))
    return row | {"seconds": round(time.monotonic() - start, 1)}


def failed(found: dict[str, Any]) -> dict[str, Any]:
    error = found["error"]
    form = "internal" if error["kind"] in _OURS or not error.get("hint") else "refused"
    return {"form": form, "kind": error["kind"], "said": f"{error['message']} ({error.get('hint', '')})"[:_SENTENCE]}


def taken(found: dict[str, Any]) -> dict[str, Any]:
    """How the task is taken, from the document of `--dry-run`."""
    if "error" in found:
        return failed(found)
    return {"form": "opaque" if found["no_graph"] else "whole", "said": found["no_graph"][:_SENTENCE]}


def searched(found: dict[str, Any]) -> dict[str, Any]:
    if "error" in found:
        return failed(found)
    accuracy = found.get("accuracy") or {}
    row: dict[str, Any] = {"outcome": found["outcome"], "reason": str(found.get("reason") or "")[:_SENTENCE], "verified": accuracy.get("verified")}
    if found["outcome"] == "improved":
        row["gain"] = round(found["speedup"]["eager"], 3)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", action="append", default=[], help="operators whose name contains this; may be given several times")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--again", action="store_true", help="also operators that the file of rows has already")
    parser.add_argument("--capture", action="store_true", help="nothing is searched or timed: whether each is taken")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of each search")
    parser.add_argument("--most", type=float, default=150.0, help="seconds of an operator in all")
    parser.add_argument("--megabytes", type=float, default=16.0, help="inputs on a CPU")
    parser.add_argument("--rows", type=Path, help="file of rows, in JSON lines")
    parser.add_argument("--page", type=Path, help="the document whose table is made of the rows")
    options = parser.parse_args()
    rows = options.rows or RESULTS / f"{datetime.date.today()}-operators-{options.target}.jsonl"
    data = options.checkout / "data" if (options.checkout / "data").is_dir() else options.checkout
    operators = [one for one in sorted(data.iterdir()) if (one / "shapes.json").is_file() and (not options.only or any(w in one.name for w in options.only))]
    if not operators:
        parser.error(f"{data} has no folders with shapes.json, or none of that name")
    done = set() if options.again else {row["name"] for row in latest(read_rows(rows))}
    budget = 0.0 if options.capture else options.budget
    stamp = {"date": str(datetime.date.today()), "torch": torch.__version__, "budget_s": budget, "machine": described(), "commit": commit(),
             "target": options.target}  # fmt: skip
    rows.parent.mkdir(parents=True, exist_ok=True)
    for operator in operators:
        if operator.name in done:
            continue
        others = Others()
        row = row_of(operator, options.target, budget, options.most, options.megabytes) | {"others_cores": others.cores()}
        with rows.open("a") as file:
            file.write(json.dumps(row | stamp) + "\n")
        said = row.get("said") or row.get("reason", "")
        print(f"{row['form']:8} {operator.name} ({row.get('seconds', 0)} s) {row.get('outcome', '')} {row.get('gain', '')} {said}", flush=True)
    if options.page:
        write(options.page, latest(read_rows(rows)), rows.name)
    return 1 if any(row["form"] in ("internal", "wrong") for row in latest(read_rows(rows))) else 0


if __name__ == "__main__":
    sys.exit(main())
