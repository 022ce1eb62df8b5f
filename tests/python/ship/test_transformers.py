"""Decoder models of transformers as its documentation calls them: one step with a cache, a prompt without one, and `generate`. Small random models."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from live_program import attached

transformers = pytest.importorskip("transformers", "5.24", reason="transformers is not installed")

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore:planish. ")]
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
         "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip


def model_of(name: str, **more: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **more)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def difference(ours: Any, theirs: Any) -> float:
    pairs = [(a, b) for x, y in zip(ours.layers, theirs.layers, strict=True) for a, b in ((x.keys, y.keys), (x.values, y.values))]
    assert all(a.shape == b.shape for a, b in pairs)
    return max(float((a - b).abs().max()) for a, b in pairs)


def test_a_step_with_a_static_cache(tmp_path: Path) -> None:
    model = model_of("Llama")
    cache, prompt = transformers.StaticCache(config=model.config, max_cache_len=16), torch.randint(3, 128, (1, 5))
    with torch.no_grad():
        model(prompt, cache=cache, use_cache=True)
        twin, other = copy.deepcopy((model, cache))
        graph = attached(model, tmp_path, input_ids=prompt[:, :1], cache=cache, use_cache=True)
        assert len([o for o in graph["outputs"] if o["kind"] == "user"]) == 1
        kept = cache.layers[0].keys
        for token in range(3, 7):
            ids = torch.tensor([[token]])
            ours, theirs = model(input_ids=ids, cache=cache, use_cache=True), twin(input_ids=ids, cache=other, use_cache=True)
            assert type(ours) is type(theirs) and ours.keys() == theirs.keys() and ours.cache is cache
            torch.testing.assert_close(ours.logits, theirs.logits)
            assert difference(cache, other) < 1e-5
    assert cache.layers[0].keys is kept and int(cache.layers[1].cumulative_length) == 9
    assert planish.status(model).ran == planish.status(model).calls == 4


def test_a_growing_cache_grows_in_the_callers_hands(tmp_path: Path) -> None:
    model = model_of("Qwen2")
    cache, prompt = transformers.DynamicCache(config=model.config), torch.randint(3, 128, (1, 5))
    with torch.no_grad():
        model(prompt, cache=cache, use_cache=True)
        twin, other = copy.deepcopy((model, cache))
        attached(model, tmp_path, input_ids=prompt[:, :1], cache=cache, use_cache=True)
        for length in (6, 7):  # the second is another call
            ours, theirs = model(input_ids=prompt[:, :1], cache=cache, use_cache=True), twin(input_ids=prompt[:, :1], cache=other, use_cache=True)
            torch.testing.assert_close(ours.logits, theirs.logits)
            assert ours.cache is cache and cache.get_seq_length() == other.get_seq_length() == length and difference(cache, other) < 1e-5
    assert planish.status(model).ran == 1


def test_a_prompt_makes_a_new_cache_which_goes_on(tmp_path: Path) -> None:
    model, prompt = model_of("Llama"), torch.randint(3, 128, (1, 5))
    twin = copy.deepcopy(model)
    with torch.no_grad():
        attached(model, tmp_path, prompt)
        ours, theirs = model(prompt), twin(prompt)
        assert type(ours.cache) is type(theirs.cache) and difference(ours.cache, theirs.cache) < 1e-5
        assert vars(ours.cache.layers[0]).keys() == vars(theirs.cache.layers[0]).keys()
        assert planish.status(model).ran == 1
        ours, theirs = (m(prompt[:, :1], cache=o.cache) for m, o in ((model, ours), (twin, theirs)))
    torch.testing.assert_close(ours.logits, theirs.logits)


@pytest.mark.parametrize(
    ("name", "more", "ran"),
    [("Llama", {}, 6), ("Qwen2", {}, 6), ("Mistral", {"sliding_window": None}, 6), ("Gemma", {"head_dim": 16}, 6), ("Qwen3", {"head_dim": 16}, 6),
     ("GPTNeoX", {}, 6), ("Gemma2", {"head_dim": 16}, 6)],
)  # fmt: skip
def test_generate_gives_the_same_tokens(tmp_path: Path, name: str, more: dict[str, Any], ran: int) -> None:
    """Layers with a sliding window count their length in a Python number; a program holds for the numbers for which the code does the same."""
    model = model_of(name, **more)
    prompt = torch.randint(3, 128, (1, 5))
    options = {"max_new_tokens": 7, "do_sample": False, "cache_implementation": "static", "eos_token_id": None}
    with planish.record(model) as calls:
        wanted = model.generate(prompt, **options)
    assert len(calls) == 7
    with torch.no_grad():
        attached(model, tmp_path, *calls[2][0], **calls[2][1])
    assert torch.equal(model.generate(prompt, **options), wanted)
    assert planish.status(model).ran == ran and planish.status(model).calls == 7


def test_generate_runs_the_program_where_it_would_compile_the_model(tmp_path: Path) -> None:
    """On a GPU it does for a static cache, unless it is told not to."""
    model, prompt = model_of("Llama"), torch.randint(3, 128, (1, 5))
    compiled: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    options = {"max_new_tokens": 7, "do_sample": False, "cache_implementation": "static", "eos_token_id": None}
    options["compile_config"] = transformers.CompileConfig(backend=backend, mode=None, fullgraph=False)
    options["compile_config"]._compile_all_devices = True
    with planish.record(model) as calls:
        wanted = model.generate(prompt, **options | {"disable_compile": True})
    with torch.no_grad():
        attached(model, tmp_path, *calls[2][0], **calls[2][1])
    assert torch.equal(model.generate(prompt, **options), wanted) and not compiled
    assert planish.status(model).ran == 6 and planish.status(model).calls == 7
    # Steps of other caches are the compiled model's.
    longer = torch.cat([prompt, prompt], 1)
    found = model.generate(longer, **options)
    assert compiled and torch.equal(found, planish.detach(copy.deepcopy(model)).generate(longer, **options | {"disable_compile": True}))


def test_a_tokenizers_batch_is_an_argument(tmp_path: Path) -> None:
    class Reads(torch.nn.Module):
        def forward(self, batch: Any) -> torch.Tensor:
            return batch["input_ids"] * batch["attention_mask"]

    module = Reads().eval()
    batch = transformers.BatchEncoding({"input_ids": torch.tensor([[3, 4]]), "attention_mask": torch.tensor([[1, 0]])})
    attached(module, tmp_path, batch)
    assert module(batch).tolist() == [[3, 0]] and planish.status(module).ran == 1


def test_hidden_states_that_hooks_record(tmp_path: Path) -> None:
    """The hooks are there from the first call that asks on; a caller that asks for none has them too, and gets its program."""
    model, prompt = model_of("Llama"), torch.randint(3, 128, (1, 5))
    with torch.no_grad():
        model(prompt, output_hidden_states=True, use_cache=False)
        twin = copy.deepcopy(model)
        attached(model, tmp_path / "asked", prompt, output_hidden_states=True, use_cache=False)
        ours, theirs = (m(prompt, output_hidden_states=True, use_cache=False) for m in (model, twin))
        assert len(ours.hidden_states) == len(theirs.hidden_states) == 3
        for a, b in zip(ours.hidden_states, theirs.hidden_states, strict=True):
            torch.testing.assert_close(a, b)
        attached(model, tmp_path / "plain", prompt, use_cache=False)
        torch.testing.assert_close(model(prompt, use_cache=False).logits, twin(prompt, use_cache=False).logits)
    assert planish.status(model).ran == planish.status(model).calls == 2
