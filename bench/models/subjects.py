"""Models at the sizes that people run, made from configurations with random weights, and the calls that their libraries make of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "skinny"))

STEPS = 256

Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """`call`: arguments of one call. `streamed`: bytes that a call must read where it is bound by them (a decode step), else 0. `rewind`: what is
    called after every `STEPS` calls at the latest, where calls fill a cache."""

    module: nn.Module
    call: Call
    streamed: int = 0
    rewind: Callable[[], None] | None = None


def _on(device: str, dtype: torch.dtype, make: Callable[[], nn.Module]) -> nn.Module:
    """The module, made on the device in this type. Buffers that its code wants in fp32 (rotary frequencies) are made by itself."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return make().eval()
    finally:
        torch.set_default_dtype(before)


def _llama(layers: int, **other: Any) -> Any:
    from transformers import LlamaConfig

    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rope_theta": 5e5}
    return LlamaConfig(**sizes | {"num_hidden_layers": layers, "max_position_embeddings": 8192, "attn_implementation": "sdpa"} | other)


def _causal(name: str, config: Any, device: str) -> nn.Module:
    import transformers

    return _on(device, torch.bfloat16, lambda: getattr(transformers, name)(config))


def _quantised(model: nn.Module, form: str, device: str) -> nn.Module:
    """Every linear layer but the head in codes, as `bench/skinny/quantised.py` has them: what a model quantised by its weights alone is."""
    from quantised import FORMS

    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Linear) and name != "lm_head":
                with torch.device(device):
                    setattr(module, name, FORMS[form](layer.out_features, layer.in_features, torch.bfloat16))
    return model


def _streamed(model: nn.Module) -> int:
    """All weights but the table of embeddings, of which a step reads one row."""
    table = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    head = {id(p) for p in model.lm_head.parameters()} if isinstance(getattr(model, "lm_head", None), nn.Module) else set()
    read = [*(p for p in model.parameters() if id(p) not in table - head), *model.buffers()]
    return sum(t.numel() * t.element_size() for t in read)


def decode_step(name: str, config: Any, device: str, places: int, batch: int = 1, form: str = "") -> Subject:
    """One token with a static cache of `places`, as `generate` calls the model, with weights in a form of `_quantised`. The cache holds random numbers
    but for `STEPS` places, which a benchmark's calls fill one by one."""
    from transformers import StaticCache

    model = _causal(name, config, device)
    model = _quantised(model, form, device) if form else model
    cache = StaticCache(config=config, max_cache_len=places)
    word = "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"  # before transformers 5.2x
    at = places - STEPS - 1
    model(input_ids=torch.randint(config.vocab_size, (batch, 4), device=device), use_cache=True, logits_to_keep=1, **{word: cache})
    for layer in cache.layers:
        layer.keys.normal_()
        layer.values.normal_()

    def rewind() -> None:
        for layer in cache.layers:
            if isinstance(getattr(layer, "cumulative_length", None), Tensor):
                layer.cumulative_length.fill_(at)

    rewind()
    call = {
        "input_ids": torch.randint(config.vocab_size, (batch, 1), device=device),
        word: cache,
        "position_ids": torch.full((batch, 1), at, device=device),
        "use_cache": True,
    }
    keys = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    return Subject(model, ((), call), _streamed(model) + keys, rewind)


def prefill(name: str, config: Any, device: str, length: int) -> Subject:
    model = _causal(name, config, device)
    return Subject(model, ((), {"input_ids": torch.randint(config.vocab_size, (1, length), device=device), "use_cache": False, "logits_to_keep": 1}))


def whisper(layers: int, device: str, batch: int) -> Subject:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=1280, encoder_layers=layers, encoder_attention_heads=20, encoder_ffn_dim=5120, num_mel_bins=128, attn_implementation="sdpa")
    model = _on(device, torch.bfloat16, lambda: WhisperEncoder(config))
    return Subject(model, ((torch.randn(batch, 128, 3000, device=device, dtype=torch.bfloat16),), {}))


def bert(layers: int, device: str, batch: int) -> Subject:
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=1024, num_hidden_layers=layers, num_attention_heads=16, intermediate_size=4096, attn_implementation="sdpa")
    model = _on(device, torch.bfloat16, lambda: BertModel(config))
    return Subject(model, ((), {"input_ids": torch.randint(30522, (batch, 512), device=device)}))


def vit(layers: int, device: str, batch: int) -> Subject:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=1024, num_hidden_layers=layers, num_attention_heads=16, intermediate_size=4096, attn_implementation="sdpa")
    model = _on(device, torch.bfloat16, lambda: ViTModel(config))
    return Subject(model, ((torch.randn(batch, 3, 224, 224, device=device, dtype=torch.bfloat16),), {}))


def resnet(device: str, batch: int) -> Subject:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = _on(device, torch.bfloat16, lambda: ResNetForImageClassification(ResNetConfig()))
    return Subject(model, ((torch.randn(batch, 3, 224, 224, device=device, dtype=torch.bfloat16),), {}))


def _diffusers(name: str, device: str, **sizes: Any) -> nn.Module:
    import diffusers

    return _on(device, torch.float16, lambda: getattr(diffusers, name)(**sizes))


def _half(device: str, *shape: int) -> Tensor:
    return torch.randn(*shape, device=device, dtype=torch.float16)


