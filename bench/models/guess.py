"""Whole models as programs of first guesses, without a search, beside eager as a CUDA graph: where the time of each lies.

    python3 bench/models/guess.py --only sd15-unet,bert-large [--torch eager,graph] [--profile FOLDER] --rows FILE
    python3 bench/models/guess.py --only sd15-unet --cut FOLDER [--device cpu]

A row: milliseconds a call in turn, launches and PyTorch's steps, the largest error beside eager's result. `--profile` writes the time of each
launch of a call, with what it computes, and when each of two calls' launches began and ended. `--cut` writes the program and its kernels' sources,
and needs no GPU. `--prove` asks the oracle instead.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "python")]

from each import alone, options_with, run_each  # noqa: E402
from first_guess import cut_of, executor_of, host_us, profile, program_of, read_rate, times_in_turn  # noqa: E402
from forms import forms_of, rewound  # noqa: E402
from proof import proof_of  # noqa: E402
from subjects import STEPS, SUBJECTS  # noqa: E402


def guess(name: str, options: argparse.Namespace) -> dict[str, Any]:
    from planish.ship import holders
    from torch.utils import _pytree as pytree

    torch.manual_seed(0)
    begin = time.monotonic()
    subject = SUBJECTS[name](options.device)
    module, (args, kwargs) = subject.module, subject.call
    row: dict[str, Any] = {"model": name, "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as folder:
        if options.cut:
            program, _ = cut_of(HERE, module, subject.call, Path(folder), 132)
            options.cut.mkdir(parents=True, exist_ok=True)
            (options.cut / f"{name}.json").write_text(json.dumps(program))
            return row | counted(program) | {"seconds": round(time.monotonic() - begin, 1)}
        if options.prove:
            return row | {"proof": proof_of(name, module, subject.call, Path(folder))}
        program, cubins, blobs = program_of(HERE, module, subject.call, Path(folder))
        row |= counted(program) | {"made_s": round(time.monotonic() - begin, 1), "device": torch.cuda.get_device_name()}
        with holders.registered(subject.call):
            leaves = pytree.tree_leaves(subject.call)
        executor, given = executor_of(program, cubins, blobs, module, tuple(leaves))
        ours = [leaf.clone() for leaf in executor.run(given) if isinstance(leaf, torch.Tensor)]
        theirs = module(*args, **kwargs)
        with holders.registered(theirs):
            theirs = [leaf for leaf in pytree.tree_leaves(theirs) if isinstance(leaf, torch.Tensor)]
        row["differs"] = round(float((ours[0].double() - theirs[0].double()).norm() / theirs[0].double().norm()), 5)
        del ours, theirs
        forms, row["without"] = forms_of(module, args, kwargs, [form for form in options.torch.split(",") if form])
        forms = {name: rewound(call, subject.rewind, STEPS // 8) for name, call in ({"planish": lambda: executor.run(given)} | forms).items()}
        with alone(name, options):
            row["ms"] = {form: round(ms, 4) for form, ms in times_in_turn(forms).items()}
            row |= {"host_us": host_us(forms["planish"]), "submission": executor.submission()}
            if subject.streamed:
                row["floor_ms"] = round(subject.streamed / read_rate() * 1e3, 4)
            if options.profile:
                options.profile.mkdir(parents=True, exist_ok=True)
                with gzip.open(options.profile / f"{name}.program.json.gz", "wt") as file:
                    json.dump(program, file)
                profile(forms["planish"], options.profile / f"{name}.timeline.jsonl")
                (options.profile / f"{name}.json").write_text(json.dumps({form: seen(call) for form, call in forms.items()}))
    return row


def counted(program: dict[str, Any]) -> dict[str, Any]:
    kinds = collections.Counter(step["kind"] for step in program["steps"])
    aten = collections.Counter(step.get("op", "?") for step in program["steps"] if step["kind"] == "aten")
    return {"launches": kinds["launch"], "aten": dict(aten.most_common(12))}


def seen(call: Any) -> list[tuple[str, int, float]]:
    """Of one call: each kernel's name, how often it ran, and microseconds of all of these."""
    from torch.profiler import ProfilerActivity

    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    rows = [e for e in profile.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA]
    return sorted(((e.key, e.count, round(e.device_time_total, 1)) for e in rows), key=lambda row: -row[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--cut", type=Path)
    parser.add_argument("--prove", action="store_true", help="no times: what the oracle's gate says of the program on every kind of data")
    parser.add_argument("--rows", type=Path)
    run_each(options_with(parser), guess)


if __name__ == "__main__":
    main()
