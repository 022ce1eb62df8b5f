"""Blocks and small networks as people write them: {name: Case}. Sizes are small; what counts is which operations meet."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from layers import Case
from torch import nn


class CausalSelfAttention(nn.Module):
    """As in small GPT implementations: one projection, split, views, transposes."""

    def __init__(self, width: int, heads: int, flash: bool = True, size: int = 64) -> None:
        super().__init__()
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.flash = heads, flash
        self.register_buffer("mask", torch.tril(torch.ones(size, size)).view(1, 1, size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.size()
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.attend(x).split(c, dim=2))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        return self.project(y.transpose(1, 2).contiguous().view(b, t, c))


class GPT(nn.Module):
    """Embeddings, two blocks, a head whose weight is the embedding's."""

    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(nn.ModuleList((nn.LayerNorm(32), CausalSelfAttention(32, 4, flash), nn.LayerNorm(32),
                                                   nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)))) for _ in range(2))  # fmt: skip
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for first, attention, second, mlp in self.blocks:  # type: ignore[misc]
            x = x + attention(first(x))
            x = x + mlp(second(x))
        return self.head(self.norm(x))


class Llama(nn.Module):
    """RMS norms, rotary positions as complex numbers or as halves, grouped heads, gated MLP."""

    def __init__(self, complex_rotation: bool, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(64, eps=1e-5), nn.RMSNorm(64, eps=1e-5)
        self.q, self.k, self.v, self.o = (
            nn.Linear(64, 64, bias=False),
            nn.Linear(64, 32, bias=False),
            nn.Linear(64, 32, bias=False),
            nn.Linear(64, 64, bias=False),
        )
        self.gate, self.up, self.down = nn.Linear(64, 128, bias=False), nn.Linear(64, 128, bias=False), nn.Linear(128, 64, bias=False)
        self.complex_rotation = complex_rotation
        angle = torch.outer(torch.arange(24.0), 10000 ** (-torch.arange(0, 16, 2) / 16))
        self.to(dtype)
        self.register_buffer("rotation", torch.polar(torch.ones_like(angle), angle), persistent=False)
        self.register_buffer("angle", torch.cat((angle, angle), -1), persistent=False)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        if self.complex_rotation:
            z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(z * self.rotation[:, None]).flatten(3).type_as(x)
        cos, sin = self.angle.cos()[:, None], self.angle.sin()[:, None]
        a, b = x.chunk(2, -1)
        return (x * cos + torch.cat((-b, a), -1) * sin).to(x.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        h = self.before(x)
        q, k, v = self.q(h).view(b, t, 4, 16), self.k(h).view(b, t, 2, 16), self.v(h).view(b, t, 2, 16)
        q, k = self.rotate(q), self.rotate(k)
        k, v = (y[:, :, :, None].expand(b, t, 2, 2, 16).reshape(b, t, 4, 16) for y in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.silu(self.gate(self.after(x))) * self.up(self.after(x)))


class ViT(nn.Module):
    """Patches, a class token that is expanded, learned positions, two encoder blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 8, 8)
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, 48)), nn.Parameter(torch.randn(1, 17, 48) * 0.02)
        layer = nn.TransformerEncoderLayer(48, 4, 96, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.norm(self.encoder(x))[:, 0])


class QKV(nn.Module):
    """Attention as in image models: one reshape and permute to (3, batch, heads, tokens, size), unbind."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(48, 144), nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * (c // 4) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))


class WindowAttention(nn.Module):
    """Windows that are shifted by a roll, with a table of relative positions, as in Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.table = nn.Linear(32, 96), nn.Parameter(torch.randn(49, 4) * 0.02)
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None]) + 3
        self.register_buffer("places", apart[0] * 7 + apart[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        x = torch.roll(x, (-2, -2), (1, 2)).view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 16, c)
        q, k, v = self.qkv(x).view(-1, 16, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.places.view(-1)].view(16, 16, 4).permute(2, 0, 1)
        y = ((q @ k.transpose(-2, -1)) * (c // 4) ** -0.5 + bias).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (2, 2), (1, 2))


class BERT(nn.Module):
    """Embeddings of three kinds, a mask made from integers, post-norm, a dict as its output."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(60, 32, padding_idx=0), nn.Embedding(32, 32), nn.Embedding(2, 32)
        self.first, self.second, self.third = nn.LayerNorm(32, 1e-12), nn.LayerNorm(32, 1e-12), nn.LayerNorm(32, 1e-12)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down, self.pool = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 32)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        b, t = input_ids.shape
        kinds = torch.zeros_like(input_ids)
        x = self.first(self.words(input_ids) + self.places(torch.arange(t, device=input_ids.device).unsqueeze(0).expand(b, -1)) + self.kinds(kinds))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        q, k, v = (layer(x).view(b, t, 4, 8).permute(0, 2, 1, 3) for layer in (self.q, self.k, self.v))
        probabilities = F.softmax(q @ k.transpose(-1, -2) / 8**0.5 + bias, dim=-1)
        x = self.second(x + self.o((probabilities @ v).permute(0, 2, 1, 3).contiguous().view(b, t, 32)))
        x = self.third(x + self.down(F.gelu(self.up(x))))
        return {"last_hidden_state": x, "pooler_output": torch.tanh(self.pool(x[:, 0]))}


class T5(nn.Module):
    """Relative positions in logarithmic buckets, norms without a mean, no scale in attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.bias = nn.Parameter(torch.ones(32)), nn.Embedding(16, 4)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))

    @staticmethod
    def bucket(apart: torch.Tensor, buckets: int = 16, farthest: int = 64) -> torch.Tensor:
        buckets //= 2
        found = (apart > 0).long() * buckets
        apart = apart.abs()
        near = buckets // 2
        far = near + (torch.log(apart.float() / near) / math.log(farthest / near) * (buckets - near)).long()
        return found + torch.where(apart < near, apart, torch.min(far, torch.full_like(far, buckets - 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        h = self.norm * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        q, k, v = (layer(h).view(b, t, 4, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        at = torch.arange(t, device=x.device)
        scores = q @ k.transpose(3, 2) + self.bias(self.bucket(at[None] - at[:, None])).permute(2, 0, 1).unsqueeze(0)
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return x + self.o((weights @ v).transpose(1, 2).contiguous().view(b, t, c))


class Mamba(nn.Module):
    """A selective state space: causal depthwise convolution, softplus steps, and a scan as a loop over time."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.conv, self.out = nn.Linear(16, 64), nn.Conv1d(32, 32, 4, groups=32, padding=3), nn.Linear(32, 16)
        self.select, self.step = nn.Linear(32, 2 + 16), nn.Linear(2, 32)
        self.decay, self.skip = nn.Parameter(torch.log(torch.arange(1.0, 9).repeat(32, 1))), nn.Parameter(torch.ones(32))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        t = u.shape[1]
        x, gate = self.into(u).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))
        low, b, c = self.select(x).split([2, 8, 8], -1)
        step = F.softplus(self.step(low))
        a = torch.exp(step[..., None] * -torch.exp(self.decay))
        add = step[..., None] * b[:, :, None] * x[..., None]
        state, rows = torch.zeros_like(a[:, 0]), []
        for i in range(t):
            state = a[:, i] * state + add[:, i]
            rows.append((state * c[:, i, None]).sum(-1))
        return self.out((torch.stack(rows, 1) + x * self.skip) * F.silu(gate))


