"""Whether the oracle sees, on a real GPU, what was written beside a buffer: before it, behind it, one byte, and nothing where nothing was."""

from __future__ import annotations

import sys

from planish import rt
from planish.oracle.data import canaries_intact

SIZES = (1, 8, 255, 256, 4096, (1 << 21) - 1, 1 << 21, (1 << 21) + 12, 3 << 20)


def main() -> int:
    buffers = [rt.Buffer.create("cuda:0", size) for size in SIZES]
    wrong = []
    if not canaries_intact(buffers):
        wrong.append("fresh buffers do not count as intact")
    places = 0
    for buffer in buffers:
        for guard in buffer.guards():
            for at in {0, guard.numel() // 2, guard.numel() - 1}:
                guard[at] = 0x5A
                places += 1
                if canaries_intact(buffers) or buffer.guards_intact():
                    wrong.append(f"a byte beside {buffer.bytes} bytes, {at} of {guard.numel()}, is not seen")
                guard[at] = rt.CANARY
        buffer.raw().fill_(0x5A)
    if not canaries_intact(buffers) or not all(buffer.guards_intact() for buffer in buffers):
        wrong.append("what was mended does not count as intact")
    for buffer in buffers:
        buffer.free()
    for line in wrong:
        print("FAIL", line)
    print(f"{places} bytes beside {len(SIZES)} buffers: {len(wrong)} wrong")
    return 1 if wrong or not places else 0


if __name__ == "__main__":
    sys.exit(main())
