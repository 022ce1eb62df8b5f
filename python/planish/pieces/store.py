"""What was found for pieces, for later processes: a folder a key, proved when it was made, compared with its digests when it is read."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planish import session

_log = logging.getLogger("planish.store")
_ABOUT = "piece.json"
_SHIPPED = "shipped"


@dataclass(frozen=True)
class Found:
    """What became of a piece. `folder` ships its program, or the form of torch.compile that was faster than eager; None: it stays as it is.
    `settings` are what it must beat and how accurate it is."""

    outcome: str  #: improved, baseline, none, or the kind of an error
    gain: float  #: over the best baseline; of a baseline over eager
    reason: str
    budget: float  #: seconds that the search had
    settings: str
    folder: Path | None


def _place(key: str) -> Path:
    return session.data_folder() / "pieces" / key


def find(key: str, budget: float, settings: str) -> Found | None:
    """What an earlier run found with these settings; None where it found nothing, in less time than there is now, and where a file of it is another
    than it was: then the folder is removed."""
    folder = _place(key)
    try:
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_text())
        files = about.pop("files")
        shipped = folder / _SHIPPED if files else None
        found = Found(**about, folder=shipped)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if shipped is not None and _digests(shipped) != files:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    wanted = found.settings == settings and (found.outcome == "improved" or budget <= 1.5 * found.budget)
    _log.info("%s: %s, found in %.3g s%s", folder, found.outcome, found.budget, "" if wanted else "; of other settings, or in less time than there is now")
    return found if wanted else None


def keep(key: str, found: Found) -> Found:
    """Takes over the folder of what was found, whole or not at all; where another process was faster its own stays, and is given back."""
    folder = _place(key)
    made = folder.with_name(f"{key}.{os.getpid()}")
    made.mkdir(parents=True)
    shipped = None
    if found.folder is not None:
        shipped = made / _SHIPPED
        shutil.move(found.folder, shipped)
    about = {k: v for k, v in asdict(found).items() if k != "folder"} | {"files": _digests(shipped) if shipped is not None else {}}
    (made / _ABOUT).write_text(json.dumps(about))
    old = find(key, found.budget, found.settings)
    if old is not None and old.outcome == "improved":
        shutil.rmtree(made)
        return old
    if folder.exists():  # of another budget, or other settings
        folder.rename(made.with_name(f"{made.name}.old"))
        shutil.rmtree(made.with_name(f"{made.name}.old"), ignore_errors=True)
    made.rename(folder)
    _log.info("%s: %s, kept", folder, found.outcome)
    return Found(**{**asdict(found), "folder": folder / _SHIPPED if shipped is not None else None})


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