class ConvNeXt(nn.Module):
    """Depthwise 7×7, a norm over channels behind a permute, a layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 4, 4)
        self.depth, self.norm = nn.Conv2d(24, 24, 7, padding=3, groups=24), nn.LayerNorm(24, 1e-6)
        self.up, self.down, self.scale = nn.Linear(24, 96), nn.Linear(96, 24), nn.Parameter(1e-6 * torch.ones(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.depth(x).permute(0, 2, 3, 1)
        y = self.scale * self.down(F.gelu(self.up(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


def _twice(a: int, b: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True))


class UNet(nn.Module):
    """Three levels with skips; upsampling by transposed convolution and padding to fit."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = _twice(3, 8), _twice(8, 16), _twice(16, 32)
        self.up2, self.d2 = nn.ConvTranspose2d(32, 16, 2, 2), _twice(32, 16)
        self.up1, self.d1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), _twice(24, 8)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        y = self.up2(self.c(F.max_pool2d(b, 2)))
        y = self.up1(self.d2(torch.cat((b, F.pad(y, (0, b.shape[3] - y.shape[3], 0, b.shape[2] - y.shape[2]))), 1)))
        return self.out(self.d1(torch.cat((a, F.pad(y, (0, a.shape[3] - y.shape[3], 0, a.shape[2] - y.shape[2]))), 1)))


class Inverted(nn.Module):
    """Expand, depthwise, squeeze and excite, project: MobileNet's and EfficientNet's block."""

    def __init__(self, a: int, b: int, stride: int, excite: bool) -> None:
        super().__init__()
        wide = a * 4
        self.expand = nn.Sequential(nn.Conv2d(a, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(True))
        self.depth = nn.Sequential(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.SiLU(True))
        self.squeeze, self.excite = (nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1)) if excite else (None, None)
        self.project = nn.Sequential(nn.Conv2d(wide, b, 1, bias=False), nn.BatchNorm2d(b))
        self.skip = a == b and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depth(self.expand(x))
        if self.squeeze is not None and self.excite is not None:
            y = y * torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.project(y) if self.skip else self.project(y)


