"""What the sample kernels of tests/codegen/sample_kernels.h should compute, in plain torch, and inputs for them."""

from __future__ import annotations

import zlib
from typing import Any

import torch

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip


def make_inputs(kernel: dict[str, Any], device: str) -> list[torch.Tensor]:
    """Inputs as the document declares them, the same in every run."""
    generator = torch.Generator(device=device).manual_seed(zlib.crc32(kernel["family"].encode()))
    out = []
    for position, declared in enumerate(kernel["inputs"]):
        dtype = DTYPES[declared["dtype"]]
        shape = declared["shape"]
        if dtype == torch.bool:
            value = torch.rand(shape, generator=generator, device=device) > 0.5
            if kernel["family"] == "hidden_scores":  # whole vectors, and a few by chance
                value = torch.ones(shape, dtype=torch.bool, device=device).triu(1) | (value & (torch.rand(shape, generator=generator, device=device) > 0.9))
        elif dtype.is_floating_point:
            value = torch.randn(shape, generator=generator, device=device, dtype=dtype if dtype != torch.float64 else None)
            value = value.mul_(1.5).add_(0.25).to(dtype)
        else:
            low, high = -1000, 1000
            if "vocab" in kernel["parameters"] and position < 2:  # an index, sometimes out of range
                low, high = -1, kernel["parameters"]["vocab"] + 1
            value = torch.randint(low, high, shape, generator=generator, device=device, dtype=dtype)
            if kernel["family"] == "integers" and position == 1:
                value = torch.where(value == 0, torch.ones_like(value), value)
        if kernel["family"] in ("softmax", "logsumexp", "log_softmax", "both_logsumexp") and 5 <= shape[0] <= 64:
            value[1] = float("-inf")
            value[2, shape[1] // 2] = float("inf")
            value[3, -1] = float("nan")
            value[4] = torch.finfo(dtype).min
            if kernel["family"] == "both_logsumexp":
                value[:, 1] = float("-inf")
        if kernel["family"] in ("soft_cap", "activation") and value.numel() < 1 << 20:
            # All magnitudes: forms differ for small and large values. The first half of the rows stays small.
            wide = 10 ** (torch.rand(shape, generator=generator, device=device) * 7 - 5)
            half = shape[0] // 2
            value[half:] = (value * wide).to(dtype)[half:]
            if value.dim() == 1:
                value[:6] = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-40], device=device).to(dtype)
            else:
                value[half, 3] = float("inf")
                value[half + 1, 5] = float("nan")
        if kernel["family"] == "extremes" and dtype.is_floating_point and shape[0] <= 512:
            value[1, 3] = value[4, 1] = value[0, 2] = value[2, 0] = float("nan")
            value[3, 5] = float("inf")
            value[:, 4] = value[3, :] = float("-inf")
        if kernel["family"] == "scans" and value.numel() < 1 << 20:
            value[0, 40:60:3] = value[0, 39:40]  # ties
            value[1, 31] = float("nan")
            value[1, 50] = float("inf")
            value[0, 61] = float("-inf")
        out.append(value)
    return out


