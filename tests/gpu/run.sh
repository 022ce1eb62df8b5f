#!/bin/sh
# The tests that need a GPU. Works in a checkout (after make build) and in a dist folder.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
if [ -x "$here/bin/planish" ]; then root=$here; else root=$here/build; fi
python=${PLANISH_PYTHON:-python3}
if [ -x "$here/.venv/bin/python" ] && [ -z "${PLANISH_PYTHON:-}" ]; then python=$here/.venv/bin/python; fi
"$python" -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)' || {
  echo "error: no CUDA device that torch can use" >&2
  exit 3
}
export PLANISH_PYTHON="$python" PLANISH_ROOT="$root" PYTHONPATH="$here/python"
failed=0
for test in "$here"/tests/gpu/*_smoke.py "$here"/tests/gpu/*_check.py; do
  [ -f "$test" ] || continue
  echo "== $(basename "$test")"
  "$python" "$test" || failed=$((failed + 1))
done
echo "$failed GPU test files failed"
[ "$failed" -eq 0 ]
