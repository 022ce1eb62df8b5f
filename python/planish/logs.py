"""Log categories: what Planish does in this process, for those who ask.

`PLANISH_LOGS=search,calls` (or `all`) shows lines of these categories on sys.stderr, as TORCH_LOGS does torch's. Whoever configures `logging`
has them as the loggers `planish.search` and so on; nothing is shown unasked.
"""

from __future__ import annotations

import logging
import sys
from difflib import get_close_matches

#: What each category says.
CATEGORIES = {
    "search": "commands that are started for a search, and how they ended",
    "calls": "a call that the module's own code answered instead of its program, once for each reason",
    "pieces": "graphs of torch.compile and of models in pieces: what stays as it is",
    "store": "what was found in the data folder, and what is kept there",
}


def show(categories: str) -> None:
    """Shows the named categories, separated by commas, on sys.stderr. A name that is none is said there, and does nothing."""
    for name in filter(None, (word.strip() for word in categories.split(","))):
        if name not in (*CATEGORIES, "all"):
            close = get_close_matches(name, CATEGORIES, 1)
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(CATEGORIES)}, and all"
            print(f"planish: PLANISH_LOGS names no category '{name}': {meant}", file=sys.stderr)
            continue
        logger = logging.getLogger("planish" if name == "all" else f"planish.{name}")
        if not any(isinstance(handler, _Handler) for handler in logger.handlers):
            logger.addHandler(_Handler())
        logger.setLevel(logging.DEBUG)


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """On sys.stderr as it is at that time, which notebooks and tests change."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("[%(asctime)s %(name)s] %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
