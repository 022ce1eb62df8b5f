"""`generate` of transformers with a decode step that `planish.optimize` was given, beside what `generate` does without, on a GPU:

    python3 bench/models/generate.py --layers 32 --budget 8s --max-time 300s [--new 128] --rows FILE

Llama-3.1-8B's sizes with so many layers, bf16, random weights, one prompt of 128 tokens, greedy, a static cache of 2,048 places. Milliseconds a new
token of the whole of `generate`, prompt left out (the difference of two lengths), in turn, the median of five: with the program, with the model that
transformers compiles by itself (`compiled`; its mode unless told otherwise), and as it is (`eager`). The tokens must be those of `eager` as far as
the logits of a random model, which lie close together, decide alike: how many of them agree is in the row. `step_ms`: calls of one step in a row, the
cache nearly full, beside eager's CUDA graph.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "bench"), str(ROOT / "python")]

from first_guess import host_us, read_rate, times_in_turn  # noqa: E402
from forms import forms_of, rewound  # noqa: E402
from subjects import STEPS, _causal, _llama  # noqa: E402


def one_step(model: Any, twin: Any, call: Any, cache: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Calls of one step in a row, with the program and as eager's CUDA graph: milliseconds, and the host's microseconds."""
    args, kwargs = call

    def rewind() -> None:
        for layer in cache.layers:
            layer.cumulative_length.fill_(options.places - STEPS - 1)

    calls = {"planish": rewound(lambda: model(*args, **kwargs), rewind, STEPS // 8)}
    if options.device == "cpu":
        calls["planish"]()
        return {}
    graph, without = forms_of(twin, args, kwargs, ["graph"])
    calls |= {form: rewound(run, rewind, STEPS // 8) for form, run in graph.items()}
    return {"step_ms": times_in_turn(calls), "step_host_us": host_us(calls["planish"]), "step_without": without, "read_rate": read_rate()}


def main() -> None:
    import planish
    from transformers import StaticCache

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--places", type=int, default=2048)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--budget", default="8s")
    parser.add_argument("--max-time", default="300s")
    parser.add_argument("--forms", default="planish,compiled,eager")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a model of tiny sizes, to try this script")
    parser.add_argument("--rows", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    small = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256} if options.small else {}
    config = _llama(options.layers, **small)
    model = _causal("LlamaForCausalLM", config, options.device)
    prompt = torch.randint(config.vocab_size, (1, options.prompt), device=options.device)
    cache = StaticCache(config=config, max_cache_len=options.places)

    twin = copy.copy(model)  # the same weights, and no program

    def generate(of: Any, new: int, compiled: bool) -> torch.Tensor:
        cache.reset()
        more = {"max_new_tokens": new, "do_sample": False, "eos_token_id": None, "disable_compile": not compiled}
        found: torch.Tensor = of.generate(prompt, past_key_values=cache, **more)
        return found

    row: dict[str, Any] = {"model": "llama-8b", "layers": options.layers, "torch": torch.__version__, "new": options.new, "places": options.places}
    wanted = generate(twin, options.new, compiled=False)
    forms = options.forms.split(",")
    if "planish" in forms:
        with planish.record(model) as calls:
            generate(model, 4, compiled=False)
        call = calls[-1]
        del calls
        begin = time.monotonic()
        found = planish.optimize(model, call, budget=options.budget, max_time=options.max_time, baselines="none", progress=True)
        row |= {"optimize_s": round(time.monotonic() - begin, 1), "outcome": found.result["outcome"], "reason": found.reason, "speedups": found.speedups}
        if found.improved:
            row |= one_step(model, twin, call, cache, options)
        else:
            forms.remove("planish")
        del call

    def timed(form: str, new: int) -> tuple[float, torch.Tensor]:
        if options.device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        tokens = generate(model if form == "planish" else twin, new, compiled=form != "eager")
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin, tokens

    seen: dict[str, list[float]] = {form: [] for form in forms}
    for form in forms:
        begin = time.monotonic()
        row[f"{form}_agrees"] = int((timed(form, options.new)[1] == wanted).sum()) - options.prompt
        row[f"{form}_first_s"] = round(time.monotonic() - begin, 1)
    for _ in range(5):
        for form in forms:
            long, short = timed(form, options.new)[0], timed(form, 8)[0]
            seen[form].append((long - short) / (options.new - 8) * 1e3)
    row["ms_a_token"] = {form: round(statistics.median(times), 3) for form, times in seen.items()}
    if "planish" in forms:
        row["ran"] = str(planish.status(model))
    if options.device == "cuda":
        row["device"] = torch.cuda.get_device_name()
    with options.rows.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row))


if __name__ == "__main__":
    with torch.no_grad():
        main()
