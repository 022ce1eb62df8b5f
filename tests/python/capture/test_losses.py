"""Decomposed losses equal torch's, and sum a row before the batch."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import capture
from planish.capture.losses import cross_entropy_loss, kl_div, multilabel_margin_loss_forward
from planish.oracle.interpret import ancestors
from torch import nn
from torch.nn import functional as F

NAMES = ("none", "mean", "sum")


@pytest.mark.parametrize("reduction", range(3))
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(reduction: int, log_target: bool) -> None:
    x, y = torch.randn(5, 7, dtype=torch.float64), torch.rand(5, 7, dtype=torch.float64)
    y[0, 0] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice on "mean"
        want = F.kl_div(x, y, reduction=NAMES[reduction], log_target=log_target)
    torch.testing.assert_close(kl_div(x, y, reduction, log_target=log_target), want)


@pytest.mark.parametrize("reduction", range(3))
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 7, 3)])
@pytest.mark.parametrize(("weighted", "smoothing"), [(False, 0.0), (True, 0.1)])
def test_cross_entropy_of_probabilities(reduction: int, shape: tuple[int, ...], weighted: bool, smoothing: float) -> None:
    x, y = torch.randn(shape, dtype=torch.float64), torch.rand(shape, dtype=torch.float64)
    weight = torch.rand(7, dtype=torch.float64) if weighted else None
    want = F.cross_entropy(x, y, weight, reduction=NAMES[reduction], label_smoothing=smoothing)
    torch.testing.assert_close(cross_entropy_loss(x, y, weight, reduction, -100, smoothing), want)


@pytest.mark.parametrize("reduction", range(3))
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 7, 3)])
@pytest.mark.parametrize(("weighted", "smoothing"), [(False, 0.0), (True, 0.0), (False, 0.1), (True, 0.1)])
def test_cross_entropy_of_classes(reduction: int, shape: tuple[int, ...], weighted: bool, smoothing: float) -> None:
    x, y = torch.randn(shape, dtype=torch.float64), torch.randint(0, 7, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if y.dim():
        y[0], y[1] = 3, 2
    else:
        y.fill_(2)  # a mean of nothing but ignored rows is NaN
    weight = torch.rand(7, dtype=torch.float64) if weighted else None
    want = F.cross_entropy(x, y, weight, reduction=NAMES[reduction], ignore_index=3, label_smoothing=smoothing)
    torch.testing.assert_close(cross_entropy_loss(x, y, weight, reduction, 3, smoothing), want)


class Loss(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


def ops(function: Callable[..., torch.Tensor], args: tuple[Any, ...], blobs: Path) -> list[str]:
    """Names of the operators that the result needs."""
    captured = capture(Loss(function), args, {}, blobs)
    needed = ancestors(captured, [o["value"] for o in captured.graph["outputs"]])
    return [captured.graph["nodes"][i]["op"].split(".")[1] for i in needed]


def test_losses_are_decomposed_and_sum_rows_first(tmp_path: Path) -> None:
    x, y, classes = torch.randn(5, 7), torch.rand(5, 7), torch.randint(0, 7, (5,))
    assert ops(lambda a, b: F.kl_div(a, b, reduction="sum", log_target=True), (x, y), tmp_path).count("sum") == 2
    assert ops(F.cross_entropy, (x, y), tmp_path).count("sum") == 2
    picked = ops(lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1, ignore_index=1), (x, classes), tmp_path)
    assert "gather" in picked and not any("loss" in op for op in picked)
    assert ops(F.binary_cross_entropy, (y, y), tmp_path) == ["binary_cross_entropy"]


@pytest.mark.parametrize("reduction", range(3))
@pytest.mark.parametrize(
    "labels",
    [[3, 0, -1, 1, -1], [[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [2, 2, -1, -1, 2]]],
    ids=["a row", "rows that end early, at once, never, and repeat a label"],
)
def test_multilabel_margin_loss(reduction: int, labels: list[int]) -> None:
    y = torch.tensor(labels)
    x = torch.randn(y.shape)
    want = torch.ops.aten.multilabel_margin_loss_forward.default(x, y, reduction)
    for ours, theirs in zip(multilabel_margin_loss_forward(x, y, reduction), want, strict=True):
        torch.testing.assert_close(ours, theirs)
