#!/bin/sh
# Makes the wheel for every CPython from 3.11 on (py3-none-manylinux), and has auditwheel check it.
# usage: wheel.sh PYTHON OUT [BUILD]    PYTHON: has what setup.sh installs. BUILD: a build tree whose programs are taken, in place of compiling them
set -eu
python=$1
out=$2
rm -rf "$out"
mkdir -p "$out/plain"
make_plain() {
  "$python" -m pip wheel . --no-deps --no-build-isolation -q --disable-pip-version-check -w "$out/plain" "$@"
}
if [ $# -lt 3 ]; then
  echo "building (minutes; ccache makes the second time short)" >&2
  make_plain
else
  make_plain --config-settings wheel.cmake=false
  cmake --install "$3" --strip --prefix "$out/tree" >/dev/null
  "$python" cmake/add_to_wheel.py "$out"/plain/*.whl "$out/tree"
  rm -rf "$out/tree"
fi
# The name says the oldest C library that it runs with: 2.34 (RHEL 9, Ubuntu 22.04, Debian 12). What needs a newer one, or a library of this machine, is refused.
PATH="$(dirname "$python"):$PATH" "$python" -m auditwheel repair --plat manylinux_2_34_x86_64 -w "$out" "$out"/plain/*.whl 2>"$out/said" ||
  { cat "$out/said" >&2; exit 1; }
rm -rf "$out/plain" "$out/said"
ls "$out"