def sdxl(device: str, depth: tuple[int, int, int], size: int = 128) -> Subject:
    """stable-diffusion-xl-base-1.0's UNet (depth 1, 2, 10), one image with guidance, as its pipeline calls it."""
    model = _diffusers(
        "UNet2DConditionModel", device, sample_size=size, cross_attention_dim=2048, attention_head_dim=(5, 10, 20), block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        addition_embed_type="text_time", addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816, transformer_layers_per_block=depth,
        use_linear_projection=True,
    )  # fmt: skip
    added = {"text_embeds": _half(device, 2, 1280), "time_ids": torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024]] * 2, device=device, dtype=torch.float16)}
    named = {
        "encoder_hidden_states": _half(device, 2, 77, 2048),
        "timestep_cond": None,
        "cross_attention_kwargs": None,
        "added_cond_kwargs": added,
        "return_dict": False,
    }
    return Subject(model, ((_half(device, 2, 4, size, size), torch.tensor(501, device=device)), named))


def sd15(device: str) -> Subject:
    model = _diffusers("UNet2DConditionModel", device, sample_size=64, cross_attention_dim=768)
    return Subject(
        model, ((_half(device, 2, 4, 64, 64), torch.tensor(501, device=device)), {"encoder_hidden_states": _half(device, 2, 77, 768), "return_dict": False})
    )


class Decoder(nn.Module):
    """What the pipeline calls at its end: the VAE's `decode`."""

    def __init__(self, vae: nn.Module) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, latents: Tensor) -> Tensor:
        return self.vae.decode(latents, return_dict=False)[0]


def vae_decoder(device: str, size: int = 128) -> Subject:
    vae = _diffusers("AutoencoderKL", device, block_out_channels=(128, 256, 512, 512), layers_per_block=2, down_block_types=("DownEncoderBlock2D",) * 4,
                     up_block_types=("UpDecoderBlock2D",) * 4, latent_channels=4, sample_size=8 * size)  # fmt: skip
    return Subject(Decoder(vae).eval(), ((_half(device, 1, 4, size, size),), {}))


def dit(device: str, layers: int = 28) -> Subject:
    """DiT-XL/2 at 512 x 512."""
    model = _diffusers(
        "DiTTransformer2DModel", device, num_attention_heads=16, attention_head_dim=72, num_layers=layers, sample_size=64, norm_type="ada_norm_zero"
    )
    named = {"timestep": torch.tensor([501, 501], device=device), "class_labels": torch.tensor([207, 1000], device=device), "return_dict": False}
    return Subject(model, ((_half(device, 2, 4, 64, 64),), named))


def flux(device: str, layers: tuple[int, int] = (1, 2), size: int = 64, text: int = 512) -> Subject:
    """Flux's transformer with this many double and single blocks, 1024 x 1024, one image."""
    model = _diffusers("FluxTransformer2DModel", device, num_layers=layers[0], num_single_layers=layers[1], guidance_embeds=True).bfloat16()
    ids = torch.zeros(size * size, 3, device=device)
    ids[:, 1], ids[:, 2] = torch.arange(size * size, device=device) // size, torch.arange(size * size, device=device) % size

    def half(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, dtype=torch.bfloat16)

    call = {
        "hidden_states": half(1, size * size, 64), "timestep": half(1).abs(), "guidance": half(1).abs(), "pooled_projections": half(1, 768),
        "encoder_hidden_states": half(1, text, 4096), "txt_ids": torch.zeros(text, 3, device=device),
        "img_ids": ids, "joint_attention_kwargs": None, "return_dict": False,
    }  # fmt: skip
    return Subject(model, ((), call))


def _mixtral(layers: int) -> Any:
    from transformers import MixtralConfig

    return MixtralConfig(num_hidden_layers=layers, attn_implementation="sdpa", num_local_experts=8, experts_implementation="grouped_mm")


def _deepseek(layers: int) -> Any:
    from transformers import DeepseekV3Config

    return DeepseekV3Config(num_hidden_layers=layers, first_k_dense_replace=layers, attn_implementation="sdpa")


def _llama_in_codes(form: str, layers: int) -> Callable[[str], Subject]:
    return lambda device: decode_step("LlamaForCausalLM", _llama(layers), device, 2048, form=form)


SUBJECTS: dict[str, Callable[[str], Subject]] = {
    **{f"llama-8b-{form}-decode{end}": _llama_in_codes(form, layers) for form in ("int8", "e4m3", "int4") for end, layers in {"": 32, "-4": 4}.items()},
    "llama-8b-decode": lambda d: decode_step("LlamaForCausalLM", _llama(32), d, 2048),
    "llama-8b-decode-4": lambda d: decode_step("LlamaForCausalLM", _llama(4), d, 2048),
    "llama-8b-prefill-2": lambda d: prefill("LlamaForCausalLM", _llama(2), d, 2048),
    "llama-8b-prefill": lambda d: prefill("LlamaForCausalLM", _llama(32), d, 2048),
    "mixtral-decode-2": lambda d: decode_step("MixtralForCausalLM", _mixtral(2), d, 2048),
    "mixtral-prefill-2": lambda d: prefill("MixtralForCausalLM", _mixtral(2), d, 2048),
    "deepseek-decode-2": lambda d: decode_step("DeepseekV3ForCausalLM", _deepseek(2), d, 2048),
    "deepseek-prefill-2": lambda d: prefill("DeepseekV3ForCausalLM", _deepseek(2), d, 2048),
    "whisper-large-encoder-4": lambda d: whisper(4, d, 8),
    "whisper-large-encoder": lambda d: whisper(32, d, 1),
    "bert-large": lambda d: bert(24, d, 8),
    "vit-large": lambda d: vit(24, d, 32),
    "resnet-50": lambda d: resnet(d, 64),
    "sdxl-unet": lambda d: sdxl(d, (1, 2, 10)),
    "sdxl-unet-small": lambda d: sdxl(d, (1, 1, 2)),
    "sd15-unet": sd15,
    "vae-decoder": vae_decoder,
    "dit-xl": dit,
    "dit-xl-4": lambda d: dit(d, 4),
    "flux-blocks": flux,
}
