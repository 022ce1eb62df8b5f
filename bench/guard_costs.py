"""What it costs a call to ask whether all that forward can reach is as it was (ship/reach.py). Microseconds.

    PLANISH_BUILD=build bench/guard_costs.py

For each module: how many comparisons are made; the call's checks in C with them, and without; their difference; the same in Python; and what
finding all of it took once. A stand-in answers in place of a program, so that a call is its checks. Blocks of calls are interleaved, and
the fastest is given: what disturbs a block only adds to it.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python" / "ship")]

from planish.ship import reach  # noqa: E402
from stand_in import attached, extension  # noqa: E402

SCALE = 2.0


class Plain(nn.Module):
    """Nothing but layers."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


class Configured(nn.Module):
    """A configuration, a list, a global, a method, an activation and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.config = types.SimpleNamespace(gain=2.0, bias=True)
        self.inner, self.scales, self.act, self.mask = Plain(), [1.0, 2.0], torch.tanh, torch.ones(8)

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x + (1 if self.config.bias else 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.act(self.shifted(self.inner(x))) * self.config.gain * self.scales[0] * SCALE * self.mask
        return result


MODULES: dict[str, Callable[[], nn.Module]] = {
    "one layer (nn.Linear in a module)": lambda: Plain(1),
    "six layers": lambda: Plain(2),
    "configuration, list, global, method, mask": Configured,
    "sixty layers": lambda: Plain(20),
    "nn.TransformerEncoder, six layers": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 6, enable_nested_tensor=False),
}


def microseconds(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Of the fastest block of each."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(1000):
                call()
            found[name] = min(found[name], (time.perf_counter() - start) * 1e3)
    return found


def without(module: Any) -> Callable[[], Any]:
    """The same call in C with nothing to compare."""
    attachment = module._planish
    bound = attachment._bound
    kept, bound.reached = bound.reached, reach.Reached()
    fast = attachment._direct(bound)
    bound.reached = kept
    x = (torch.ones(4, 8),)
    return lambda: fast(module, x, {})


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    in_c = extension()
    if in_c is None:
        sys.exit("error: planish_call.so is not built\nhint: make build")
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"{'':<44}{'checks':>8}{'call':>9}{'without':>9}{'cost':>8}{'in Python':>11}{'found once':>14}")
    for name, make in MODULES.items():
        module, x = make().eval(), torch.ones(4, 8)
        start = time.perf_counter()
        reach.reach(module)
        once = (time.perf_counter() - start) * 1e3
        module = attached(module, x, extension=in_c)
        module(x)
        attachment, args = module._planish, (x,)
        state = attachment._bound.reached
        calls = {"with": lambda: attachment.fast(module, args, {}), "without": without(module), "python": lambda: state.fits(module, False)}  # noqa: B023
        found = microseconds(calls, options.rounds)
        cost = found["with"] - found["without"]
        print(f"{name:<44}{state.count():>8}{found['with']:>9.2f}{found['without']:>9.2f}{cost:>8.2f}{found['python']:>11.2f}{once:>11.1f} ms")


if __name__ == "__main__":
    main()
