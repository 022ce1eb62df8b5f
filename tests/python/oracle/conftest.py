"""Cases and the harness live in tests/cheats: the bench uses them too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cheats"))
