"""A block of a language model whose feed-forward part is a mixture of experts, over the tokens of a batch: attention, a router that
chooses a few experts for each token, tokens sorted by expert, two products of groups (gate and up, down), and each token's weighted sum.

    python examples/models/experts_block.py --like qwen3 --batch 1 --tokens 8 > task.py

prints this file with other sizes, for `planish optimize task.py`. `--like mixtral` (the sizes below) is a block of Mixtral-8x7B, `--like qwen3`
one of Qwen3-30B-A3B; each size can be given by itself.
"""

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"hidden": 4096, "heads": 32, "kv_heads": 8, "head": 128, "inner": 14336, "experts": 8, "chosen": 2, "head_norms": 0, "batch": 2, "tokens": 1024}
DTYPE = "bfloat16"


class RMSNorm(nn.Module):
    def __init__(self, width, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, s, dtype):
        super().__init__()
        self.heads, self.kv_heads, self.head = s["heads"], s["kv_heads"], s["head"]
        self.q, self.k, self.v = (nn.Linear(s["hidden"], n * self.head, bias=False, dtype=dtype) for n in (self.heads, self.kv_heads, self.kv_heads))
        self.o = nn.Linear(self.heads * self.head, s["hidden"], bias=False, dtype=dtype)
        self.q_norm, self.k_norm = (RMSNorm(self.head, dtype) if s["head_norms"] else nn.Identity() for _ in range(2))
        self.register_buffer("frequencies", 1e6 ** -(torch.arange(0, self.head, 2, dtype=torch.float32) / self.head))

    def forward(self, x):
        batch, tokens, _ = x.shape
        angles = torch.outer(torch.arange(tokens, device=x.device).float(), self.frequencies)
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        q = self.q_norm(self.q(x).view(batch, tokens, self.heads, self.head)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(batch, tokens, self.kv_heads, self.head)).transpose(1, 2)
        v = self.v(x).view(batch, tokens, self.kv_heads, self.head).transpose(1, 2)
        a = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=True)
        return self.o(a.transpose(1, 2).reshape(batch, tokens, -1))


class Experts(nn.Module):
    def __init__(self, s, dtype):
        super().__init__()
        self.experts, self.chosen = s["experts"], s["chosen"]
        self.router = nn.Linear(s["hidden"], self.experts, bias=False, dtype=dtype)
        self.gate_up = nn.Parameter(torch.randn(self.experts, 2 * s["inner"], s["hidden"], dtype=dtype) * s["hidden"] ** -0.5)
        self.down = nn.Parameter(torch.randn(self.experts, s["hidden"], s["inner"], dtype=dtype) * s["inner"] ** -0.5)

    def forward(self, x):
        weights, experts = torch.topk(F.softmax(self.router(x), dim=-1, dtype=torch.float32), self.chosen, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        experts = experts.reshape(-1)
        order = torch.argsort(experts, stable=True)
        ends = (experts[None, :] <= torch.arange(self.experts, device=x.device)[:, None]).sum(dim=1).to(torch.int32)
        gate, up = torch._grouped_mm(x[order // self.chosen], self.gate_up.transpose(1, 2), offs=ends).chunk(2, dim=-1)
        y = torch._grouped_mm(F.silu(gate) * up, self.down.transpose(1, 2), offs=ends)
        # Each token's results by where its experts were sorted to: sums have the same order every time.
        y = y[torch.argsort(order)].view(-1, self.chosen, x.shape[-1])
        return (y * weights.unsqueeze(-1)).sum(dim=1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        s, dtype = SIZES, getattr(torch, DTYPE)
        self.attention_norm, self.experts_norm = RMSNorm(s["hidden"], dtype), RMSNorm(s["hidden"], dtype)
        self.attention, self.experts = Attention(s, dtype), Experts(s, dtype)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.experts(self.experts_norm(x).view(-1, x.shape[-1])).view(x.shape)


def get_inputs():
    return [torch.randn(SIZES["batch"], SIZES["tokens"], SIZES["hidden"], dtype=getattr(torch, DTYPE))]


def get_init_inputs():
    return []


if __name__ == "__main__":
    import argparse
    import re
    from pathlib import Path

    qwen3 = {"hidden": 2048, "heads": 32, "kv_heads": 4, "inner": 768, "experts": 128, "chosen": 8, "head_norms": 1}
    parser = argparse.ArgumentParser()
    parser.add_argument("--like", choices=["mixtral", "qwen3"], default="mixtral")
    for name in SIZES:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    parser.add_argument("--dtype", default=DTYPE)
    given = vars(parser.parse_args())
    dtype, sizes = given.pop("dtype"), SIZES | (qwen3 if given.pop("like") == "qwen3" else {})
    sizes |= {name: size for name, size in given.items() if size is not None}
    text = re.sub(r"^SIZES = .*$", f"SIZES = {sizes!r}".replace("'", '"'), Path(__file__).read_text(), count=1, flags=re.M)
    print(re.sub(r"^DTYPE = .*$", f'DTYPE = "{dtype}"', text, count=1, flags=re.M).split('\n\nif __name__ == "__main__":')[0])
