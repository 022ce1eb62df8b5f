"""The public KernelBench harness on an exported file, as far as it goes without a GPU: how it loads a solution from its text.

PLANISH_KERNELBENCH names a checkout of github.com/ScalingIntelligence/KernelBench. tests/gpu/kernelbench_check.py does the rest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import Home
from handmade import TASK, shipped_by_hand

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import kernelbench_harness


@pytest.fixture(scope="module")
def harness() -> Any:
    checkout = os.environ.get("PLANISH_KERNELBENCH")
    if not checkout:
        pytest.skip("PLANISH_KERNELBENCH names no checkout of KernelBench")
    randn = torch.randn
    try:
        return kernelbench_harness.load(Path(checkout))
    finally:
        torch.randn = randn  # the checkout's helpers may replace it


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = shipped_by_hand(tmp_path_factory.mktemp("exported"))
    done = home.run("export", "out", "--form", "file", "--out", "file.py")
    assert done.returncode == 0, done.stderr
    return (home.path / "file.py").read_text()


def test_the_text_is_executed_beside_the_original(harness: Any, text: str) -> None:
    """In one namespace, the original first, as eval_kernel_against_ref does it, with the same seed for either constructor."""
    space: dict[str, Any] = {}
    original, get_init_inputs, get_inputs = harness.load_original_model_and_inputs(TASK, space)
    made = harness.load_custom_model(text, space, None)
    assert made is not None
    models = []
    for cls in (original, made):
        harness.set_seed(42)
        models.append(cls(*[harness._process_input_tensor(x, torch.device("cpu")) for x in get_init_inputs()]))
    reference, solution = (m.to(device="cpu", dtype=torch.float32) for m in models)
    before = solution._planish.shipped.runs()
    for grad in (False, True):  # judged without, timed with
        with torch.set_grad_enabled(grad):
            inputs = [harness._process_input_tensor(x, torch.device("cpu")) for x in get_inputs()]
            torch.testing.assert_close(solution(*inputs), reference(*inputs))
    assert solution._planish.shipped.runs() - before == 2


def test_the_text_is_imported_from_a_temporary_file(harness: Any, text: str) -> None:
    made, file = harness.load_custom_model_with_tempfile(text)
    try:
        model = made(8)
        x = torch.randn(4, 8)
        with torch.no_grad():
            torch.testing.assert_close(model(x), type(model).__mro__[1].forward(model, x))
    finally:
        file.close()
        os.remove(file.name)


def test_a_folder_that_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkout"):
        kernelbench_harness.load(Home(tmp_path).path)
