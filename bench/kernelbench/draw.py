"""Tasks of a KernelBench checkout, drawn by a seed, through `planish suite`.

    python bench/kernelbench/draw.py CHECKOUT --tasks 20 --seed 1 --levels 1,2 --devices 0,1 --budget 10s --minutes 12 --out OUT

The same seed draws the same tasks of the same checkout, equally many of each level; 0 tasks take all, and --part 2/3 the second of
three parts of what was drawn, each of all levels. What was reached when --minutes are over counts (more minutes and --resume go on).
--precision has the tasks in 16 bits, cast as KernelBench's own switch casts them: the module, and every floating tensor that it is given
or made of. OUT gets `tasks`, `results` (as `planish suite` leaves them) and `table.md`. Options behind `--` go to `planish suite`.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suites import add_suite_options, run_suite, split_arguments, suite_arguments, write_page


def folder_of_levels(checkout: Path) -> Path:
    for folder in (checkout / "KernelBench", checkout):
        if any(folder.glob("level*/*.py")):
            return folder
    sys.exit(f"error: {checkout} has no folder level1, level2, … with tasks\nhint: name a checkout of KernelBench")


def drawn(checkout: Path, levels: list[int], count: int, seed: int) -> list[Path]:
    """By number within each level, as the checkout orders them."""
    found: list[Path] = []
    for place, level in enumerate(levels):
        tasks = sorted((folder_of_levels(checkout) / f"level{level}").glob("*.py"), key=lambda path: int((re.match(r"\d+", path.name) or ["0"])[0]))
        if not tasks:
            sys.exit(f"error: {checkout} has no tasks of level {level}")
        share = count // len(levels) + (1 if place < count % len(levels) else 0)
        picked = random.Random(f"{seed}:{level}").sample(tasks, min(share, len(tasks))) if count > 0 else tasks
        found += [task for task in tasks if task in picked]
    return found


CAST = """

def _cast_for_this_precision() -> None:
    import functools
    import torch

    dtype = torch.{dtype}
    make, given, init = get_inputs, globals().get("get_init_inputs", list), Model.__init__

    def cast(value):
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    @functools.wraps(init)
    def __init__(self, *args, **named):
        init(self, *args, **named)
        self.to(dtype)

    Model.__init__ = __init__
    globals()["get_inputs"] = lambda: [cast(value) for value in make()]
    globals()["get_init_inputs"] = lambda: [cast(value) for value in given()]


_cast_for_this_precision()
"""
DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def part_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"there is no part {text}; 1/3 is the first of three")
    return int(found[1]), int(found[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--levels", default="1,2")
    parser.add_argument("--part", default="1/1", type=part_of)
    parser.add_argument("--budget", default="10s")
    parser.add_argument("--baselines", default="eager,compile")
    parser.add_argument("--precision", choices=["fp32", *DTYPES], default="fp32")
    parser.add_argument("--resume", action="store_true")
    add_suite_options(parser)
    own, more = split_arguments()
    options = parser.parse_args(own)
    levels = [int(level) for level in options.levels.split(",")]
    part, parts = options.part
    picked = drawn(options.checkout, levels, options.tasks, options.seed)[part - 1 :: parts]
    tasks = options.out / "tasks"
    shutil.rmtree(tasks, ignore_errors=True)
    for task in picked:
        (tasks / task.parent.name).mkdir(parents=True, exist_ok=True)
        text = task.read_text() + (CAST.replace("{dtype}", DTYPES[options.precision]) if options.precision != "fp32" else "")
        (tasks / task.parent.name / task.name).write_text(text)
    arguments = ["--budget", options.budget, "--store", str(options.out / "store.db"), *suite_arguments(options)]
    arguments += [*(["--resume"] if options.resume else []), *more]
    document = run_suite(tasks, options.out / "results", arguments, options.minutes)
    how = f"{options.precision}, budget {options.budget}, baselines {options.baselines}"
    how += f", devices {options.devices or 'all'}, {options.workers} evaluators a device"
    write_page(document, f"{len(picked)} tasks of levels {options.levels}, seed {options.seed}, part {part} of {parts}; {how}.", options.out)


if __name__ == "__main__":
    main()
