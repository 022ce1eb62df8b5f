"""How the readers hand in what they find: one JSON object a line, in a file that only the command reads."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

#: Text of one pattern at most, in characters: what a person or a model would still read.
MOST_TEXT = 48_000
#: Bytes of all rows together: the command reads no more.
MOST_BYTES = 512 << 20


class Rows:
    """Writes rows until MOST_BYTES; then `full` is true and the rest is left out."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", errors="replace")
        self._bytes = 0
        self.full = False

    def add(self, row: dict[str, Any]) -> None:
        line = json.dumps(row) + "\n"
        if self.full or self._bytes + len(line) > MOST_BYTES:
            self.full = True
            return
        self._bytes += len(line)
        self._file.write(line)

    def skip(self, path: str, why: str) -> None:
        """A file, or a part of one, that could not be read."""
        self.add({"skipped": path, "why": " ".join(why.split())[:300]})

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._file.write(json.dumps({"end": True, "full": self.full}) + "\n")
        self._file.close()
