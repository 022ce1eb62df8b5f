"""Models of diffusers, called as its pipelines call them, with every None that these pass; and pipelines that call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from entry import Entry, Subject, recorded
from torch import Tensor, nn

_BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
_UNET = {
    "sample_size": 16,
    "in_channels": 4,
    "out_channels": 4,
    "cross_attention_dim": 32,
    "attention_head_dim": 8,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    **_BLOCKS,
}
_XL = {
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 80,
    "transformer_layers_per_block": (1, 1),
    "use_linear_projection": True,
}


def _latents(channels: int = 4, size: int = 16, batch: int = 1) -> Tensor:
    return torch.randn(batch, channels, size, size)


def _text(width: int = 32, batch: int = 1) -> Tensor:
    return torch.randn(batch, 7, width)


def made(name: str, sizes: dict[str, Any], call: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]) -> Subject:
    import diffusers

    model: nn.Module = getattr(diffusers, name)(**sizes).eval()
    return Subject(model, call())


def _unet_call() -> Any:
    """As StableDiffusionPipeline calls it."""
    nones = {"timestep_cond": None, "cross_attention_kwargs": None, "added_cond_kwargs": None, "return_dict": False}
    return (_latents(batch=2), torch.tensor(7)), {"encoder_hidden_states": _text(batch=2), **nones}


def _xl_call() -> Any:
    added = {"text_embeds": torch.randn(2, 32), "time_ids": torch.rand(2, 6) * 64}
    nones = {"timestep_cond": None, "cross_attention_kwargs": None, "added_cond_kwargs": added, "return_dict": False}
    return (_latents(batch=2), torch.tensor(7)), {"encoder_hidden_states": _text(batch=2), **nones}


def _flux_call() -> Any:
    """As FluxPipeline calls it."""
    ids = torch.zeros(16, 3)
    ids[:, 1], ids[:, 2] = torch.arange(16) // 4, torch.arange(16) % 4
    call = {
        "hidden_states": torch.randn(1, 16, 4),
        "timestep": torch.tensor([0.5]),
        "guidance": None,
        "pooled_projections": torch.randn(1, 32),
        "encoder_hidden_states": _text(),
        "txt_ids": torch.zeros(7, 3),
        "img_ids": ids,
        "joint_attention_kwargs": None,
        "return_dict": False,
    }
    return (), call


_SD3 = {
    "sample_size": 8,
    "patch_size": 2,
    "in_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 8,
    "num_attention_heads": 4,
    "joint_attention_dim": 32,
    "caption_projection_dim": 32,
    "pooled_projection_dim": 64,
    "out_channels": 4,
    "pos_embed_max_size": 16,
}
_DIT = {"num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4, "num_layers": 2, "sample_size": 8, "patch_size": 2, "num_embeds_ada_norm": 100}
_CONTROL = {
    "in_channels": 4,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "cross_attention_dim": 32,
    "attention_head_dim": 8,
    "conditioning_embedding_out_channels": (16, 32),
    **_BLOCKS,
}
_FLUX = {
    "patch_size": 1,
    "in_channels": 4,
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 32,
    "pooled_projection_dim": 32,
    "axes_dims_rope": (4, 4, 8),
}
_VAE = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2, "latent_channels": 4, **_BLOCKS}
_WAN = {
    "num_attention_heads": 2,
    "attention_head_dim": 12,
    "in_channels": 4,
    "out_channels": 4,
    "text_dim": 32,
    "freq_dim": 32,
    "ffn_dim": 32,
    "num_layers": 2,
    "patch_size": (1, 2, 2),
}

MODELS: dict[str, tuple[str, dict[str, Any], Callable[[], Any]]] = {
    "UNet2DModel": (
        "UNet2DModel",
        {"sample_size": 16, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), **_BLOCKS},
        lambda: ((_latents(3), 7), {}),
    ),
    "UNet2DConditionModel": ("UNet2DConditionModel", _UNET, _unet_call),
    "UNet2DConditionModel (XL)": ("UNet2DConditionModel", _UNET | _XL, _xl_call),
    "ControlNetModel": (
        "ControlNetModel",
        _CONTROL,
        lambda: (
            (_latents(), torch.tensor(7)),
            {
                "encoder_hidden_states": _text(),
                "controlnet_cond": torch.rand(1, 3, 32, 32),
                "conditioning_scale": 1.0,
                "guess_mode": False,
                "return_dict": False,
            },
        ),
    ),
    "AutoencoderKL": ("AutoencoderKL", _VAE, lambda: ((_latents(3, 32),), {})),
    "AutoencoderTiny": (
        "AutoencoderTiny",
        {"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16), "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)},
        lambda: ((torch.rand(1, 3, 32, 32),), {}),
    ),
    "VQModel": (
        "VQModel",
        {
            "block_out_channels": (32, 64),
            "norm_num_groups": 8,
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "num_vq_embeddings": 32,
        },
        lambda: ((torch.rand(1, 3, 16, 16),), {}),
    ),
    "DiTTransformer2DModel": ("DiTTransformer2DModel", _DIT, lambda: ((_latents(4, 8),), {"timestep": torch.tensor([7]), "class_labels": torch.tensor([3])})),
    "PixArtTransformer2DModel": (
        "PixArtTransformer2DModel",
        _DIT | {"cross_attention_dim": 32, "caption_channels": 32, "out_channels": 8, "norm_type": "ada_norm_single"},
        lambda: (
            (_latents(4, 8),),
            {
                "encoder_hidden_states": _text(),
                "timestep": torch.tensor([7]),
                "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
                "return_dict": False,
            },
        ),
    ),
    "SD3Transformer2DModel": (
        "SD3Transformer2DModel",
        _SD3,
        lambda: (
            (),
            {
                "hidden_states": _latents(4, 8),
                "timestep": torch.tensor([7.0]),
                "encoder_hidden_states": _text(),
                "pooled_projections": torch.randn(1, 64),
                "joint_attention_kwargs": None,
                "return_dict": False,
            },
        ),
    ),
    "FluxTransformer2DModel": ("FluxTransformer2DModel", _FLUX, _flux_call),
    "WanTransformer3DModel": (
        "WanTransformer3DModel",
        _WAN,
        lambda: (
            (),
            {
                "hidden_states": torch.randn(1, 4, 2, 8, 8),
                "timestep": torch.tensor([7]),
                "encoder_hidden_states": _text(),
                "attention_kwargs": None,
                "return_dict": False,
            },
        ),
    ),
}


def _pipeline(kind: str) -> Subject:
    """A denoising step as the pipeline calls it; three steps make a picture."""
    import diffusers

    if kind == "DDPM":
        unet = diffusers.UNet2DModel(**MODELS["UNet2DModel"][1]).eval()
        pipe: Any = diffusers.DDIMPipeline(unet, diffusers.DDIMScheduler())
        options: dict[str, Any] = {"batch_size": 1}
    else:
        xl = kind == "StableDiffusionXL"
        unet = diffusers.UNet2DConditionModel(**(_UNET | _XL if xl else _UNET)).eval()
        vae = diffusers.AutoencoderKL(**_VAE).eval()
        parts = {"vae": vae, "text_encoder": None, "tokenizer": None, "unet": unet, "scheduler": diffusers.DDIMScheduler()}
        pipe = (
            diffusers.StableDiffusionXLPipeline(**parts, text_encoder_2=None, tokenizer_2=None)
            if xl
            else diffusers.StableDiffusionPipeline(**parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False)
        )
        options = {"prompt_embeds": _text(), "negative_prompt_embeds": _text(), "height": 32, "width": 32}
        if xl:
            options |= {"pooled_prompt_embeds": torch.randn(1, 32), "negative_pooled_prompt_embeds": torch.randn(1, 32)}
    pipe.set_progress_bar_config(disable=True)

    def use() -> Any:
        images = pipe(**options, num_inference_steps=3, generator=torch.Generator().manual_seed(3), output_type="np").images
        return torch.as_tensor(images)

    return recorded(unet, use, 1)


ENTRIES = [
    *(Entry(f"{name} forward", "diffusers", "forward", partial(made, *about), name == "UNet2DConditionModel") for name, about in MODELS.items()),
    *(Entry(f"{kind} pipeline step", "diffusers", "pipeline step", partial(_pipeline, kind)) for kind in ("DDPM", "StableDiffusion", "StableDiffusionXL")),
]
