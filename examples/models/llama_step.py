"""One token of a Llama-like language model: the step that serving repeats. Weights stream through once; keys and values of
earlier tokens lie in a cache of fixed length, into which the step writes its own in place, at a position that is a tensor.

    python examples/models/llama_step.py --layers 2 --places 512 > task.py

prints this file with other sizes, for `planish optimize task.py`. The sizes below are Llama-3.1-8B's.
"""

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head": 128, "inner": 14336, "vocabulary": 128256, "batch": 1, "places": 2048}
DTYPE = "bfloat16"


class RMSNorm(nn.Module):
    def __init__(self, width, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * h.to(x.dtype)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, s, dtype):
        super().__init__()
        self.heads, self.kv_heads, self.head = s["heads"], s["kv_heads"], s["head"]

        def linear(n, m):
            return nn.Linear(n, m, bias=False, dtype=dtype)

        self.attention_norm, self.mlp_norm = RMSNorm(s["hidden"], dtype), RMSNorm(s["hidden"], dtype)
        self.q, self.o = linear(s["hidden"], self.heads * self.head), linear(self.heads * self.head, s["hidden"])
        self.k, self.v = linear(s["hidden"], self.kv_heads * self.head), linear(s["hidden"], self.kv_heads * self.head)
        self.gate, self.up, self.down = linear(s["hidden"], s["inner"]), linear(s["hidden"], s["inner"]), linear(s["inner"], s["hidden"])
        cache = torch.randn(2, s["batch"], self.kv_heads, s["places"], self.head, dtype=dtype)
        self.register_buffer("keys", cache[0].clone())
        self.register_buffer("values", cache[1].clone())

    def forward(self, x, position, cos, sin, mask):
        h = self.attention_norm(x)
        batch = x.shape[0]
        q = self.q(h).view(batch, 1, self.heads, self.head).transpose(1, 2)
        k = self.k(h).view(batch, 1, self.kv_heads, self.head).transpose(1, 2)
        v = self.v(h).view(batch, 1, self.kv_heads, self.head).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        a = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, 1, -1))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        s, dtype = SIZES, getattr(torch, DTYPE)
        self.places = s["places"]
        self.embedding = nn.Embedding(s["vocabulary"], s["hidden"], dtype=dtype)
        self.layers = nn.ModuleList(Layer(s, dtype) for _ in range(s["layers"]))
        self.norm = RMSNorm(s["hidden"], dtype)
        self.out = nn.Linear(s["hidden"], s["vocabulary"], bias=False, dtype=dtype)
        exponents = torch.arange(0, s["head"], 2, dtype=torch.float32) / s["head"]
        self.register_buffer("frequencies", 500000.0**-exponents)

    def forward(self, token, position):
        x = self.embedding(token)
        angles = torch.outer(position.float(), self.frequencies)
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        mask = torch.arange(self.places, device=position.device)[None, None, None, :] <= position
        for layer in self.layers:
            x = layer(x, position, cos, sin, mask)
        return self.out(self.norm(x))


def get_inputs():
    return [torch.randint(SIZES["vocabulary"], (SIZES["batch"], 1)), torch.tensor([SIZES["places"] - 1])]


def get_init_inputs():
    return []


if __name__ == "__main__":
    import argparse
    import re
    from pathlib import Path

    parser = argparse.ArgumentParser()
    for name, size in SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    parser.add_argument("--dtype", default=DTYPE)
    chosen = vars(parser.parse_args())
    dtype = chosen.pop("dtype")
    text = re.sub(r"^SIZES = .*$", f"SIZES = {chosen!r}".replace("'", '"'), Path(__file__).read_text(), count=1, flags=re.M)
    print(re.sub(r"^DTYPE = .*$", f'DTYPE = "{dtype}"', text, count=1, flags=re.M).split('\n\nif __name__ == "__main__":')[0])
