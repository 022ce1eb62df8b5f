#!/usr/bin/env python3
"""Which decoder models of transformers give the same tokens from `generate` where their step is a program, and in how many of its calls it ran.

    PYTHONPATH=python python bench/compatibility/generate.py [NAME ...]

Small random models from configurations, a static cache. The program is the captured graph in PyTorch's own operators: what is tried is capture, guards and what
a call does to the cache, not kernels. One line a model; ends with 1 where tokens differ.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/python/ship")]
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import planish  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from live_program import attached  # noqa: E402

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
         "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
MODELS = {
    "Llama": {}, "Qwen2": {}, "Qwen3": {"head_dim": 16}, "Mistral": {"sliding_window": None}, "Gemma": {"head_dim": 16}, "Phi3": {}, "Phi": {}, "Olmo": {},
    "Olmo2": {}, "Starcoder2": {}, "StableLm": {}, "Granite": {}, "Cohere": {}, "GPTNeoX": {}, "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4},
    "Glm": {"head_dim": 16},    "Gemma2": {"head_dim": 16}, "Gemma3Text": {"head_dim": 16}, "Mixtral": {"num_local_experts": 4, "sliding_window": None},
    "Qwen3Moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "head_dim": 16},
}  # fmt: skip
PROMPT, NEW = 5, 9


def tried(name: str) -> tuple[bool, str]:
    """Whether the tokens are right, and a line about it."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **MODELS[name])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    prompt = torch.randint(3, 128, (1, PROMPT))
    options = {"max_new_tokens": NEW, "do_sample": False, "cache_implementation": "static", "eos_token_id": None}
    with planish.record(model) as calls:
        wanted = model.generate(prompt, **options)
    try:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            attached(model, Path(folder), *calls[2][0], **calls[2][1])
            same = torch.equal(model.generate(prompt, **options), wanted)
    except planish.PlanishError as error:
        return True, f"refused: {error.message.splitlines()[0][:160]}"
    status = planish.status(model)
    return same, f"{'the same tokens' if same else 'OTHER TOKENS'}, the program ran in {status.ran} of {status.calls} calls"


def main() -> int:
    warnings.simplefilter("ignore")
    right = True
    for name in sys.argv[1:] or MODELS:
        same, line = tried(name)
        right = right and same
        print(f"{name:<12} {line}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
