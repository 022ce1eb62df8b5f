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
begun=$(date +%s)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
check() {
  echo "== $(($(date +%s) - begun)) s: $*"
  "$python" "$@" || failed=$((failed + 1))
}
check "$here/tests/gpu/runtime_smoke.py" "$root/lib/libplanish_rt.so" "$root/bin/planish-runner"
check "$here/tests/gpu/guards_check.py"
check "$here/tests/gpu/noise_check.py"
for set in --small --columns --windows --cross --early; do
  "$root/bin/planish-emit-dump" "$set" --most 4 --random 1 > "$scratch/dump$set.json"
  check "$here/tests/gpu/emit_check.py" "$scratch/dump$set.json" --jobs 8 --timeout 60
done
check "$here/tests/gpu/math_check.py" "$scratch/dump--small.json" --step 61
# Teams of blocks on rows that are long only for little shared memory: many blocks, few bytes.
for set in --small --columns; do
  "$root/bin/planish-emit-dump" "$set" --teams --sms 132 --shared 4096 --random 4 > "$scratch/teams$set.json"
  check "$here/tests/gpu/emit_check.py" "$scratch/teams$set.json" --jobs 8 --timeout 60
done
if "$python" -c 'import triton' 2>/dev/null; then
  "$root/bin/planish-emit-dump" --small --triton --random 2 > "$scratch/triton.json"
  check "$here/tests/gpu/emit_check.py" "$scratch/triton.json" --jobs 8 --timeout 120
fi
# Products and convolutions on Hopper's tensor cores; in a checkout only once planish-contraction-dump is built.
if [ -x "$root/bin/planish-contraction-dump" ] && "$python" -c 'import sys, torch; sys.exit(torch.cuda.get_device_capability() != (9, 0))'; then
  for set in "" --convolutions --last --transposed --pooled --folded --spread --attention; do
    "$root/bin/planish-contraction-dump" $set --seeds 2 --random 1 > "$scratch/contractions$set.json"
    check "$here/bench/contraction/check.py" "$scratch/contractions$set.json" --strict --out "$scratch/contractions$set"
  done
fi
check "$here/tests/gpu/recurrence_check.py"
check "$here/tests/gpu/graph_check.py"
check "$here/tests/gpu/habits_check.py"
check "$here/tests/gpu/covered_check.py"
check "$here/tests/gpu/varlen_check.py"
# PLANISH_CHEATS_TABLE: also write the table (docs/results/cheats_cuda.md).
if [ -n "${PLANISH_CHEATS_TABLE:-}" ]; then set -- --out "$PLANISH_CHEATS_TABLE"; else set --; fi
check "$here/tests/cheats/run_corpus.py" --target cuda "$@"
check "$here/tests/gpu/try_check.py"
check "$here/tests/gpu/memory_check.py"
if [ -n "${PLANISH_KERNELBENCH:-}" ]; then check "$here/tests/gpu/kernelbench_check.py" "$PLANISH_KERNELBENCH"; fi
if [ -f "$here/tests/gpu/random_graphs_check.py" ]; then check "$here/tests/gpu/random_graphs_check.py"; fi
echo "$failed GPU tests failed"
[ "$failed" -eq 0 ]
