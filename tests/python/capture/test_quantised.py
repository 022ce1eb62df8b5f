"""Products of 8-bit tensors become products and scales, right beside torch's own operator; what has no such form stays."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from planish.capture import capture
from planish.capture.quantised import _of_blocks, _scaled_grouped_mm, _scaled_mm_v2
from planish.oracle.interpret import Double, Interpreter, Mode

aten = torch.ops.aten
F8 = torch.float8_e4m3fn


def draw(*shape: int, dtype: torch.dtype = F8) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


class Call(torch.nn.Module):
    def __init__(self, function: object, **more: object) -> None:
        super().__init__()
        self.function, self.more = function, more

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args, **self.more)  # type: ignore[operator]


def ops_and_result(module: torch.nn.Module, args: tuple[torch.Tensor, ...], folder: Path) -> tuple[list[str], torch.Tensor]:
    found = capture(module, args, {}, folder)
    run = Interpreter(found, range(len(found.nodes)))
    inputs = {i["value"]: t for i, t in zip(found.graph["inputs"], found.flat_inputs(args, {}), strict=True)}
    wanted = found.graph["outputs"][0]["value"]
    return [n["op"] for n in found.graph["nodes"]], run.run(inputs, [wanted], Mode())[wanted]


def scaled(a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, **more: object) -> torch.Tensor:
    return torch._scaled_mm(a, b.t(), sa, sb, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scaled_products(rows: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    a, b = draw(32, 64), draw(48, 64)
    scales = (torch.rand(32, 1), torch.rand(1, 48)) if rows else (torch.tensor(0.5), torch.tensor(3.0))
    ops, result = ops_and_result(Call(scaled, out_dtype=dtype), (a, b, *scales), tmp_path)
    assert "aten.mm.default" in ops and not any("_scaled_mm" in op for op in ops)
    exact = (a.double() * scales[0]) @ (b.double().t() * scales[1])
    torch.testing.assert_close(result.double(), exact, rtol=8e-3 if dtype == torch.bfloat16 else 1e-5, atol=1e-4)
    torch.testing.assert_close(result, scaled(a, b, *scales, out_dtype=dtype))


@pytest.mark.parametrize("rows", [False, True])
def test_scaled_products_by_recipes(rows: bool, tmp_path: Path) -> None:
    a, b, bias = draw(32, 64), draw(48, 64), torch.randn(48).bfloat16()
    scales = (torch.rand(32, 1), torch.rand(1, 48)) if rows else (torch.tensor(0.5), torch.tensor(3.0))
    recipe = F.ScalingType.RowWise if rows else F.ScalingType.TensorWise

    def forward(a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.scaled_mm(a, b.t(), sa, recipe, sb, recipe, bias=bias, output_dtype=torch.bfloat16)

    ops, result = ops_and_result(Call(forward), (a, b, *scales, bias), tmp_path)
    assert "aten.mm.default" in ops and not any("_scaled_mm" in op for op in ops)
    torch.testing.assert_close(result, forward(a, b, *scales, bias))


@pytest.mark.parametrize("form", ["blocks of both", "rows of b, transposed", "padded steps"])
def test_recipes_of_blocks(form: str) -> None:
    """No CPU has torch's own."""
    m, n, k = 32, 384, 640
    a, b, steps = draw(m, k), draw(n, k), k // 128
    sa, wide_a = torch.rand(m, steps), a.double()
    sb = torch.rand(8 if form == "padded steps" else steps, n // 128)
    per_column = sb[:steps].repeat_interleave(128, 1)
    recipe_b = 5
    if form == "rows of b, transposed":
        per_column = torch.rand(steps, n)
        sb, recipe_b = per_column.t(), 4
    made = _scaled_mm_v2(a, b.t(), [sa], [4], [], [sb], [recipe_b], [], None, torch.float32)
    exact = (wide_a * sa.double().repeat_interleave(128, 1)) @ (b.double().t() * per_column.double().repeat_interleave(128, 0))
    torch.testing.assert_close(made.double(), exact, rtol=1e-5, atol=1e-3)


def grouped(a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, offs: torch.Tensor, **more: object) -> torch.Tensor:
    return torch._scaled_grouped_mm(a, b.transpose(1, 2), sa, sb, offs=offs, out_dtype=torch.bfloat16, **more)  # type: ignore[arg-type]


def test_scaled_products_of_groups(tmp_path: Path) -> None:
    """No CPU has torch's own."""
    ends = [0, 20, 33, 64]
    a, b, sa, sb = draw(64, 32), draw(4, 48, 32), torch.rand(64), torch.rand(4, 48)
    args = (a, b, sa, sb, torch.tensor(ends, dtype=torch.int32))
    found = capture(Call(grouped), args, {}, tmp_path)
    assert [n["op"] for n in found.graph["nodes"]].count("aten._grouped_mm.default") == 1
    parts = [(a[x:y].double() * sa[x:y, None]) @ (b[g].double().t() * sb[g]) for g, (x, y) in enumerate(zip([0, *ends], ends, strict=False))]
    run = Interpreter(found, range(len(found.nodes)))
    inputs = {i["value"]: t for i, t in zip(found.graph["inputs"], found.flat_inputs(args, {}), strict=True)}
    wanted = found.graph["outputs"][0]["value"]
    for mode, tolerance in ((Mode(), 8e-3), (Double(), 1e-12)):
        torch.testing.assert_close(run.run(inputs, [wanted], mode)[wanted].double(), torch.cat(parts), rtol=tolerance, atol=tolerance)


def test_other_groups_stay_torchs() -> None:
    a, b, offs = draw(64, 32), draw(4, 48, 32).transpose(1, 2), torch.tensor([0, 20, 33, 64], dtype=torch.int32)
    rows, columns = torch.rand(64), torch.rand(4, 48)
    assert _scaled_grouped_mm(a, b, rows, columns, offs).shape == (64, 48)
    assert _scaled_grouped_mm(a, b[0], rows, columns[0], offs) is NotImplemented  # parts of the sum
    assert _scaled_grouped_mm(a, b, rows.to(torch.float8_e8m0fnu), columns.to(torch.float8_e8m0fnu), offs) is NotImplemented
    assert _scaled_grouped_mm(a, b[:, :, :44], rows, columns[:, :44], offs) is NotImplemented  # whose results have gaps between rows


def test_other_recipes_stay_torchs() -> None:
    a, b, scale = draw(32, 128), draw(48, 128), torch.ones(())
    assert _scaled_mm_v2(a, b.t(), [scale], [0], [1], [scale], [0], [], None, None) is NotImplemented
    assert _scaled_mm_v2(a, b.t(), [scale, scale], [0, 0], [], [scale], [0], [], None, None) is NotImplemented
    assert _scaled_mm_v2(a, b.t(), [torch.ones(32, 4)], [3], [], [scale], [0], [], None, None) is NotImplemented


def test_scales_of_blocks() -> None:
    scale = torch.rand(3, 2)
    found = _of_blocks(scale, torch.Size((300, 256)))
    assert found.shape == (300, 256)
    assert torch.equal(found[0], scale[0].repeat_interleave(128)) and torch.equal(found[299], scale[2].repeat_interleave(128))


def test_weights_in_int8(tmp_path: Path) -> None:
    args = (torch.randn(4, 64).bfloat16(), torch.randint(-128, 128, (32, 64), dtype=torch.int8), torch.rand(32).bfloat16())
    ops, result = ops_and_result(Call(aten._weight_int8pack_mm), args, tmp_path)
    assert "aten.mm.default" in ops
    exact = (args[0].double() @ args[1].double().t()) * args[2].double()
    torch.testing.assert_close(result.double(), exact, rtol=8e-3, atol=1e-2)


def test_integers_stay_integers(tmp_path: Path) -> None:
    args = tuple(torch.randint(-128, 128, (32, 32), dtype=torch.int8) for _ in range(2))
    ops, result = ops_and_result(Call(torch._int_mm), args, tmp_path)
    assert ops == ["aten._int_mm.default"] and torch.equal(result, args[0].int() @ args[1].int())


@pytest.mark.parametrize(("stored", "seen"), [(torch.int32, torch.uint8), (torch.int32, torch.int8), (torch.int64, torch.int32), (torch.uint8, torch.int8)])
def test_words_that_are_seen_as_bytes_are_taken_apart(stored: torch.dtype, seen: torch.dtype, tmp_path: Path) -> None:
    limits = torch.iinfo(stored)
    words = torch.randint(limits.min, limits.max, (5, 6), dtype=stored)
    ops, result = ops_and_result(Call(lambda w: w.view(seen) + 0), (words,), tmp_path)
    assert "aten.view.dtype" not in ops
    assert torch.equal(result, words.view(seen))
