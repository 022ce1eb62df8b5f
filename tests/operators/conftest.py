"""What the tests here share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.random_graphs.driver import warm_up
from tests.random_graphs.parts import Tool


@pytest.fixture(scope="session")
def tool() -> Iterator[Tool]:
    warm_up()
    made = Tool()
    yield made
    made.close()
