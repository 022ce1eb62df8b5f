"""Models quantised by the libraries that people use, through `planish.optimize` on the CPU: what is captured, whether it is right, what is gained,
and whether weights stay in codes.

    PYTHONPATH=python python3 bench/compatibility/quantised.py [--only mlp:torchao-int8] [--budget 6s] [--rows FILE]

Needs torchao, optimum-quanto, hqq, compressed-tensors, bitsandbytes and transformers; a case whose library is not there says so. Each case runs in a
process of its own. A row: the case, `said` (the error's kind and sentence) or the outcome with its gain, the largest difference beside eager's
result relative to the largest element, calls that the program answered of three, and elements that it reads beside its arguments by kind and type.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

Model = nn.Module


def _torchao(config: str, *, unwrapped: bool = False, **options: Any) -> Callable[[Model], Model]:
    def quantise(model: Model) -> Model:
        from torchao import quantization
        from torchao.utils import unwrap_tensor_subclass

        if options.pop("per_group", None):
            options["granularity"] = quantization.PerGroup(128)
        options_ = {k: getattr(torch, v) if k == "weight_dtype" else v for k, v in options.items()}
        quantization.quantize_(model, getattr(quantization, config)(**options_), filter_fn=_linear)
        return unwrap_tensor_subclass(model) if unwrapped else model  # type: ignore[no-any-return]

    return quantise


def _linear(module: nn.Module, name: str) -> bool:
    return isinstance(module, nn.Linear) and "lm_head" not in name and module.in_features % 128 == 0


def _quanto(weights: str, activations: str | None = None) -> Callable[[Model], Model]:
    def quantise(model: Model) -> Model:
        from optimum import quanto

        quanto.quantize(model, weights=getattr(quanto, weights), activations=activations and getattr(quanto, activations), exclude="*lm_head*")
        if activations:  # the scales of activations are those of a calibration
            with quanto.Calibration():
                model(*_CALL[0], **_CALL[1])
        quanto.freeze(model)
        return model

    return quantise


def _replaced(make: Callable[[nn.Linear], nn.Module]) -> Callable[[Model], Model]:
    def quantise(model: Model) -> Model:
        for parent in list(model.modules()):
            for name, layer in list(parent.named_children()):
                if _linear(layer, name):
                    setattr(parent, name, make(layer))
        return model

    return quantise


def _hqq(bits: int, axis: int = 1, backend: str = "PYTORCH_FORWARD") -> Callable[[Model], Model]:
    def make(layer: nn.Linear) -> nn.Module:
        from hqq.core.quantize import BaseQuantizeConfig, HQQBackend, HQQLinear

        made = HQQLinear(layer, BaseQuantizeConfig(nbits=bits, group_size=64, axis=axis), compute_dtype=layer.weight.dtype, device="cpu", del_orig=True)
        made.set_backend(getattr(HQQBackend, backend))
        return made  # type: ignore[no-any-return]

    return _replaced(make)


class Compressed(nn.Module):
    """A linear layer as compressed-tensors stores it, decompressed by its own compressor in each call (its models decompress themselves at the first)."""

    def __init__(self, layer: nn.Linear, scheme: str, form: str) -> None:
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import initialize_module_for_quantization, preset_name_to_scheme
        from compressed_tensors.quantization.utils import calculate_qparams

        super().__init__()
        self.scheme = preset_name_to_scheme(scheme, ["Linear"])
        self.scheme.input_activations = None
        self.scheme.format = form
        initialize_module_for_quantization(layer, self.scheme)
        args = self.scheme.weights
        w = layer.weight.detach()
        grouped = w.unflatten(1, (-1, args.group_size)) if args.group_size else w.unsqueeze(1) if args.strategy == "channel" else w.reshape(1, 1, -1)
        scale, zero = calculate_qparams(grouped.amin(-1), grouped.amax(-1), args)
        state = {"weight": w, "weight_scale": scale.to(w.dtype).reshape(layer.weight_scale.shape)}
        if zero is not None and hasattr(layer, "weight_zero_point"):
            state["weight_zero_point"] = zero.reshape(layer.weight_zero_point.shape)
        self.compressor = BaseCompressor.get_value_from_registry(form)
        for name, tensor in self.compressor.compress(state, self.scheme).items():
            self.register_buffer(name, tensor)
        self.bias, self.shape = layer.bias, w.shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
        from compressed_tensors.quantization.lifecycle.forward import dequantize

        codes, zero = getattr(self, "weight", None), getattr(self, "weight_zero_point", None)
        if codes is None:  # the compressor itself reads its shape from a tensor
            codes = unpack_from_int32(self.weight_packed, self.scheme.weights.num_bits, self.shape)
            if zero is not None:
                zero = unpack_from_int32(zero, self.scheme.weights.num_bits, self.weight_scale.shape, packed_dim=0)
        return nn.functional.linear(x, dequantize(codes, self.weight_scale, zero, self.scheme.weights).to(x.dtype), self.bias)


def _compressed(scheme: str, form: str) -> Callable[[Model], Model]:
    return _replaced(lambda layer: Compressed(layer, scheme, form))


def _compressed_tensors_itself(model: Model) -> Model:
    """As `from_pretrained` leaves it: a model with codes and the library's hook, which decompresses it at the first call."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme

    config = QuantizationConfig(config_groups={"group_0": preset_name_to_scheme("W4A16", ["Linear"])}, ignore=["lm_head"])
    apply_quantization_config(model, config)
    for module in model.modules():
        if hasattr(module, "weight_scale"):
            module.weight_scale.data.fill_(0.01)
    ModelCompressor(quantization_config=config).compress_model(model)
    return model


