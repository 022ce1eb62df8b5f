#!/bin/sh
# Packs a folder that runs on another x86-64 Linux (glibc >= 2.34) with nothing installed but PyTorch.
# usage: dist.sh BUILD DIST
set -eu
build=$1
dist=$2
rm -rf "$dist.tmp"
mkdir -p "$dist.tmp/bin" "$dist.tmp/lib" "$dist.tmp/python" "$dist.tmp/tests"
for program in planish-bin planish-runner planish-compiler planish-emit-dump planish-graph-programs planish-search-draw planish-contraction-dump; do
  cp "$build/bin/$program" "$dist.tmp/bin/"
  strip "$dist.tmp/bin/$program"
done
cp "$build/lib/libplanish_rt.so" "$dist.tmp/lib/"
if [ -f "$build/lib/planish_call.so" ]; then cp "$build/lib/planish_call.so" "$dist.tmp/lib/"; fi
cat > "$dist.tmp/bin/planish" <<'LAUNCHER'
#!/bin/sh
# Starts Planish; python3 (or PLANISH_PYTHON) must be able to import torch.
here=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
: "${PLANISH_PYTHON:=python3}"
: "${PLANISH_PYTHON_PATH:=$here/../python}"
export PLANISH_PYTHON PLANISH_PYTHON_PATH
exec "$here/planish-bin" "$@"
LAUNCHER
chmod +x "$dist.tmp/bin/planish"
cp -r python/planish "$dist.tmp/python/"
cp -r examples bench Makefile README.md "$dist.tmp/" 2>/dev/null || true
mkdir -p "$dist.tmp/tests/gpu"
cp -r tests/gpu/. "$dist.tmp/tests/gpu/" 2>/dev/null || true
cp -r tests/random_graphs "$dist.tmp/tests/"
if [ -d tests/cheats ]; then cp -r tests/cheats "$dist.tmp/tests/"; fi
find "$dist.tmp" -name __pycache__ -prune -exec rm -rf {} +
rm -rf "$dist"
mv "$dist.tmp" "$dist"
du -sh "$dist"
