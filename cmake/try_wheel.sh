#!/bin/sh
# Installs a wheel into a clean virtual environment, and uses it there. Prints ok.
# usage: try_wheel.sh PYTHON WHEEL [command]    PYTHON: of an environment with torch, which lends it to the clean one; command: without the search by Python
set -eu
python=$1
wheel=$2
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
"$python" -m venv "$clean/venv"
"$clean/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-index "$wheel"
if "$clean/venv/bin/python" -c 'import planish; planish.optimize' 2>"$clean/said"; then echo "error: planish.optimize needs no torch?" >&2; exit 1; fi
grep -q 'needs PyTorch' "$clean/said"
# The packages of the environment that builds, torch among them, behind those of the clean one.
"$python" -c 'import site, sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' > "$("$clean/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/builder.pth"
cat > "$clean/task.py" <<'END'
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        gate = torch.sigmoid(x)
        return torch.softmax(gate * x + (1 - gate) * y, -1)


def get_inputs():
    return [torch.randn(256, 512), torch.randn(256, 512)]
END
version=$("$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
cd "$clean"
# What a checkout sets is no part of it.
unset PLANISH_BUILD PLANISH_PYTHON PLANISH_PYTHON_PATH PLANISH_BIN PYTHONPATH
export HOME="$clean" PLANISH_DATA="$clean/data" PLANISH_STORE="$clean/store.db"
venv/bin/planish --version | grep -qF "$version"
[ "$(venv/bin/python -c 'import importlib.metadata, planish; print(planish.__file__, importlib.metadata.version("planish"))')" = \
  "$(echo "$clean"/venv/lib/python3*/site-packages/planish/__init__.py) $version" ]
venv/bin/planish optimize task.py --target cpu --budget 30s --evals 2 --baselines eager --out result --no-serve >"$clean/out" 2>&1 || [ $? -eq 1 ] ||
  { cat "$clean/out" >&2; exit 1; }
grep -q '^task: ' "$clean/out"
if [ "${3:-}" = command ]; then echo "ok"; exit 0; fi
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
venv/bin/python script.py
echo "ok"
