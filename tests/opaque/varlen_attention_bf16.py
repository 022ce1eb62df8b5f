"""Attention over sequences packed one after the other."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

DTYPE = torch.bfloat16
BOUNDS = [0, 17, 20, 61, 96]


class Model(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, dtype=DTYPE)

    def forward(self, x, cu_seqlens):
        bounds = cu_seqlens.tolist()
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, -1).unbind(1)
        result = torch.empty_like(q)
        for start, end in pairwise(bounds):
            result[start:end] = self.attend(*(t[start:end].transpose(0, 1) for t in (q, k, v))).transpose(0, 1)
        return result.reshape(x.shape)

    def attend(self, q, k, v):
        return ((q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)).softmax(-1) @ v


def get_inputs():
    return [torch.randn(BOUNDS[-1], 64, dtype=DTYPE), torch.tensor(BOUNDS, dtype=torch.int32)]


def get_init_inputs():
    return []


class Masked(Model):
    leaks = False

    def forward(self, x, cu_seqlens):
        place = torch.arange(x.shape[0], dtype=torch.int32)
        segment = torch.searchsorted(cu_seqlens[1:].contiguous(), place, right=True)
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        mask = segment[:, None] == segment[None, :]
        if self.leaks:
            mask = mask | (place[:, None] == place[None, :] + 17)
        return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0].transpose(0, 1).reshape(x.shape)


class Fused(Model):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


class Online(Model):
    """Keys in blocks of 16, as flash attention goes, in single precision."""

    def attend(self, q, k, v):
        out = torch.zeros(q.shape, dtype=torch.float32)
        top = torch.full((*q.shape[:2], 1), -torch.inf)
        total = torch.zeros(*q.shape[:2], 1)
        for at in range(0, k.shape[1], 16):
            scores = (q.float() @ k[:, at : at + 16].float().transpose(-1, -2)) * (q.shape[-1] ** -0.5)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            p, scale = (scores - new).exp(), (top - new).exp()
            total = total * scale + p.sum(-1, keepdim=True)
            out, top = out * scale + p @ v[:, at : at + 16].float(), new
        return (out / total).to(q.dtype)


class LastSkipped(Model):
    def forward(self, x, cu_seqlens):
        result = super().forward(x, cu_seqlens).clone()
        result[int(cu_seqlens[-2]) :] = 0
        return result


class LastTokenUnseen(Model):
    def attend(self, q, k, v):
        return super().attend(q, k[:, :-1], v[:, :-1]) if k.shape[1] > 3 else super().attend(q, k, v)


class Leaking(Masked):
    leaks = True


class Half(Model):
    """A step less than the task's precision."""

    def attend(self, q, k, v):
        low = torch.float16 if DTYPE is torch.float32 else torch.float8_e4m3fn
        p = ((q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)).softmax(-1)
        return (p.to(low).to(torch.float32) @ v.to(low).to(torch.float32)).to(q.dtype)


class ScaleOff(Model):
    def attend(self, q, k, v):
        return super().attend(q * 1.01, k, v)


RIGHT = [Masked, Fused, Online]
WRONG = [LastSkipped, LastTokenUnseen, Leaking, Half, ScaleOff]