def mobile_net(depth: int, excite: bool = False) -> nn.Module:
    """Random weights and normalisation by the batch: what amplifies rounding."""
    blocks = [Inverted(16, 16, 1, excite) for _ in range(depth)]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


class Residual(nn.Module):
    """A bottleneck as in ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width // 4, 1, bias=False), nn.BatchNorm2d(width // 4), nn.ReLU(True),
                                  nn.Conv2d(width // 4, width // 4, 3, padding=1, bias=False), nn.BatchNorm2d(width // 4), nn.ReLU(True),
                                  nn.Conv2d(width // 4, width, 1, bias=False), nn.BatchNorm2d(width))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + x)


def res_net(depth: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(True), nn.MaxPool2d(3, 2, 1),
                         *[Residual(32) for _ in range(depth)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))  # fmt: skip


class Dense(nn.Module):
    """Every layer reads all before it, concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(8 + 4 * i), nn.ReLU(), nn.Conv2d(8 + 4 * i, 4, 3, padding=1)) for i in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


class Sequence(nn.Module):
    """Embedding, a recurrent layer, attention over its outputs, a classifier."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.words, self.recur, self.score, self.out = (
            nn.Embedding(40, 16),
            kind(16, 12, 2, batch_first=True, bidirectional=True),
            nn.Linear(24, 1),
            nn.Linear(24, 3),
        )

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, Any]:
        h, state = self.recur(self.words(tokens))
        return self.out((self.score(h).softmax(1) * h).sum(1)), state


class Spectral(nn.Module):
    """A Fourier layer: complex weights between a transform and its inverse."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 6, dtype=torch.cfloat) * 0.1)
        self.local = nn.Conv1d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        f = torch.fft.rfft(x)
        mixed = torch.zeros_like(f)
        mixed[..., :6] = torch.einsum("bix,iox->box", f[..., :6], self.weight)
        return F.gelu(torch.fft.irfft(mixed, n=x.size(-1)) + self.local(x))