class BlockFp8(nn.Module):
    """DeepSeek's linear layer with blocks of 128 × 128, as FineGrainedFP8 stores it, in PyTorch's own operators: activations in float8 by groups of 128."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        n, k = layer.weight.shape
        blocks = layer.weight.detach().float().unflatten(0, (n // 128, 128)).unflatten(2, (k // 128, 128))
        scale = blocks.abs().amax((1, 3)) / 448
        self.weight = nn.Parameter((blocks / scale[:, None, :, None]).reshape(n, k).to(torch.float8_e4m3fn), requires_grad=False)
        self.weight_scale_inv = nn.Parameter(scale, requires_grad=False)
        self.bias = layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = x.float().unflatten(-1, (-1, 128))
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448
        y = ((groups / scale).to(torch.float8_e4m3fn).float() * scale).flatten(-2).to(x.dtype)
        rows = self.weight_scale_inv.repeat_interleave(128, 0).repeat_interleave(128, 1)
        return nn.functional.linear(y, (self.weight.float() * rows).to(x.dtype), self.bias)


def _fp8_of_transformers(layer: nn.Linear) -> nn.Module:
    from transformers.integrations.finegrained_fp8 import FP8Linear

    mine = BlockFp8(layer)
    made = FP8Linear(layer.in_features, layer.out_features, block_size=(128, 128), has_bias=layer.bias is not None)
    made.weight, made.weight_scale_inv = mine.weight, mine.weight_scale_inv
    if layer.bias is not None:
        made.bias = layer.bias
    return made  # type: ignore[no-any-return]


def _bitsandbytes(kind: str, **options: Any) -> Callable[[Model], Model]:
    def make(layer: nn.Linear) -> nn.Module:
        import bitsandbytes as bnb

        made = getattr(bnb.nn, kind)(layer.in_features, layer.out_features, bias=layer.bias is not None, **options)
        made.load_state_dict(layer.state_dict())
        return made.to("cpu")  # type: ignore[no-any-return]

    return _replaced(make)


FORMS: dict[str, Callable[[Model], Model]] = {
    "torchao-int8": _torchao("Int8WeightOnlyConfig"),
    "torchao-int8-unwrapped": _torchao("Int8WeightOnlyConfig", unwrapped=True),
    "torchao-int8-groups": _torchao("Int8WeightOnlyConfig", per_group=True),
    "torchao-int4": _torchao("Int4WeightOnlyConfig"),
    "torchao-int4-plain-int32": _torchao("Int4WeightOnlyConfig", int4_packing_format="plain_int32"),
    "torchao-int4-tile": _torchao("Int4WeightOnlyConfig", int4_packing_format="tile_packed_to_4d"),
    "torchao-int4-opaque": _torchao("Int4WeightOnlyConfig", int4_packing_format="opaque"),
    "torchao-int8-dynamic": _torchao("Int8DynamicActivationInt8WeightConfig"),
    "torchao-int8-dynamic-unwrapped": _torchao("Int8DynamicActivationInt8WeightConfig", unwrapped=True),
    "torchao-int8-dynamic-int4": _torchao("Int8DynamicActivationIntxWeightConfig", weight_dtype="int4"),
    "torchao-int8-dynamic-int4-unwrapped": _torchao("Int8DynamicActivationIntxWeightConfig", weight_dtype="int4", unwrapped=True),
    "torchao-float8": _torchao("Float8WeightOnlyConfig"),
    "torchao-float8-unwrapped": _torchao("Float8WeightOnlyConfig", unwrapped=True),
    "torchao-float8-dynamic": _torchao("Float8DynamicActivationFloat8WeightConfig"),
    "torchao-intx4": _torchao("IntxWeightOnlyConfig", weight_dtype="int4"),
    "torchao-intx4-unwrapped": _torchao("IntxWeightOnlyConfig", weight_dtype="int4", unwrapped=True),
    "quanto-qint8": _quanto("qint8"),
    "quanto-qint4": _quanto("qint4"),
    "quanto-qfloat8": _quanto("qfloat8"),
    "quanto-qint8-activations": _quanto("qint8", "qint8"),
    "hqq-8": _hqq(8),
    "hqq-4": _hqq(4),
    "hqq-4-axis0": _hqq(4, axis=0),
    "hqq-4-backprop": _hqq(4, backend="PYTORCH"),
    "compressed-pack-quantized-w4a16": _compressed("W4A16", "pack-quantized"),
    "compressed-pack-quantized-w4a16-asym": _compressed("W4A16_ASYM", "pack-quantized"),
    "compressed-int": _compressed("W8A16", "int-quantized"),
    "compressed-float": _compressed("FP8_DYNAMIC", "float-quantized"),
    "compressed-itself": _compressed_tensors_itself,
    "fp8-blocks": _replaced(BlockFp8),
    "fp8-transformers": _replaced(_fp8_of_transformers),
    "bitsandbytes-int8": _bitsandbytes("Linear8bitLt", has_fp16_weights=False),
    "bitsandbytes-nf4": _bitsandbytes("Linear4bit", quant_type="nf4", compute_dtype=torch.bfloat16),
    "bitsandbytes-fp4": _bitsandbytes("Linear4bit", quant_type="fp4", compute_dtype=torch.bfloat16),
}


def _linear_of_a_step() -> tuple[Model, Any]:
    return nn.Linear(4096, 1024, bias=False).bfloat16(), ((torch.randn(1, 4096).bfloat16(),), {})


def _mlp() -> tuple[Model, Any]:
    return nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 256)).bfloat16(), ((torch.randn(4, 256).bfloat16(),), {})


def _llama() -> tuple[Model, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=512,
                         attn_implementation="sdpa")  # fmt: skip
    return LlamaForCausalLM(config).bfloat16(), ((), {"input_ids": torch.randint(512, (1, 16)), "use_cache": False})


def _vit() -> tuple[Model, Any]:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, image_size=32, patch_size=8)
    return ViTModel(config).bfloat16(), ((torch.randn(2, 3, 32, 32).bfloat16(),), {})


MODELS: dict[str, Callable[[], tuple[Model, Any]]] = {"linear": _linear_of_a_step, "mlp": _mlp, "llama": _llama, "vit": _vit}
_CALL: Any = ((), {})


def _leaves(result: Any) -> list[torch.Tensor]:
    values = result if isinstance(result, tuple | list) else result.values() if hasattr(result, "values") and not isinstance(result, torch.Tensor) else [result]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _difference(ours: Any, theirs: Any) -> float:
    return max(
        ((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30)).item() for a, b in zip(_leaves(ours), _leaves(theirs), strict=True)
    )


def row_of(case: str, budget: str) -> dict[str, Any]:
    global _CALL
    import planish

    model_name, _, form = case.partition(":")
    torch.manual_seed(0)
    model, _CALL = MODELS[model_name]()
    args, kwargs = _CALL
    row: dict[str, Any] = {"case": case, "torch": torch.__version__}
    with torch.no_grad():
        try:
            model = FORMS[form](model.eval())
            expected = copy.deepcopy(model(*args, **kwargs))
        except Exception as error:
            return row | {"untried": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]}
        begin = time.monotonic()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                optimized = planish.optimize(model, (args, kwargs), budget=budget, baselines="none", progress=False, pieces=False)
            except planish.PlanishError as error:
                return row | {"kind": error.kind, "said": str(error), "seconds": round(time.monotonic() - begin, 1)}
            worst = max(_difference(model(*args, **kwargs), expected) for _ in range(3))
            row["warned"] = sorted({str(w.message)[:200] for w in said if "planish" in str(w.message)})
    row |= {"outcome": optimized.result["outcome"], "gain": optimized.speedups.get("eager"), "reason": optimized.reason, "difference": worst}
    row |= {"timed": optimized.timed, "seconds": round(time.monotonic() - begin, 1)}
    return row | {"answered": planish.status(model).ran, "inputs": inputs_of(optimized.folder)}


def inputs_of(folder: Path | None) -> dict[str, int]:
    """Elements of what the attached program reads beside its arguments, by kind and type: weights in codes are no constants of 16 bits."""
    if folder is None or not (folder / "program.json").exists():
        return {}
    found: dict[str, int] = {}
    for buffer in json.loads((folder / "program.json").read_text())["buffers"]:
        if buffer["role"] in ("param", "buffer", "const"):
            key = f"{buffer['role']} {buffer['dtype']}"
            found[key] = found.get(key, 0) + math.prod(buffer["shape"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases or models, with commas between them")
    parser.add_argument("--budget", default="6s")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--here", action="store_true", help="one case, in this process")
    options = parser.parse_args()
    cases = [f"{model}:{form}" for model in MODELS for form in FORMS]
    if options.only:
        asked = options.only.split(",")
        cases = [case for case in cases if any(case == one or case.startswith(f"{one}:") or case.endswith(f":{one}") for one in asked)]
    for case in cases:
        if options.here:
            print(json.dumps(row_of(case, options.budget)))
            continue
        ran = subprocess.run([sys.executable, __file__, "--here", "--only", case, "--budget", options.budget], capture_output=True, text=True, check=False)
        lines = ran.stdout.strip().splitlines()
        found = lines[-1] if lines and lines[-1].startswith("{") else json.dumps({"case": case, "died": ran.stderr.strip()[-400:]})
        print(found, flush=True)
        if options.rows:
            with options.rows.open("a") as file:
                file.write(found + "\n")


if __name__ == "__main__":
    main()
