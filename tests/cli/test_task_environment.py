"""What a task sees of the environment: the same where it is captured and where it is run (docs/suites.md)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from command import BINARY, Home

RUNNER = BINARY.parent / "planish-runner"

#: As large as a variable of the user's says, which guests do not see.
SIZED = """import os
import torch
from torch import nn

WIDTH = 32 if os.environ.get("PUBLIC_SMALL") else 96

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))
    def forward(self, x):
        return torch.sigmoid(torch.tanh(x) * self.scale + x * x) * x

def get_inputs():
    return [torch.randn(64, WIDTH)]
"""


def seen(tmp_path: Path, *options: str) -> dict[str, str]:
    """What a command that the runner starts finds in its environment."""
    given = {
        "PATH": os.environ["PATH"], "HOME": "/h", "PUBLIC_SMALL": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0", "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": "/l", "PLANISH_RT": "/r", "PLANISH_INSIDE": "1", "PLANISH_STORE": "/s", "HF_HUB_OFFLINE": "1", "HF_TOKEN": "t", "https_proxy": "p",
        "TORCH_HOME": "/t", "TORCH_SECRET": "s", "TMPDIR": str(tmp_path), "TRITON_CACHE_DIR": "/c", "VIRTUAL_ENV": "/v", "WORLD_SIZE": "8",
    }  # fmt: skip
    done = subprocess.run([str(RUNNER), *options, "--", "/usr/bin/env", "-0"], env=given, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


def test_capture_and_guests_see_the_same(tmp_path: Path) -> None:
    captures, guests = seen(tmp_path, "--capture"), seen(tmp_path, "--guest", "--scratch", str(tmp_path))
    assert not {"PUBLIC_SMALL", "WORLD_SIZE", "PLANISH_STORE", "TORCH_SECRET"} & (captures.keys() | guests.keys())
    assert {"PATH", "HOME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PLANISH_RT", "PLANISH_INSIDE", "HF_HUB_OFFLINE"} <= captures.keys()
    caches = {"TMPDIR", "XDG_CACHE_HOME", *(name for name in guests if name.endswith(("_CACHE_DIR", "_CACHE_PATH", "_EXTENSIONS_DIR")))}
    assert captures["TMPDIR"] == str(tmp_path) and captures["TRITON_CACHE_DIR"] == "/c", "a capture keeps to the caches that there are"
    assert captures.keys() - guests.keys() - caches == {"HF_TOKEN", "https_proxy"}, "to fetch weights, which guests find in the cache"
    assert {n: v for n, v in captures.items() if n in guests.keys() - caches} == {n: v for n, v in guests.items() if n not in caches}


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done = subprocess.run([str(RUNNER), "--capture", "--", str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 127 and "cannot start" in done.stderr
    assert subprocess.run([str(RUNNER), "--capture"], capture_output=True, check=False).returncode == 2


def test_a_variable_that_only_the_users_shell_has_is_absent_everywhere(tmp_path: Path) -> None:
    home = Home(tmp_path)
    options = ("--target", "cpu", "--budget", "10s", "--evals", "3", "--seed", "1", "--baselines", "none", "--out", "out")
    code, result = home.document("optimize", home.task(SIZED), *options, env={"PUBLIC_SMALL": "1"})
    assert code in (0, 1), result
    assert result["accuracy"]["verified"] and result["accuracy"]["eager_error"] > 0
    assert "ran its program in" not in result.get("reason", "")


def test_a_variable_that_a_task_needs_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    task = home.task(SIZED.replace('32 if os.environ.get("PUBLIC_SMALL") else 96', 'int(os.environ["PUBLIC_WIDTH"])'))
    code, result = home.document("optimize", task, "--target", "cpu", env={"PUBLIC_WIDTH": "96"})
    assert code == 2 and result["error"]["kind"] == "import_failed"
    assert "PUBLIC_WIDTH" in result["error"]["message"] and "write the value of PUBLIC_WIDTH into the file" in result["error"]["hint"]
