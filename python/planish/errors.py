"""The one exception that crosses Planish's Python code."""

from __future__ import annotations


class PlanishError(Exception):
    """What went wrong. `kind` is a stable snake_case identifier, `message` one sentence naming the thing, `hint` what to do next,
    `about` the file or folder that the message begins with, where it does. All kinds are listed in src/base/error_kind.h."""

    def __init__(self, kind: str, message: str, hint: str = "", about: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.about = about

    def __str__(self) -> str:
        """As the command prints it: an uncaught one, too, says what to do."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def task_error(kind: str, about: object, what: str, hint: str = "") -> PlanishError:
    """An error whose message begins with the task (a file, a folder, or a live module's name) that it is about."""
    return PlanishError(kind, f"{about}: {what}", hint, str(about))


def first_line(error: BaseException) -> str:
    """Its type and what it says first."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


#: What torch quotes of the CUDA runtime where the device itself failed or went away: no program can do that.
_FAILED_DEVICE = (
    "uncorrectable ECC error",
    "uncorrectable NVLink error",
    "device(s) is/are busy or unavailable",
    "no CUDA-capable device is detected",
    "a hardware error",
)


def is_device_failure(error: BaseException) -> bool:
    """Whether the device failed, as opposed to what ran on it."""
    text = str(error)
    return any(words in text for words in _FAILED_DEVICE)
