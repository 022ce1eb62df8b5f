"""For all tests: the collector of Python does not look through PyTorch and the tests themselves each time that a test's captures make it run."""

from __future__ import annotations

import gc

import pytest

gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """All that is imported by now stays; what tests make from here on is collected as ever."""
    gc.freeze()
    gc.enable()