def picked(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    """index_select, with NaN for places out of range."""
    inside = (index >= 0) & (index < x.shape[dim])
    shape = [-1 if d == dim else 1 for d in range(x.dim())]
    return torch.where(inside.view(shape), x.index_select(dim, index.long().clamp(0, x.shape[dim] - 1)), torch.nan)


def running(kernel: dict[str, Any], x: list[torch.Tensor]) -> list[torch.Tensor]:
    """The families of scan_samples.h: running values over dim 1, of what is turned around where they begin at the end."""
    turned = bool(kernel["parameters"].get("reversed", 0))
    y = x[0].flip(1) if turned else x[0]
    match kernel["family"]:
        case "cumsum":
            sums = torch.cumsum(y * y, 1)
            out = [(sums if y.dtype == torch.int64 else sums * 0.5) + y]
        case "plain_cumsum":
            out = [torch.cumsum(y, 1)]
        case "scans":
            before = torch.cumsum(torch.nn.functional.pad(y.movedim(1, -1), (1, -1)).movedim(-1, 1), 1)
            high, low = torch.cummax(y, 1), torch.cummin(y, 1)
            out = [before, torch.cumprod(y * 0.01 + 1, 1), torch.logcumsumexp(y, 1), high.values, high.indices, low.values]
        case _:
            high = torch.cummax(y, 1)
            out = [torch.cumsum(y > 0, 1), high.values, high.indices, torch.cummin(y.long(), 1).values]
    return [t.flip(1) for t in out] if turned else out


def taps(kernel: dict[str, Any], x: torch.Tensor, fill: float) -> list[torch.Tensor]:
    """What each tap of the window sees, row by row. By slices: convolutions of a library may round, and not in every dtype."""
    p = kernel["parameters"]
    y = torch.nn.functional.pad(x, [p["padding"]] * 4, value=fill)
    reach = p["dilation"] * (p["taps"] - 1)
    ends = [n - reach for n in y.shape[-2:]]
    starts = [(p["dilation"] * (t // p["taps"]), p["dilation"] * (t % p["taps"])) for t in range(p["taps"] ** 2)]
    return [y[..., i : i + ends[0] : p["stride"], j : j + ends[1] : p["stride"]] for i, j in starts]


def stored(kernel: dict[str, Any], x: list[torch.Tensor]) -> list[torch.Tensor]:
    """The families of early_samples.h: elements, and what is folded of them over one of three dims or all."""
    over: Any = {1: 1, 2: 2, 3: (0, 1, 2)}[kernel["parameters"]["over"]]
    match kernel["family"]:
        case "stored_folds":
            y = torch.relu(x[0] + x[1])
            return [y, y.sum(over), y.amax(over)]
        case "stored_moments":
            y = x[0] + x[1]
            return [y.var(over, correction=0), y, y.mean(over)]
        case "stored_twice":
            y = x[0] * x[1]
            return [x[0] / (y.abs().sum(over, keepdim=True) + 1), y]
        case "stored_centred":
            y = x[0] - x[0].mean(over, keepdim=True)
            return [y, y.square().sum(over)]
        case "stored_position":
            y = x[0].abs()
            return [y, y.argmax(over) if isinstance(over, int) else y.argmax()]
        case _:
            z = x[1] + x[2]
            bell = torch.exp(-0.5 * z * z) * 0.3989422804014327
            y = x[0] * (0.5 * (1 + torch.erf(z * 0.7071067811865476)) + bell * z)
            return [y, y.sum(over)]


def reference(kernel: dict[str, Any], inputs: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """Every output, unrounded, computed in `dtype` (floating inputs are converted first)."""
    x = [t.to(dtype) if t.dtype.is_floating_point else t for t in inputs]
    p = kernel["parameters"]
    match kernel["family"]:
        case "order" | "softmax_order":
            # Stable: of equal elements the former comes first, as kernels have it, whether PyTorch says so or not.
            elements = torch.softmax(x[0], -1) if kernel["family"] == "softmax_order" else x[0]
            by = x[0].to(DTYPES[kernel["inputs"][0]["dtype"]])  # a softmax in fp64 and one in fp32 differ in their ties
            places = by.sort(dim=-1, descending=p["descending"] == 1, stable=True)[1][..., : p["ranks"]]
            return [elements.gather(-1, places), places]
        case "relu":
            return [torch.relu(x[0])]
        case "bias_gelu":
            return [torch.nn.functional.gelu(x[0] + x[1]) + x[2]]
        case "interleaved":
            pairs = torch.cat([x[0], x[1]]).unflatten(-1, (-1, 2))
            turned = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)
            return [pairs.flatten(-2) * x[2][:, None] + turned * x[3][:, None]]
        case "transpose_add":
            return [x[0].t() + x[1]]
        case "masked":
            y = torch.where(x[0], x[1], torch.full((), -1.0, dtype=dtype, device=x[1].device))
            return [y, y]
        case "flip_pad":
            return [torch.nn.functional.pad(x[0].flip(-1), (2, 3), value=7.0)]
        case "depthwise":
            sums = sum(one * weight[:, None, None] for one, weight in zip(taps(kernel, x[0], 0), x[1].unbind(1), strict=True))
            return [torch.nn.functional.silu(sums + x[2][:, None, None])]
        case "gradient":
            seen = taps(kernel, x[0], 0)
            a, b = (sum(one * weight for one, weight in zip(seen, kind.flatten(), strict=True)) for kind in x[1:])
            return [torch.sqrt(a * a + b * b + 1e-6)]
        case "max_window":
            return [torch.stack(taps(kernel, x[0], -1)).amax(0).relu()]
        case "smooth":
            around = [sum(taps(kernel, one, 0)) for one in (x[0], torch.ones_like(x[0]))]
            return [x[0] - around[0] / around[1]]
        case "integers":
            return [torch.remainder(x[0], x[1][:, None]), torch.div(x[0], x[1][:, None], rounding_mode="floor")]
        case "softmax":
            return [torch.softmax(x[0], -1)]
        case "scalar":
            return [x[0] + 1]
        case "causal_softmax":
            rows, cols = x[0].shape
            keep = torch.arange(cols, device=x[0].device)[None, :] <= torch.arange(rows, device=x[0].device)[:, None]
            return [torch.softmax(torch.where(keep, x[0], float("-inf")), -1)]
        case "logsumexp":
            return [torch.logsumexp(x[0], -1)]
        case "soft_cap":
            return [torch.logsumexp(p["cap"] * torch.tanh(x[0] / p["cap"]), -1)]
        case "activation":
            f = torch.nn.functional
            return [(f.silu, f.mish, f.softplus, torch.tanh, lambda v: f.gelu(v, approximate="tanh"))[p["kind"]](x[0])]
        case "log_softmax":
            return [torch.log_softmax(x[0], -1)]
        case "bias_causal_softmax":
            n = x[0].shape[-1]
            keep = torch.ones(n, n, dtype=torch.bool, device=x[0].device).tril()
            return [torch.softmax((x[0] + x[1]).masked_fill(~keep, float("-inf")), -1)]
        case "biased_scores":
            n = x[0].shape[-1]
            keep = torch.ones(n, n, dtype=torch.bool, device=x[0].device).tril()
            return [torch.softmax((x[0] * 0.125 + x[1]).masked_fill(~keep, float("-inf")), -1)]
        case "hidden_scores":
            n = x[0].shape[-1]
            past = torch.arange(n, device=x[0].device) >= x[2][:, None, None]
            return [torch.softmax((x[0] * 0.125).masked_fill(x[1] | past, -1e9), -1)]
        case "standardize_gain":
            return [(x[0] - x[0].mean(-1, keepdim=True)) / torch.sqrt(x[0].var(-1, keepdim=True) + 1e-5) * x[1]]
        case "standardize":
            return [(x[0] - x[0].mean(-1, keepdim=True)) / x[0].std(-1, keepdim=True)]
        case "layer_norm":
            return [torch.nn.functional.layer_norm(x[0], x[0].shape[-1:], x[1], x[2], 1e-5), x[0].mean(-1)]
        case "rms_norm":
            return [x[0] * torch.rsqrt(x[0].square().mean(-1, keepdim=True) + 1e-6) * x[1]]
        case "l2_norm":
            return [x[0] / x[0].norm(dim=-1, keepdim=True)]
        case "row_stats":
            return [x[0].double().sum(-1), x[0].amax(-1), (x[0] > 2.5).any(-1)]
        case "rms_channels":
            rms = torch.sqrt(x[0].square().mean(1) + 1e-5)
            return [x[0] / rms[:, None], rms]
        case "column_stats":
            return [x[0].exp().sum(1).sqrt(), x[0].amax(1)]
        case "softmax_columns":
            return [torch.softmax(x[0], 0)]
        case "logsumexp_columns":
            return [torch.logsumexp(x[0], 0)]
        case "extremes":
            over = 0 if p["columns"] else 1
            return [x[0].argmax(over), x[0].argmin(over), x[0].amax(over)]
        case "reductions":
            over = 0 if p["columns"] else 1
            i, y = x[0], x[1]
            near = y.abs() < 2.8
            folded = [(i > 18).any(over), near.all(over), i.amax(over), y.amin(over), (i > 18).sum(over), i.sum(over)]
            return [*folded, (y * 0.01 + 1).prod(over)]
        case "stored_folds" | "stored_moments" | "stored_twice" | "stored_centred" | "stored_position" | "gelu_gradient":
            return stored(kernel, x)
        case "both_sums":
            return [x[0].sum(1), x[0].sum(0)]
        case "row_sums":
            return [x[0].sum(1)]
        case "column_sums":
            return [x[0].sum(0)]
        case "both_folds":
            y = torch.relu(x[0] + x[1])
            return [y, y.amax(2), (x[0] > 2.5).any(2), y.sum(1) * x[1] + x[2], x[0].amin(1), (x[0] < 4).all(1)]
        case "both_logsumexp":
            return [torch.logsumexp(x[0], 1), torch.logsumexp(x[0], 0), x[0].sum(0)]
        case "softmax_sums":
            y = torch.softmax(x[0], 1)
            return [y, y.sum(0)] if p["stored"] else [y.sum(0)]
        case "part_means":
            y = torch.nn.functional.group_norm(x[0], p["groups"], x[1], x[2], 1e-5)
            return [torch.nn.functional.silu(y).mean(2)]
        case "part_folds":
            y = x[0] - x[0].amax((1, 2), keepdim=True)
            folds = [y.sum((1, 2)), y.sum(2) * x[1] + x[2], y.amax(2), x[0].amin(2), (x[0] * 0.001 + 1).prod(2)]
            return [y, *folds] if p["stored"] else folds
        case "softmax_parts":
            return [torch.softmax(x[0].flatten(1), 1).view(x[0].shape).sum(2)]
        case "batch_standardize":
            mean = x[0].mean((0, 2), keepdim=True)
            var = (x[0] - mean).square().mean((0, 2), keepdim=True)
            return [(x[0] - mean) * torch.rsqrt(var + 1e-5), mean.flatten()]
        case "whole_moments":
            return [x[0].sum(), x[0].var(correction=0)]
        case "cumsum" | "plain_cumsum" | "scans" | "integer_scans":
            return running(kernel, x)
        case "cumulative_softmax":
            e = (x[0] - x[0].amax(1, keepdim=True)).exp()
            return [e.cumsum(1) / e.sum(1, keepdim=True), e.sum(1)]
        case "group_norm":
            return [torch.nn.functional.group_norm(x[0], p["groups"], x[1], x[2], 1e-5)]
        case "activated_group_norm":
            y = torch.sigmoid(x[0] + x[1].view(1, -1, 1))
            return [torch.nn.functional.group_norm(y, p["groups"], x[2], x[3], 1e-5)]
        case "embedding_scale":
            return [picked(x[1], 0, x[0]) * 2]
        case "embedding_norm":
            y = picked(x[1], 0, x[0]) + x[2]
            return [y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)]
        case "pick_columns":
            return [picked(x[1], 1, x[0]) + 1]
        case "nll_rows":
            own = picked(x[0].flatten(), 0, x[1] + torch.arange(len(x[1]), device=x[1].device) * p["vocab"])
            inside = (x[1] >= 0) & (x[1] < p["vocab"])
            return [torch.logsumexp(x[0], -1) - torch.where(inside, own, torch.nan)]
        case "bag":
            return [picked(x[1], 0, x[0].flatten()).unflatten(0, x[0].shape).sum(1)]
        case "pairs":
            i, j = x[0], x[1]
            inside = (i >= 0) & (i < p["vocab"]) & (j >= 0) & (j < p["vocab"])
            least = torch.iinfo(x[2].dtype).min
            return [torch.where(inside, x[2][i.clamp(0, p["vocab"] - 1), j.clamp(0, p["vocab"] - 1)], least)]
    raise ValueError(f"no reference for {kernel['family']}")


def compare(kernel: dict[str, Any], outputs: list[torch.Tensor], exact: list[torch.Tensor], plain: list[torch.Tensor]) -> str:
    """Empty if every output is as accurate as the plain fp32 computation, within a factor of two, or a floor of 4 ulp."""
    for position, (got, want, eager) in enumerate(zip(outputs, exact, plain, strict=True)):
        if got.shape != want.shape:
            return f"output {position}: shape {tuple(got.shape)} instead of {tuple(want.shape)}"
        if not got.dtype.is_floating_point:
            wrong = int((got != want).sum())
            if wrong:
                return f"output {position}: {wrong} of {got.numel()} elements differ"
            continue
        finite = torch.isfinite(want)
        if not torch.equal(finite, torch.isfinite(got)):
            return f"output {position}: {int((finite != torch.isfinite(got)).sum())} of {got.numel()} elements (not) finite"
        if not finite.all():
            if not torch.equal(want[~finite].float().nan_to_num(nan=7), got[~finite].float().nan_to_num(nan=7)):
                return f"output {position}: other infinities or NaN"
            got, want, eager = got[finite], want[finite], eager[finite]
            if got.numel() == 0:
                continue
        scale = want.double().abs() + want.double().square().mean().sqrt()
        error = float(((got.double() - want.double()).abs() / scale).max())
        allowed = float(((eager.to(got.dtype).double() - want.double()).abs() / scale).max())
        allowed = 2 * max(allowed, (4 if got.dtype in (torch.float32, torch.float64) else 1) * torch.finfo(got.dtype).eps)
        if got.dtype == torch.float64:
            allowed = max(allowed, 1e-12)
        if error > allowed:
            return f"output {position}: error {error:.3g}, allowed {allowed:.3g}"
    return ""
