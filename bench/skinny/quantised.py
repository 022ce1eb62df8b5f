"""Products of a few rows with weights of 8 and 4 bits, as whole programs on a GPU: chains of layers whose weights lie cold.

    python3 bench/skinny/quantised.py [--forms int8,e4m3,…] [--rows 1,4,8,16] [--models llama] [--torch graph,max_autotune] > rows.jsonl
    python3 bench/skinny/quantised.py --check [--jobs 8]

A form is how a weight is stored and what the program says of it, in tensor operators as quantised checkpoints' Python does. The program is
its graph cut once, with the first guess of every kernel's schedule and no search. A row of JSON: microseconds a layer, the bytes of codes
and scales a layer, their part of the rate at which this card reads, and times of eager's operators. `--check` compares with the same
numbers in float64 and times nothing: it takes other numbers of rows, both 16-bit types and small layers, and fails where an error is more
than twice eager's.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from first_guess import executor_of, program_of, read_rate, times_in_turn, torch_forms  # noqa: E402

Tensor = torch.Tensor
# n, k of a layer
SHAPES = {
    "llama": {"qkv": (6144, 4096), "out": (4096, 4096), "gate": (14336, 4096), "down": (4096, 14336)},
    "small": {"square": (1024, 1024)},
}
CHECKED = {"qkv": (6144, 4096), "down": (4096, 14336), "gate_up": (28672, 4096), "square": (1024, 1024)}


def nibbles(packed: Tensor) -> Tensor:
    """Of bytes, the lower one first."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


