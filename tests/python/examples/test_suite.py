"""The tasks of examples/suite: each is captured at its small size, is of the class that its name says, and stands in the README as it is."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from planish.capture import capture, load_task

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import small_tasks  # noqa: E402
import suite_table  # noqa: E402

TASKS = sorted((ROOT / "examples" / "suite").glob("*.py"))
MOST_MEGABYTES = 2500

_PRODUCT = r"linear|matmul|addmm|bmm|baddbmm|mm"
_REDUCTION = r"sum|mean|amax|max|var|logsumexp|_softmax|linalg_vector_norm"
#: for each class an operator that its graphs must have
OPERATORS = {
    "norm": r"native_layer_norm|native_group_norm|_fused_rms_norm|_native_batch_norm_legit\w*|linalg_vector_norm|avg_pool3d",
    "reduce": _REDUCTION,
    "scan": r"cumsum|cummax|logcumsumexp",
    "pool": r"(adaptive_)?(max|avg)_pool\dd",
    "loss": r"sum|mean",
    "gemm": _PRODUCT,
    "batched": _PRODUCT,
    "conv1d": r"conv1d",
    "conv2d": r"conv2d",
    "conv3d": r"conv3d",
    "depthwise": r"conv[12]d",
    "transposed": r"conv_transpose[123]d",
    "attention": r"scaled_dot_product_attention|matmul",
    "recurrent": r"lstm|gru|rnn_tanh|sigmoid",
    "network": r"linear|conv[12]d",
}
#: what a pointwise task must not have
_NOT_POINTWISE = re.compile("|".join(pattern for name, pattern in OPERATORS.items() if name not in ("recurrent",)))


def _class(name: str) -> str:
    return name.split("_")[0]


@pytest.fixture(scope="module")
def entries() -> list[suite_table.Entry]:
    return suite_table.entries()


@pytest.mark.parametrize("path", TASKS, ids=[path.stem for path in TASKS])
def test_is_captured_at_its_small_size_and_of_its_class(path: Path, tmp_path: Path) -> None:
    small = tmp_path / path.name
    small.write_text(small_tasks.small_source(path.read_text()))
    task = load_task(small)
    args, kwargs = task.make_inputs(0, "cpu")
    graph = capture(task.model, args, kwargs, tmp_path, small).graph
    nodes = graph["nodes"]
    operators = {node["op"].split(".")[1] for node in nodes}
    assert sum(t.numel() for t in args if isinstance(t, torch.Tensor)) < 1 << 16
    if _class(path.stem) == "pointwise":
        assert not [op for op in operators if _NOT_POINTWISE.fullmatch(op)]
        return
    assert [op for op in operators if re.fullmatch(OPERATORS[_class(path.stem)], op)], operators
    if _class(path.stem) == "depthwise":
        weights = [p for name, p in task.model.named_parameters() if name.endswith("weight") and p.dim() >= 3]
        assert any(p.shape[1] == 1 for p in weights)


def test_no_class_dtype_or_kind_of_size_is_missing(entries: list[suite_table.Entry]) -> None:
    assert len(entries) >= 60
    classes = Counter(_class(e.name) for e in entries)
    assert set(classes) == set(suite_table.CLASSES) and min(classes.values()) >= 2
    dtypes = Counter(dtype for e in entries for dtype in e.dtypes)
    assert min(dtypes[name] for name in ("fp32", "bf16", "fp16")) >= 12
    odd = [e for e in entries if any(size % 2 and size > 3 for size in e.sizes)]
    assert len(odd) >= 15
    assert [e.name for e in entries if "odd" in e.name and e not in odd] == []
    assert [e.name for e in entries if e.megabytes > MOST_MEGABYTES] == []


def test_networks_are_in_the_mode_that_their_name_says(entries: list[suite_table.Entry]) -> None:
    networks = [e for e in entries if e.name.startswith("network")]
    assert [e.name for e in networks if e.name.endswith("_train") != e.training] == []
    assert {e.name.rpartition("_")[2] for e in networks} == {"train", "eval"}


def test_the_table_of_the_readme_is_what_the_tasks_are(entries: list[suite_table.Entry]) -> None:
    text = suite_table.README.read_text()
    assert suite_table.replaced(text, suite_table.table(entries)) == text, "run python bench/suite_table.py --write"
    assert f"{len(entries)} tasks of our own in {len(suite_table.CLASSES)} classes" in text


@pytest.mark.parametrize(
    "source",
    ["ROWS = 4096\n", "ROWS, WIDTH = 5, 6  # small: 2\n", "A = 5  # small: 2\nB = 6  # small: 3\n"],
    ids=["no small size", "one size for two", "two lines"],
)
def test_a_task_that_does_not_name_its_small_sizes_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="small"):
        small_tasks.small_source(source)


def test_the_small_copy_differs_in_its_sizes_alone() -> None:
    source = '"""Sums."""\n\nROWS, WIDTH = 16_411, 12007  # small: 11, 203\n\n\nclass Model: ...\n'
    assert small_tasks.small_source(source) == '"""Sums."""\n\nROWS, WIDTH = 11, 203\n\n\nclass Model: ...\n'
