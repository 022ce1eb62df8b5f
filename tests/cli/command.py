"""Runs the built command in a home of its own: store, cache and configuration lie under it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish-bin"
if not BINARY.exists():
    raise FileNotFoundError(f"{BINARY}: make build first")


@dataclass
class Home:
    """The folder that stands for a user's home. `run` returns what the shell would see."""

    path: Path
    #: Variables of all its commands.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Where its store lies, if not in `path`. What one evaluator is to hide from guests that wait: guests that were started for another store are ended.
    stored: Path | None = None

    @property
    def data(self) -> Path:
        return self.stored or self.path / "data"

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PLANISH_", "XDG_"))}
        if "PLANISH_PYTHON" in os.environ:
            kept["PLANISH_PYTHON"] = os.environ["PLANISH_PYTHON"]
        home = str(self.path)
        kept |= {"HOME": home, "XDG_DATA_HOME": str(self.data), "XDG_CACHE_HOME": f"{home}/cache", "XDG_CONFIG_HOME": f"{home}/config"}
        return kept | dict(self.settings) | (extra or {})

    def run(self, *arguments: str, env: dict[str, str] | None = None, timeout: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [str(BINARY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment(env), cwd=self.path, timeout=timeout, check=False, **options)

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        command = [str(BINARY), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self.environment(env), cwd=self.path)

    def task(self, source: str, name: str = "task.py") -> str:
        """Writes a task file; its path as the user would type it."""
        (self.path / name).write_text(source)
        return name

    def document(self, *arguments: str, **options: Any) -> tuple[int, dict[str, Any]]:
        done = self.run(*arguments, "--json", **options)
        return done.returncode, json.loads(done.stdout)

    def store_bytes(self) -> dict[str, bytes]:
        """Every file of the data folder; empty when nothing was ever stored."""
        return {str(p.relative_to(self.data)): p.read_bytes() for p in sorted(self.data.rglob("*")) if p.is_file()}


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def processes_with(word: str) -> list[str]:
    """Command lines of live processes whose command or environment holds `word`."""
    found = []
    for folder in _process_folders():
        try:
            command = (folder / "cmdline").read_bytes()
            if int(folder.name) == os.getpid() or not command:  # a zombie has no command line
                continue
            if word.encode() in command or word.encode() in (folder / "environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def _process_folders() -> Iterable[Path]:
    return (p for p in Path("/proc").iterdir() if p.name.isdigit())