class Quantised(nn.Module):
    """A layer. Subclasses say what their weight is worth, in the dtype of x."""

    def __init__(self, n: int, k: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.n, self.k = n, k
        for name, tensor in self.stored(n, k, dtype).items():
            self.register_buffer(name, tensor)

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        raise NotImplementedError

    def weight(self, dtype: torch.dtype) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight(x.dtype).t()

    def scales(self, *shape: int, dtype: torch.dtype, top: float) -> Tensor:
        return ((torch.rand(*shape) + 0.5) / (top * self.k**0.5)).to(dtype)


class Int8(Quantised):
    """A scale a row, applied to the result."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return {"codes": torch.randint(-127, 128, (n, k), dtype=torch.int8), "scale": self.scales(n, dtype=dtype, top=74)}

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.codes.to(x.dtype).t()) * self.scale.to(x.dtype)

    def weight(self, dtype: torch.dtype) -> Tensor:
        return self.codes.to(dtype) * self.scale.to(dtype)[:, None]


class Int8Weights(Int8):
    """A scale a row, applied to the weights."""

    forward = Quantised.forward


class UInt8(Quantised):
    """A scale and a zero point a row."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        codes = {"codes": torch.randint(0, 256, (n, k), dtype=torch.uint8), "zero": torch.randint(96, 160, (n, 1), dtype=torch.uint8)}
        return codes | {"scale": self.scales(n, 1, dtype=dtype, top=74)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        return (self.codes.to(dtype) - self.zero.to(dtype)) * self.scale.to(dtype)


class Int8Groups(Quantised):
    """A scale for each 64 of k."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return {"codes": torch.randint(-127, 128, (n, k), dtype=torch.int8), "scale": self.scales(n, k // 64, dtype=dtype, top=74)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        return (self.codes.to(dtype).view(self.n, -1, 64) * self.scale.to(dtype)[..., None]).view(self.n, self.k)


class Float8(Quantised):
    code = torch.float8_e4m3fn

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return {"codes": torch.randn(n, k).to(self.code), "scale": self.scales(n, dtype=torch.float32, top=1)}

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ self.codes.to(x.dtype).t()) * self.scale.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)

    def weight(self, dtype: torch.dtype) -> Tensor:
        return self.codes.to(dtype) * self.scale.to(dtype)[:, None]


class Float8Wide(Float8):
    code = torch.float8_e5m2


class Float8Blocks(Quantised):
    """A scale for each block of 128 by 128."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return {"codes": torch.randn(n, k).to(torch.float8_e4m3fn), "scale": self.scales(n // 128, k // 128, dtype=dtype, top=1)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        return (self.codes.to(dtype).view(self.n // 128, 128, -1, 128) * self.scale.to(dtype)[:, None, :, None]).view(self.n, self.k)


class Int4(Quantised):
    """Neighbours in a byte; a scale for each 128 of k, the zero point is 8."""

    group = 128

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return {"codes": torch.randint(0, 256, (n, k // 2), dtype=torch.uint8), "scale": self.scales(n, k // self.group, dtype=dtype, top=4.6)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        return ((nibbles(self.codes).to(dtype) - 8).view(self.n, -1, self.group) * self.scale.to(dtype)[..., None]).view(self.n, self.k)


class Int4Small(Int4):
    group = 64


class UInt4(Int4):
    """A zero point for each 128 of k."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return super().stored(n, k, dtype) | {"zero": torch.randint(4, 12, (n, k // self.group), dtype=torch.uint8)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        codes = nibbles(self.codes).to(dtype).view(self.n, -1, self.group)
        return ((codes - self.zero.to(dtype)[..., None]) * self.scale.to(dtype)[..., None]).view(self.n, self.k)


class Words4(Int4):
    """Eight codes in a word of 32 bits along k."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return super().stored(n, k, dtype) | {"codes": torch.randint(-(2**31), 2**31, (n, k // 8)).to(torch.int32)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        places = torch.arange(0, 32, 4, dtype=torch.int32, device=self.codes.device)
        codes = ((self.codes[..., None] >> places) & 15).view(self.n, self.k)
        return ((codes.to(dtype) - 8).view(self.n, -1, self.group) * self.scale.to(dtype)[..., None]).view(self.n, self.k)


class Gptq(Quantised):
    """Eight codes along k in a word, which lies beside those of the next rows; scales and zero points less one for each 128 of k, these in words too."""

    group = 128

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        words = {
            name: torch.randint(-(2**31), 2**31, shape).to(torch.int32) for name, shape in {"codes": (k // 8, n), "zeros": (k // self.group, n // 8)}.items()
        }
        return words | {"scale": self.scales(k // self.group, n, dtype=dtype, top=6.5)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        places = torch.arange(0, 32, 4, dtype=torch.int32, device=self.codes.device)
        codes = ((self.codes.unsqueeze(1) >> places.unsqueeze(-1)) & 15).view(-1, self.group, self.n)
        zeros = ((self.zeros.unsqueeze(2) >> places) & 15).view(-1, 1, self.n) + 1
        return (self.scale.to(dtype).unsqueeze(1) * (codes - zeros)).view(self.k, self.n).t()


class GptqSmall(Gptq):
    group = 64


class GptqOrdered(Gptq):
    """The same with the group of each place along k in a tensor: groups in the order of activations."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return super().stored(n, k, dtype) | {"groups": (torch.arange(k) // self.group)[torch.randperm(k)].to(torch.int32)}

    def weight(self, dtype: torch.dtype) -> Tensor:
        places = torch.arange(0, 32, 4, dtype=torch.int32, device=self.codes.device)
        codes = ((self.codes.unsqueeze(1) >> places.unsqueeze(-1)) & 15).view(self.k, self.n)
        zeros = ((self.zeros.unsqueeze(2) >> places) & 15).view(-1, self.n) + 1
        groups = self.groups.long()
        return (self.scale.to(dtype)[groups] * (codes - zeros[groups])).t()


class Awq(Gptq):
    """Eight neighbouring rows in a word at each place of k, in the order 0 2 4 6 1 3 5 7; zero points alike."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        return super().stored(n, k, dtype) | {"codes": torch.randint(-(2**31), 2**31, (k, n // 8)).to(torch.int32)}

    def unpacked(self, words: Tensor) -> Tensor:
        codes = (words[:, :, None] >> torch.arange(0, 32, 4, device=words.device)).to(torch.int8).view(words.shape[0], -1)
        place = torch.arange(codes.shape[-1], device=words.device)  # its code is that of 0 4 1 5 2 6 3 7
        return codes[:, place // 8 * 8 + place % 2 * 4 + place % 8 // 2] & 15

    def weight(self, dtype: torch.dtype) -> Tensor:
        scale, zeros = self.scale.to(dtype).repeat_interleave(self.group, 0), self.unpacked(self.zeros).repeat_interleave(self.group, 0)
        return ((self.unpacked(self.codes) - zeros) * scale).t()


class Nf4(Quantised):
    """Two codes a byte, the upper first, of a table of 16; a scale for each 64 of k."""

    def stored(self, n: int, k: int, dtype: torch.dtype) -> dict[str, Tensor]:
        table = torch.distributions.Normal(0, 1).icdf(torch.linspace(0.03, 0.97, 16)) / 1.9
        return {
            "codes": torch.randint(0, 256, (n * k // 2, 1), dtype=torch.uint8),
            "table": table,
            "scale": self.scales(n * k // 64, 1, dtype=torch.float32, top=0.5),
        }

    def weight(self, dtype: torch.dtype) -> Tensor:
        codes = torch.stack((self.codes >> 4, self.codes & 15), -1).reshape(-1, 64).long()
        wide = torch.promote_types(dtype, torch.float32)
        return (self.table.to(wide)[codes] * self.scale.to(wide)).view(self.n, self.k).to(dtype)


FORMS: dict[str, type[Quantised]] = {
    "int8": Int8, "int8_weights": Int8Weights, "uint8": UInt8, "int8_groups": Int8Groups, "e4m3": Float8, "e5m2": Float8Wide,
    "e4m3_blocks": Float8Blocks, "int4": Int4, "int4_small": Int4Small, "uint4": UInt4, "words4": Words4,
    "gptq": Gptq, "gptq_small": GptqSmall, "gptq_ordered": GptqOrdered, "awq": Awq, "nf4": Nf4,
}  # fmt: skip


class Chain(nn.Module):
    """Layers of one form, one after the other: what a row of results has more or less than the next takes is left out or repeated."""

    def __init__(self, form: str, n: int, k: int, dtype: torch.dtype, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FORMS[form](n, k, dtype) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        rows = x
        for layer in self.layers:
            found = layer(rows)
            # The next layer's x hangs on this one's results, whatever their sizes.
            repeated = found.repeat(1, -(-x.shape[1] // found.shape[1])) if found.shape[1] < x.shape[1] else found
            rows = x + repeated[:, : x.shape[1]]
        return found

    def stored_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.buffers())


def errors(chain: Chain, x: Tensor, ours: Tensor) -> tuple[float, float]:
    """Relative Frobenius norms, ours and eager's, of one layer."""
    exact = x.double() @ chain.layers[0].weight(torch.float64).t()

    def error(found: Tensor) -> float:
        return float((found.double() - exact).norm() / exact.norm())

    return error(ours), error(chain.layers[0](x))


def made(form: str, n: int, k: int, rows: int, dtype: torch.dtype, count: int, folder: Path) -> tuple[Chain, Tensor, Any, list[Any], dict[str, Any]]:
    torch.manual_seed(n + k + rows)
    chain = Chain(form, n, k, dtype, count).cuda().eval()
    x = torch.randn(rows, k, dtype=dtype, device="cuda")
    program, cubins, blobs = program_of(folder / "task.py", chain, ((x,), {}), folder)
    executor, given = executor_of(program, cubins, blobs, chain, (x,))
    return chain, x, executor, given, program


def checked(case: tuple[str, str, int, torch.dtype]) -> dict[str, Any]:
    form, name, rows, dtype = case
    n, k = CHECKED[name]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        row: dict[str, Any] = {"form": form, "layer": name, "rows": rows, "dtype": str(dtype)}
        try:
            chain, x, executor, given, program = made(form, n, k, rows, dtype, 1, Path(folder))
            first = executor.run(given)[0].clone()
            row["error"], row["eager_error"] = errors(chain, x, first)
            row["same_again"] = all(torch.equal(first, executor.run(given)[0]) for _ in range(5))
            row["skinny"] = any("skinny_product<" in kernel["source"] for kernel in program["kernels"])
            row["right"] = row["error"] <= 2 * row["eager_error"] and row["same_again"]
        except Exception as error:
            row |= {"right": False, "failed": f"{type(error).__name__}: {error}"[:500]}
        return row


def check(options: argparse.Namespace) -> int:
    cases = [
        (form, name, rows, dtype)
        for form in options.forms
        for name in CHECKED
        for rows in (1, 2, 3, 5, 8, 12, 16)
        for dtype in (torch.bfloat16, torch.float16)
        if dtype == torch.bfloat16 or name == "square" or rows in (1, 16)
    ]
    wrong = others = 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for row in pool.map(checked, cases):
            others += not row.get("skinny", False)
            if not row["right"] or options.all:
                print(json.dumps(row), flush=True)
            wrong += not row["right"]
    print(f"{len(cases)} quantised products: {wrong} wrong, {others} by another template")
    return 1 if wrong or others else 0


def times(options: argparse.Namespace) -> None:
    rate = read_rate()
    for model in options.models.split(","):
        for name, (n, k) in SHAPES[model].items():
            for form in options.forms:
                for rows in map(int, options.rows.split(",")):
                    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                        each = Chain(form, n, k, torch.bfloat16, 1).stored_bytes()
                        count = max(4, -(-(400 << 20) // each))
                        chain, x, executor, given, program = made(form, n, k, rows, torch.bfloat16, count, Path(folder))
                        executor.run(given)
                        row: dict[str, Any] = {"device": torch.cuda.get_device_name(), "form": form, "layer": name, "n": n, "k": k, "rows": rows}
                        calls: dict[str, Callable[[], Any]] = {"planish": lambda e=executor, g=given: e.run(g)}
                        calls |= torch_forms(chain, (x,), [one for one in options.torch.split(",") if one])
                        row["launches"] = sum(step["kind"] == "launch" for step in program["steps"]) / count
                        row["us"] = {call: round(ms * 1e3 / count, 2) for call, ms in times_in_turn(calls, rounds=5, seconds=0.05).items()}
                        row |= {"bytes": each, "of_rate": round(each / rate / row["us"]["planish"] * 1e6, 3)}
                        print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", type=lambda text: text.split(","), default=list(FORMS))
    parser.add_argument("--rows", default="1,4,8,16")
    parser.add_argument("--models", default="llama")
    parser.add_argument("--torch", default="graph")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--all", action="store_true", help="print every row of a check")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    if options.check:
        return check(options)
    times(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
