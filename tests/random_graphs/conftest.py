"""What tests beside the generator share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .driver import warm_up
from .parts import Tool


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    warm_up()
    made = Tool()
    yield made
    made.close()
