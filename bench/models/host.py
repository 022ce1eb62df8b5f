"""What a call of an attached decode step costs its host: the checks of a Llama of tiny sizes with a static cache, as `generate` calls it, on the CPU.

    PLANISH_BUILD=build python3 bench/models/host.py [--layers 4,32]

The program answers with what it was told, so that a call is its checks in C, and what puts its result together. Microseconds, the fastest of blocks of
20 calls; `changes` is how this Python tells of changed dictionaries (docs/decisions/0323-dictionaries-that-did-not-change.md).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python" / "ship")]

from live_program import attached  # noqa: E402


def microseconds(layers: int, folder: Path) -> tuple[float, int, str]:
    """Of one call; with the comparisons that were found for it, and how changes are told."""
    import planish
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256}
    config = LlamaConfig(num_hidden_layers=layers, **sizes)
    model = LlamaForCausalLM(config).eval()
    cache = StaticCache(config=config, max_cache_len=64)
    more = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None, "disable_compile": True}
    with planish.record(model) as calls:
        model.generate(torch.randint(256, (1, 8)), past_key_values=cache, **more)
    args, kwargs = calls[-1]
    attached(model, folder, *args, **kwargs)
    model(*args, **kwargs)
    attachment: Any = model._planish
    bound = attachment._bound
    run: Any = bound.executor.run
    kept: list[Any] = []

    def answer(tensors: list[torch.Tensor]) -> Any:
        if not kept:
            kept.append(run(tensors))
        return kept[0]

    bound.executor.run = answer
    attachment.fast = bound.fast = attachment._direct(bound)
    best = float("inf")
    for _ in range(100):
        begin = time.perf_counter()
        for _ in range(20):
            model(*args, **kwargs)
        best = min(best, (time.perf_counter() - begin) / 20 * 1e6)
    assert not attachment.refused, attachment.refused
    return best, bound.reached.count(), getattr(attachment.shipped.extension, "changes", "none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="4,32")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    for layers in (int(text) for text in options.layers.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            best, count, changes = microseconds(layers, Path(folder))
        print(f"{layers} layers: {best:.1f} us, {count} comparisons found, changes told by {changes}")


if __name__ == "__main__":
    with torch.no_grad():
        main()
