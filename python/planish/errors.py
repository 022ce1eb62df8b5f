"""The one exception that crosses Planish's Python code."""

from __future__ import annotations


class PlanishError(Exception):
    """What went wrong. `kind` is a stable snake_case identifier, `message` one sentence naming the thing, `hint` what to do next."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