class Normed(nn.Module):
    """Weights that are computed from others: weight norm, spectral norm (in eval mode), group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 8, 3, padding=1))
        self.b = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 20))
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.b(F.leaky_relu(self.a(x), 0.1)))


class OldWeightNorm(nn.Module):
    """The older hook, which sets a plain attribute before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.weight_norm(nn.Linear(16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.a(x))


class Experts(nn.Module):
    """A mixture with a dense dispatch: top-k of a softmax, one-hot weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 16, 32) * 0.2), nn.Parameter(torch.randn(4, 32, 16) * 0.2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        p, which = self.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros(x.shape[0], 4, device=x.device, dtype=x.dtype).scatter(-1, which, p / p.sum(-1, keepdim=True))
        y = torch.einsum("neh,ehd->ned", F.gelu(torch.einsum("nd,edh->neh", x, self.up)), self.down)
        return (y * weights[..., None]).sum(1), {"weights": weights}


class HiddenState(nn.Module):
    """Keeps a state as a plain attribute: export sees a constant, and must say so."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
        self.h = torch.zeros(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h = self.cell(x, self.h)
        return self.h


class Preprocess(nn.Module):
    """Images from bytes: cast, scale, normalise with constants made in forward, flip."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean, std = torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
        x = F.interpolate(images.float() / 255, size=(20, 20), mode="bilinear", antialias=True)
        return torch.flip((x - mean.to(x.device)) / std.to(x.device), [-1])


class Diffusion(nn.Module):
    """A residual block with a time embedding of sines, group norms and attention over pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.conv1, self.time = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1), nn.Linear(32, 16)
        self.norm2, self.qkv, self.out = nn.GroupNorm(4, 16), nn.Conv2d(16, 48, 1), nn.Conv2d(16, 16, 1)

    def forward(self, x: torch.Tensor, when: torch.Tensor) -> torch.Tensor:
        angles = when[:, None].float() * torch.exp(-math.log(10000) * torch.arange(16, device=x.device) / 16)[None]
        x = x + self.conv1(F.silu(self.norm1(x))) + self.time(torch.cat((angles.cos(), angles.sin()), -1))[:, :, None, None]
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm2(x)).view(b, 3, 4, c // 4, h * w).transpose(-1, -2).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w))


class Boxes(nn.Module):
    """Anchors and clipping as a detector's head decodes them: integers, comparisons, advanced indices."""

    def forward(self, deltas: torch.Tensor, anchors: torch.Tensor) -> dict[str, Any]:
        size = anchors[:, 2:] - anchors[:, :2]
        centre = anchors[:, :2] + 0.5 * size
        at = centre + deltas[..., :2] * size
        wide = size * torch.exp(deltas[..., 2:].clamp(max=math.log(1000 / 16)))
        boxes = torch.cat((at - wide / 2, at + wide / 2), -1).clamp(0, 64)
        area = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
        return {"boxes": boxes, "keep": area > 1.0, "best": area.argmax(-1), "meta": (area.mean(), None, 3)}


class Running(nn.Module):
    """Updates a buffer and counts its calls, as codebooks and moving averages do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        self.calls += 1
        return x - self.mean


def _words(*shape: int, count: int = 40) -> torch.Tensor:
    return torch.randint(1, count, shape)


def _image(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


BLOCKS: dict[str, Case] = {
    "nanoGPT (fused attention)": Case(lambda: GPT(True), lambda: (_words(2, 24, count=50),)),
    "nanoGPT (written out)": Case(lambda: GPT(False), lambda: (_words(2, 24, count=50),)),
    "nanoGPT (training mode)": Case(lambda: GPT(True), lambda: (_words(2, 24, count=50),), True),
    "Llama (halves)": Case(lambda: Llama(False), lambda: (torch.randn(2, 24, 64),)),
    "Llama (complex)": Case(lambda: Llama(True), lambda: (torch.randn(2, 24, 64),)),
    "Llama (bf16)": Case(lambda: Llama(False, torch.bfloat16), lambda: (torch.randn(2, 24, 64, dtype=torch.bfloat16),)),
    "ViT": Case(ViT, lambda: (_image(2, 3, 32, 32),)),
    "ViT (training mode)": Case(ViT, lambda: (_image(2, 3, 32, 32),), True),
    "Attention by qkv permute": Case(QKV, lambda: (torch.randn(2, 20, 48),)),
    "Swin window attention": Case(WindowAttention, lambda: (torch.randn(2, 8, 8, 32),)),
    "BERT": Case(BERT, lambda: {"input_ids": _words(2, 16), "attention_mask": (torch.arange(16)[None] < torch.tensor([[16], [11]])).long()}),
    "T5": Case(T5, lambda: (torch.randn(2, 24, 32),)),
    "Mamba": Case(Mamba, lambda: (torch.randn(2, 12, 16),)),
    "ConvNeXt": Case(ConvNeXt, lambda: (_image(2, 3, 32, 32),)),
    "U-Net": Case(UNet, lambda: (_image(2, 3, 32, 32),)),
    "U-Net (training mode)": Case(UNet, lambda: (_image(2, 3, 32, 32),), True),
    "MobileNet": Case(lambda: mobile_net(4), lambda: (_image(4, 3, 32, 32),)),
    "MobileNet (deep, training mode)": Case(lambda: mobile_net(24), lambda: (_image(4, 3, 32, 32),), True),
    "EfficientNet (deep, training mode)": Case(lambda: mobile_net(16, True), lambda: (_image(4, 3, 32, 32),), True),
    "ResNet": Case(lambda: res_net(4), lambda: (_image(4, 3, 48, 48),)),
    "ResNet (deep, training mode)": Case(lambda: res_net(30), lambda: (_image(4, 3, 48, 48),), True),
    "DenseNet (training mode)": Case(Dense, lambda: (_image(4, 8, 12, 12),), True),
    "LSTM classifier": Case(lambda: Sequence(nn.LSTM), lambda: (_words(4, 12),)),
    "GRU classifier": Case(lambda: Sequence(nn.GRU), lambda: (_words(4, 12),)),
    "Fourier layer": Case(Spectral, lambda: (torch.randn(2, 8, 32),)),
    "Weight, spectral and group norm": Case(Normed, lambda: (torch.randn(4, 8, 20),)),
    "Weight norm (hook)": Case(OldWeightNorm, lambda: (torch.randn(4, 16),)),
    "Mixture of experts": Case(Experts, lambda: (torch.randn(12, 16),)),
    "Hidden state as an attribute": Case(HiddenState, lambda: (torch.randn(4, 8),)),
    "Preprocessing": Case(Preprocess, lambda: (torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8),)),
    "Diffusion block": Case(Diffusion, lambda: (torch.randn(2, 16, 8, 8), torch.randint(0, 1000, (2,)))),
    "Detector boxes": Case(Boxes, lambda: (torch.randn(2, 30, 4), torch.rand(30, 4) * 20 + torch.tensor([0, 0, 20.0, 20.0]))),
    "Moving average in a buffer": Case(Running, lambda: (torch.randn(8, 16),), True),
}
