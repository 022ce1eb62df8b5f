"""Models with a line that only Python can run, each by planish.optimize in pieces: `python bench/compatibility/pieces.py [NAME…] [--budget 6s]`.

Prints for each what became of it, times of the whole call in ms, its graphs with their shares and gains, and what lies between them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import planish
import torch
from torch import nn

WIDTH = 256


def work(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * x + torch.exp(-x * x) * torch.sigmoid(x)


@torch.library.custom_op("planish_bench::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


class Line(nn.Module):
    """Elementwise work and a product before and behind a line, `between`."""

    def __init__(self, between: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.between = between
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return work(self.between(self, work(self.linear(x))))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = work(nn.functional.layer_norm(x, (WIDTH,)))
        (weights, chosen), result = self.gate(x).softmax(-1).max(-1), torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            places = (chosen == k).nonzero()[:, 0]
            if places.numel():
                result.index_add_(0, places, expert(x[places]) * weights[places, None])
        return work(result + x)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 5, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        boxes = self.head(work(self.features(x)))[0].flatten(1).T
        scores = boxes[:, 4].sigmoid()
        boxes, scores = boxes[scores > 0.6], scores[scores > 0.6]
        order, kept = scores.argsort(descending=True)[:50], []
        while order.numel():
            kept.append(int(order[0]))
            order = order[(boxes[order, :2] - boxes[order[0], :2]).abs().sum(1) > 0.5]
        return boxes[kept], scores[kept]


def branch(_: Line, x: torch.Tensor) -> torch.Tensor:
    return x if x.mean() > 0 else -x


def say(_: Line, x: torch.Tensor) -> torch.Tensor:
    print("mean", float(x.mean()))
    return x


def item(_: Line, x: torch.Tensor) -> torch.Tensor:
    return x[:, : int(x.argmax().item()) % WIDTH + 1]


def custom(_: Line, x: torch.Tensor) -> torch.Tensor:
    return torch.ops.planish_bench.scaled(x, 1.5)


def counter(module: Line, x: torch.Tensor) -> torch.Tensor:
    module.calls += 1
    return x


def loop(_: Line, x: torch.Tensor) -> torch.Tensor:
    result, start = torch.zeros_like(x), 0
    for end in (x[:4, 0].abs() * 40).long().cumsum(0).tolist():
        result[start:end], start = work(x[start:end]), end
    return result


def mixtral(experts: str | None) -> tuple[nn.Module, Any]:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=512,
                           num_local_experts=4, num_experts_per_tok=2, **({"experts_implementation": experts} if experts else {}))  # fmt: skip
    return MixtralForCausalLM(config), {"input_ids": torch.randint(512, (1, 128)), "use_cache": False}


def superpoint() -> tuple[nn.Module, Any]:
    from transformers import SuperPointConfig, SuperPointForKeypointDetection

    config = SuperPointConfig(encoder_hidden_sizes=[16, 16, 32, 32], decoder_hidden_size=64, descriptor_decoder_dim=64, keypoint_threshold=0.01)
    return SuperPointForKeypointDetection(config), {"pixel_values": torch.rand(1, 3, 96, 96)}


LINES = (branch, say, item, custom, counter, loop)
MODELS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {line.__name__: lambda line=line: (Line(line), torch.randn(512, WIDTH)) for line in LINES}
MODELS |= {"experts": lambda: (Experts(), torch.randn(512, WIDTH)), "detector": lambda: (Detector(), torch.randn(1, 3, 96, 96)),
           "mixtral": lambda: mixtral(None), "mixtral_eager": lambda: mixtral("eager"), "superpoint": superpoint}  # fmt: skip


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--budget", default="6s")
    parser.add_argument("--baselines", default="eager")
    options = parser.parse_args()
    for name in options.names:
        torch.manual_seed(0)
        module, call = MODELS[name]()
        start = time.monotonic()
        try:
            found = planish.optimize(module.eval(), call, budget=options.budget, baselines=options.baselines, name=name)
        except planish.PlanishError as error:
            print(f"{name}: {error.kind}: {error.message}", flush=True)
            continue
        result = found.result
        times = ", ".join(f"{row} {about['median']:.3f}" for row, about in result.get("times_ms", {}).items())
        print(f"{name}: {result['outcome']} ({result.get('form')}), {times}, {time.monotonic() - start:.0f} s {found.reason}")
        for piece in result.get("pieces", ()):
            print(f"  {piece['outcome']:<12} {piece['share']:4.0%} in {piece['calls']} runs, gain {piece.get('gain', 1.0):.2f} {piece.get('reason', '')}")
        for between in (*result.get("breaks", ()), *result.get("opaque", ())):
            print(f"  between: {between}", flush=True)


if __name__ == "__main__":
    main()
