"""Clocks are turned for the code that asked them, and for nobody else."""

from __future__ import annotations

import datetime
import time

from planish.oracle import clocks

YEAR = 365 * 86400


def test_only_clocks_that_were_asked_are_turned() -> None:
    with clocks.watched() as asked:
        time.time_ns()
        datetime.date.today()
    before, span, today, day = time.time_ns(), time.monotonic(), datetime.date.today(), datetime.date
    with clocks.turned(asked, clocks.LATER):
        assert time.time_ns() - before > YEAR * 1e9
        assert time.monotonic() - span < YEAR, "others may wait by it"
        assert datetime.date.today() - today > datetime.timedelta(365)
        assert isinstance(today, datetime.date) and issubclass(datetime.datetime, datetime.date)
    assert datetime.date is day and time.time_ns() - before < YEAR * 1e9


def test_a_clock_that_was_not_turned_is_seen() -> None:
    def call(clock: object = time.time) -> None:
        clock()  # type: ignore[operator]
        time.time()

    with clocks.watched() as asked:
        call()
    with clocks.turned(asked, clocks.LATER), clocks.watched() as held:
        time.time()
    assert not held.line
    with clocks.turned(asked, clocks.LATER), clocks.watched() as held:
        call()
    assert held.line.startswith("test_clocks.py:")


def test_spans_that_the_standard_library_measures_do_not_count() -> None:
    import threading

    with clocks.watched() as asked:
        threading.Event().wait(0.001)
    assert not asked.found
