"""CUDA-L1's public solutions of KernelBench's tasks through `planish suite --solutions`.

    python bench/kernelbench/cuda_l1.py CHECKOUT/optimized_cuda_code/h100.json --levels 1,2 --most 60 --devices 0,1 --minutes 12 --out OUT

A file of theirs is lines of JSON: `level_id`, `task_id`, `ref_code` (the task that was answered, at the sizes of its day) and
`custom_code`. OUT gets `tasks` and `solutions` in KernelBench's layout, `results` and `table.md`. --convert ends with the files; --most N
takes the first N of a drawn order (--seed). Options behind `--` go to `planish suite`.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suites import add_suite_options, run_suite, split_arguments, suite_arguments, write_page


def entries(path: Path) -> list[dict[str, Any]]:
    """Those with a solution, in their order. Exits where the file is something else."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            solution = entry["custom_code"]
            found.append({"level": int(entry["level_id"]), "problem": int(entry["task_id"]), "task": str(entry["ref_code"]), "solution": solution})
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            hint = "a line is an object with level_id, task_id, ref_code and custom_code"
            sys.exit(f"error: {path}, line {number}: {type(error).__name__}: {error}\nhint: {hint}")
    return [entry for entry in found if isinstance(entry["solution"], str) and entry["solution"].strip()]


def write(chosen: list[dict[str, Any]], out: Path) -> None:
    for folder in ("tasks", "solutions"):
        shutil.rmtree(out / folder, ignore_errors=True)
    (out / "solutions").mkdir(parents=True)
    for entry in chosen:
        level = out / "tasks" / f"level{entry['level']}"
        level.mkdir(parents=True, exist_ok=True)
        (level / f"{entry['problem']}_task.py").write_text(entry["task"])
        (out / "solutions" / f"level_{entry['level']}_problem_{entry['problem']}_sample_0_kernel.py").write_text(entry["solution"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--most", type=int, default=0, help="0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--baselines", default="none", help="as planish suite takes them; none: eager alone")
    parser.add_argument("--convert", action="store_true")
    add_suite_options(parser)
    own, more = split_arguments()
    options = parser.parse_args(own)
    levels = {int(level) for level in options.levels.split(",")}
    chosen = [entry for entry in entries(options.file) if entry["level"] in levels]
    random.Random(options.seed).shuffle(chosen)
    chosen = chosen[: options.most or len(chosen)]
    if not chosen:
        sys.exit(f"error: {options.file} has no solutions of levels {options.levels}")
    write(chosen, options.out)
    if options.convert:
        print(f"{len(chosen)} tasks and solutions in {options.out}")
        return
    arguments = ["--solutions", str(options.out / "solutions"), *suite_arguments(options), *more]
    document = run_suite(options.out / "tasks", options.out / "results", arguments, options.minutes)
    write_page(document, f"{len(chosen)} solutions of levels {options.levels} from {options.file.name}, seed {options.seed}.", options.out)


if __name__ == "__main__":
    main()
