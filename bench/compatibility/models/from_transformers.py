"""Models of transformers: small sizes, random parameters, calls as on the models' own pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from entry import Entry, Subject, recorded
from torch import Tensor, nn

PROMPT, NEW, VOCABULARY = 5, 9, 128

#: Most configurations know these words; the others have their own.
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_MAMBA = {"state_size": 8, "num_heads": 8, "head_dim": 16, "n_groups": 1}
_MOE = {"moe_intermediate_size": 64, "num_experts_per_tok": 2}
#: Decoder models: what the configuration is given beside SIZES, or in their place (`only`).
DECODERS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {"head_dim": 16},
    "Mistral": {},
    "Gemma": {"head_dim": 16},
    "Gemma2": {"head_dim": 16, "sliding_window": 8},
    "Gemma3Text": {"head_dim": 16, "sliding_window": 8},
    "Phi": {},
    "Phi3": {},
    "Olmo": {},
    "Olmo2": {},
    "Starcoder2": {},
    "StableLm": {},
    "Granite": {},
    "Cohere": {},
    "Cohere2": {"sliding_window": 8},
    "Glm": {"head_dim": 16},
    "GPTNeoX": {},
    "GPT2": {"only": _GPT},
    "GPTJ": {"only": _GPT | {"rotary_dim": 8}},
    "GPTBigCode": {"only": _GPT},
    "OPT": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "Bloom": {"n_layer": 2, "n_head": 4},
    "Falcon": {"new_decoder_architecture": False},
    "SmolLM3": {},
    "Nemotron": {},
    "Persimmon": {},
    "Mamba": {"state_size": 8},
    "Mamba2": _MAMBA | {"expand": 2, "chunk_size": 8},
    "Mixtral": {"num_local_experts": 4},
    "Qwen3Moe": {"num_experts": 4, "head_dim": 16, **_MOE},
    "Olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "GptOss": {"num_local_experts": 4, "head_dim": 16, "sliding_window": 8},
    "DeepseekV3": {
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 16,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 16,
        **_MOE,
        "num_key_value_heads": 4,
    },
}
#: transformers has no static cache for the states of these.
_OWN_STATE = frozenset({"Mamba", "Mamba2"})
QUICK = frozenset({"Llama", "Gemma2", "Bert", "T5"})


def configured(name: str, **more: Any) -> Any:
    import transformers

    only = more.pop("only", None)
    # Without a list here the classes that choose among several models for one configuration fail.
    return getattr(transformers, f"{name}Config")(**(only if only is not None else SIZES | more), architectures=[])


def tokens(length: int = PROMPT, batch: int = 1) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def as_tokenizer(length: int = 16, **more: Tensor) -> dict[str, Tensor]:
    """What a tokenizer returns, as `model(**inputs)` gets it."""
    return {"input_ids": tokens(length), "attention_mask": torch.ones(1, length, dtype=torch.long), **more}


def decoder(name: str) -> nn.Module:
    import transformers

    model: nn.Module = transformers.AutoModelForCausalLM.from_config(configured(name, **DECODERS[name]))
    return model.eval()


def decoder_forward(name: str) -> Subject:
    return Subject(decoder(name), ((), as_tokenizer()))


def decoder_generate(name: str) -> Subject:
    model: Any = decoder(name)
    prompt = tokens()
    options = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None, **({} if name in _OWN_STATE else {"cache_implementation": "static"})}
    return recorded(model, lambda: model.generate(prompt, **options), 2)


def made(name: str, auto: str, inputs: Callable[[], dict[str, Any]], **config: Any) -> Subject:
    """`transformers.<auto>` of a configuration."""
    import transformers

    cls = getattr(transformers, auto)
    found = configured(name, **config)
    model: nn.Module = (cls.from_config(found) if hasattr(cls, "from_config") else cls(found)).eval()
    return Subject(model, ((), inputs()))


def picture(size: int = 32, **more: Any) -> dict[str, Any]:
    return {"pixel_values": torch.rand(1, 3, size, size) * 2 - 1, **more}


def pair() -> dict[str, Any]:
    return as_tokenizer(decoder_input_ids=tokens(4))


def _only(**sizes: Any) -> dict[str, Any]:
    return {"only": sizes}


_IMAGE = {"image_size": 32, "patch_size": 8}
_T5 = _only(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4, vocab_size=VOCABULARY, decoder_start_token_id=0, pad_token_id=0)
_BART = _only(
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    vocab_size=VOCABULARY,
    max_position_embeddings=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=2,
)
_WHISPER = _only(
    **_BART["only"] | {"num_mel_bins": 20, "max_source_positions": 50, "max_target_positions": 64, "suppress_tokens": None, "begin_suppress_tokens": None}
)
_DEEP = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}
_AUDIO = {
    "conv_dim": (16, 16),
    "conv_kernel": (10, 8),
    "conv_stride": (5, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_TOWERS = {"text_config": {**SIZES, "projection_dim": 32}, "vision_config": {**SIZES, **_IMAGE, "projection_dim": 32}, "projection_dim": 32}

#: name: (class of transformers, inputs, what the configuration is given)
OTHERS: dict[str, tuple[str, Callable[[], dict[str, Any]], dict[str, Any]]] = {
    "Bert": ("AutoModelForSequenceClassification", lambda: as_tokenizer(token_type_ids=torch.zeros(1, 16, dtype=torch.long)), {}),
    "DistilBert": ("AutoModelForMaskedLM", as_tokenizer, _only(dim=64, hidden_dim=128, n_layers=2, n_heads=4, vocab_size=VOCABULARY)),
    "Roberta": ("AutoModelForTokenClassification", as_tokenizer, {}),
    "Albert": ("AutoModelForMaskedLM", as_tokenizer, {"embedding_size": 32}),
    "Electra": ("AutoModelForQuestionAnswering", as_tokenizer, {"embedding_size": 32}),
    "DebertaV2": ("AutoModelForSequenceClassification", as_tokenizer, {}),
    "MPNet": ("AutoModel", as_tokenizer, {}),
    "ModernBert": ("AutoModelForMaskedLM", as_tokenizer, {"local_attention": 8, "cls_token_id": 1, "sep_token_id": 2}),
    "XLMRoberta": ("AutoModelForMaskedLM", as_tokenizer, {}),
    "Funnel": ("AutoModel", as_tokenizer, _only(d_model=64, n_head=4, d_head=16, d_inner=128, block_sizes=[1, 1], vocab_size=VOCABULARY)),
    "T5": ("AutoModelForSeq2SeqLM", pair, _T5),
    "MT5": ("AutoModelForSeq2SeqLM", pair, _T5),
    "Bart": ("AutoModelForSeq2SeqLM", pair, _BART),
    "Marian": ("AutoModelForSeq2SeqLM", pair, _BART),
    "Pegasus": ("AutoModelForSeq2SeqLM", pair, _BART),
    "Whisper": ("WhisperForConditionalGeneration", lambda: {"input_features": torch.randn(1, 20, 100), "decoder_input_ids": tokens(4)}, _WHISPER),
    "ViT": ("AutoModelForImageClassification", picture, _IMAGE),
    "DeiT": ("AutoModelForImageClassification", picture, _IMAGE),
    "Beit": ("AutoModelForImageClassification", picture, _IMAGE),
    "Dinov2": ("AutoModel", picture, _IMAGE | {"mlp_ratio": 2}),
    "Swin": (
        "AutoModelForImageClassification",
        lambda: picture(64),
        _only(image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    ),
    "ConvNext": ("AutoModelForImageClassification", lambda: picture(64), _only(**_DEEP)),
    "ResNet": ("AutoModelForImageClassification", lambda: picture(64), _only(embedding_size=8, **_DEEP)),
    "Segformer": (
        "AutoModelForSemanticSegmentation",
        lambda: picture(64),
        _only(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32),
    ),
    "MobileViT": (
        "AutoModelForImageClassification",
        lambda: picture(64),
        _only(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 16, 16, 24, 24, 32, 64], num_attention_heads=4),
    ),
    "RegNet": (
        "AutoModelForImageClassification",
        lambda: picture(64),
        _only(embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], groups_width=8),
    ),
    "DPT": (
        "AutoModelForDepthEstimation",
        picture,
        _IMAGE
        | {
            "is_hybrid": False,
            "backbone_out_indices": [0, 1, 2, 3],
            "num_hidden_layers": 4,
            "neck_hidden_sizes": [8, 16, 16, 32],
            "fusion_hidden_size": 16,
            "reassemble_factors": [4, 2, 1, 0.5],
        },
    ),
    "CLIP": ("CLIPModel", lambda: {**as_tokenizer(), **picture()}, _only(**_TOWERS)),
    "Siglip": ("SiglipModel", lambda: {"input_ids": tokens(16), **picture()}, _only(**_TOWERS)),
    "SuperPoint": (
        "SuperPointForKeypointDetection",
        lambda: {"pixel_values": torch.rand(1, 3, 64, 64)},
        _only(encoder_hidden_sizes=[8, 8, 16, 16], decoder_hidden_size=32, descriptor_decoder_dim=32),
    ),
    "Wav2Vec2": ("AutoModelForCTC", lambda: {"input_values": torch.randn(1, 2000)}, _AUDIO),
    "Hubert": ("AutoModelForCTC", lambda: {"input_values": torch.randn(1, 2000)}, _AUDIO),
    "PatchTST": (
        "PatchTSTForPrediction",
        lambda: {"past_values": torch.randn(1, 64, 3)},
        _only(
            num_input_channels=3,
            context_length=64,
            patch_length=8,
            patch_stride=8,
            d_model=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
            prediction_length=8,
        ),
    ),
}
#: Encoder and decoder, called by `generate`.
TRANSLATORS = ("T5", "Bart", "Marian")


def translator_generate(name: str) -> Subject:
    auto, _, config = OTHERS[name]
    subject = made(name, auto, pair, **config)
    model: Any = subject.module
    source = as_tokenizer()
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "num_beams": 1, "cache_implementation": "static"}
    return recorded(model, lambda: model.generate(**source, **options), 2)


ENTRIES = [
    *(Entry(f"{name} forward", "transformers", "forward", partial(decoder_forward, name), name in QUICK) for name in DECODERS),
    *(Entry(f"{name} generate", "transformers", "generate", partial(decoder_generate, name), name in QUICK) for name in DECODERS),
    *(
        Entry(f"{name} forward", "transformers", "forward", partial(made, name, auto, inputs, **config), name in QUICK)
        for name, (auto, inputs, config) in OTHERS.items()
    ),
    *(Entry(f"{name} generate", "transformers", "generate", partial(translator_generate, name)) for name in TRANSLATORS),
]
