"""Runs what planish-emit-dump printed on a CPU (see cuda_emulator.h) and compares with torch.

    planish-emit-dump --small --random 3 > dump.json
    python tests/codegen/tools/emit_emulate.py dump.json [--family softmax] [--variants 4]

With PLANISH_EMULATE_SEED=N warps and blocks take turns at random, so that what should wait for others has to.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "gpu"))

from emit_references import DTYPES, compare, make_inputs, reference  # noqa: E402

MOST_THREADS = 100_000
MOST_AT_ONCE = 8192  # of blocks that wait for each other


def as_cpp(source: str, number: int) -> str:
    """One emitted kernel as a function `kernel_<number>` in its own namespace, shared variables made addressable."""
    body = source.split("// ---- kernel ----\n", 1)[1].replace("planish_kernel", f"kernel_{number}")
    body = re.sub(r"extern __shared__ __align__\(16\) unsigned char pl_smem\[\];", "unsigned char* pl_smem = emu::block->dynamic.data();", body)
    ids = iter(range(16))
    body = re.sub(
        r"__shared__ ([a-z ]+) (\w+)\[(\d+)\];",
        lambda m: f"{m[1]}* {m[2]} = ({m[1]}*)emu::shared({next(ids)}, 0);",
        body,
    )
    body = re.sub(r"__shared__ ([a-z ]+) (\w+);", lambda m: f"{m[1]}& {m[2]} = *({m[1]}*)emu::shared({next(ids)}, 0);", body)
    body = re.sub(r"(\bout\d+)\[(.*)\] = (.*);$", r"pl_put(\1 + (\2), \3);", body, flags=re.M)
    return f"namespace variant_{number} {{\n{body}\n}}\n"


def build(kernel: dict[str, Any], variants: list[dict[str, Any]], prelude: str, folder: Path) -> ctypes.CDLL:
    text = '#include "cuda_emulator.h"\n' + prelude
    count = len(kernel["inputs"]) + len(kernel["outputs"])
    launches = ""
    for number, variant in enumerate(variants):
        steps = ""
        first = {"input": 0, "output": len(kernel["inputs"]), "scratch": count}
        for step, launch in enumerate([variant, *variant.get("after", [])]):
            place = number * 10 + step
            body = as_cpp(launch["source"], place)
            text += body
            types = re.search(rf"kernel_{place}\((.*)\) {{", body)
            assert types
            names = [re.sub(r"(__restrict__ )?\w+$", "", one.strip()) for one in types[1].split(", ")]
            call = ", ".join(f"({one})p[{first[kind] + index}]" for one, (kind, index) in zip(names, launch["args"], strict=True))
            steps += (
                f"faults += emu_launch([=] {{ variant_{place}::kernel_{place}({call}); }}, "
                f"{launch['grid'][0]}, {launch['block'][0]}, {launch['cluster'][0]}, "
                f"{str(launch['cooperative']).lower()}, {launch['shared']}, p, bytes, {count + len(variant.get('scratch_bytes', []))}); "
            )
        launches += f'extern "C" int run_{number}(void** p, const size_t* bytes) {{ int faults = 0; {steps}return faults; }}\n'
    (folder / "k.cpp").write_text(text + launches)
    command = ["g++", "-std=c++20", "-O1", "-w", "-fPIC", "-shared", "-pthread", f"-I{HERE}", "k.cpp", "-o", "k.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:3000])
    return ctypes.CDLL(str(folder / "k.so"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    parser.add_argument("--family", default="")
    parser.add_argument("--variants", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    document = json.loads(Path(options.dump).read_text())
    failures = runs = 0
    for kernel in document["kernels"]:
        if options.family and kernel["family"] != options.family:
            continue
        everything = kernel.get("variants", [])
        usable = [v for v in everything if "source" in v and v["grid"][0] * v["block"][0] <= (MOST_AT_ONCE if v["cooperative"] else MOST_THREADS)]
        usable = [v for v in usable if v["seed"]][: options.variants // 2] + [v for v in usable if not v["seed"]]
        usable = usable[: options.variants]
        bad = [v["error"] for v in everything if "error" in v]
        label = f"{kernel['family']} {kernel['parameters']}"
        if bad or not everything:
            failures += 1
            print(f"FAIL {label}: {bad[:1] or 'no variants'}")
        if not usable:
            print(f"none {label}: every variant is too large to emulate")
            continue
        inputs = make_inputs(kernel, "cpu")
        exact, plain = reference(kernel, inputs, torch.float64), reference(kernel, inputs, torch.float32)
        with tempfile.TemporaryDirectory() as name:
            try:
                library = build(kernel, usable, document["cpp_prelude"], Path(name))
            except RuntimeError as error:
                failures += 1
                print(f"FAIL {label}: {error}")
                continue
            for number, variant in enumerate(usable):
                outputs = []
                for declared in kernel["outputs"]:
                    dtype = DTYPES[declared["dtype"]]
                    poison = float("nan") if dtype.is_floating_point else 77 if dtype != torch.bool else True
                    outputs.append(torch.full(declared["shape"], poison, dtype=dtype))
                tensors = inputs + outputs
                aligned = []  # 16-byte aligned copies with exact bounds
                for t in tensors:
                    raw = torch.empty(t.numel() * t.element_size() + 64, dtype=torch.uint8)
                    start = -raw.data_ptr() % 64
                    view = raw[start : start + t.numel() * t.element_size()].view(t.dtype).view(t.shape)
                    view.copy_(t)
                    aligned.append(view)
                # NaN everywhere: what no launch wrote must not be merged.
                scratch = [torch.full((max(size, 1),), 255, dtype=torch.uint8) for size in variant.get("scratch_bytes", [])]
                for index in variant.get("zeroed", []):
                    scratch[index].zero_()
                pointers = (ctypes.c_void_p * len(aligned + scratch))(*[t.data_ptr() for t in aligned + scratch])
                sizes = (ctypes.c_size_t * len(aligned + scratch))(*[t.numel() * t.element_size() for t in aligned + scratch])
                faults = getattr(library, f"run_{number}")(pointers, sizes)
                wrong = compare(kernel, aligned[len(inputs) :], exact, plain)
                runs += 1
                if faults or wrong:
                    failures += 1
                    print(f"FAIL {label} [{variant['genome']}]: {faults} bad addresses; {wrong}", flush=True)
    print(f"{runs} runs, {failures} failures")
    return 1 if failures or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
