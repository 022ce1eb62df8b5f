"""Adds a folder to a wheel of Python alone, which is one for Linux on x86-64 from then on, and takes the first one's place.

usage: add_to_wheel.py WHEEL FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import stat
import sys
import zipfile
from pathlib import Path

TAG = "py3-none-linux_x86_64"


def as_platform(text: str) -> str:
    """WHEEL of a wheel that is for one platform."""
    kept = [line for line in text.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    return "\n".join([*kept, "Root-Is-Purelib: false", f"Tag: {TAG}", ""])


def record(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main(plain: Path, folder: Path) -> None:
    with zipfile.ZipFile(plain) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    (about,) = (name.removesuffix("WHEEL") for name in held if name.endswith(".dist-info/WHEEL"))
    held[about + "WHEEL"] = as_platform(held[about + "WHEEL"].decode()).encode()
    del held[about + "RECORD"]
    programs = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    made = plain.with_name("-".join([*plain.stem.split("-")[:2], TAG]) + ".whl")
    plain.unlink()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for name, data in {**programs, **held}.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if name in programs else 0o644)) << 16
            wheel.writestr(info, data)
        lines = [record(name, data) for name, data in {**programs, **held}.items()]
        wheel.writestr(about + "RECORD", "".join(lines) + f"{about}RECORD,,\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
