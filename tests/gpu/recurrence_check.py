"""Recurrent networks of odd sizes on this GPU, the way a user has them: optimised, proved, and shipped as kernels of ours.

About a minute. `--target cpu` tries the script where there is no GPU: there they stay PyTorch's."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
ROOT = Path(os.environ.get("PLANISH_ROOT", HERE / "build"))

# name: layer, arguments, input, more of forward
NETWORKS = {
    "stacked_lstm": ("LSTM", "33, 65, num_layers=3", "19, 7, 33", ""),
    "lstm_both_ways": ("LSTM", "16, 48, num_layers=2, bidirectional=True, batch_first=True", "5, 23, 16", ""),
    "stacked_gru": ("GRU", "24, 129, num_layers=2", "31, 9, 24", "[0].sum(-1)"),
    "gru_unbiased": ("GRU", "8, 32, bias=False, bidirectional=True", "12, 40, 8", "[1]"),
    "plain": ("RNN", "20, 77, nonlinearity='relu'", "15, 3, 20", "[0]"),
}
TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.{layer}({arguments})

    def forward(self, x):
        return self.net(x){more}

def get_inputs():
    return [torch.randn({shape})]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    target = parser.parse_args().target
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (layer, arguments, shape, more) in NETWORKS.items():
            task = Path(folder) / f"{name}.py"
            task.write_text(TASK.format(layer=layer, arguments=arguments, shape=shape, more=more))
            command = [str(ROOT / "bin" / "planish"), "optimize", str(task), "--target", target, "--budget", "3s", "--baselines", "eager"]
            command += ["--json", "--quiet", "--out", str(Path(folder) / name), "--store", str(Path(folder) / "store.db")]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            try:
                result = json.loads(done.stdout)
                found = [(r["best_ms"], r["fallback_ms"], r["summary"]) for r in result["regions"] if layer.lower() in r["summary"]]
                # What PyTorch takes longest for is the recurrence; what follows it may be too small to be worth a kernel of its own.
                most = max((theirs for _, theirs, _ in found), default=0)
                ours = bool(found) and all(best > 0 or theirs < 0.05 * most for best, theirs, _ in found)
                right = result["accuracy"]["verified"] and (ours or target == "cpu")
                said = f"{result['outcome']}, (ours, PyTorch's) in ms and region: {found}, error ratio {result['accuracy']['ratio']}"
            except (ValueError, KeyError) as error:
                right, said = False, f"{type(error).__name__}: {error}; {done.stdout[-300:]} {done.stderr[-600:]}"
            failed += not right
            print("ok  " if right else "FAIL", f"{name}: {said}", flush=True)
    print(failed, "failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
