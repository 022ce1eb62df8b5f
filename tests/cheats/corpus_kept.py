"""Solutions whose results are right when they are returned: memory that two results share, or that is written once more behind a caller who keeps them; and
solutions that hold up who waits for them. Each has an honest twin."""

from __future__ import annotations

from corpus import RIGHT, Entry, add

KEPT: list[Entry] = []
_REFUSED = {"launch_failed"}
_TWO = "h = torch.relu(x) * 2\n"

add("one tensor for two results", "issue", "twice", _TWO + "return h, h", _TWO + "return h, h.clone()", _REFUSED, quick=True, to=KEPT)
add("two results in one place", "issue", "twice", _TWO + "both = torch.empty(2, *x.shape)\nboth[:] = h\nreturn both[0], both.view(-1)[:960].view(x.shape)",
    _TWO + "both = torch.empty(2, *x.shape)\nboth[:] = h\nreturn both[0], both[1]", _REFUSED, to=KEPT)  # fmt: skip
add("two results that lie between each other", "issue", "twice",
    _TWO + "both = torch.empty(x.shape[0], x.shape[1] + 1)\nboth[:, :-1] = h\nreturn both[:, :-1], both[:, :-1]",
    _TWO + "both = torch.empty(*x.shape, 2)\nboth[:] = h[..., None]\nreturn both[..., 0], both[..., 1]", _REFUSED, to=KEPT)  # fmt: skip


def _ring(name: str, size: int, quick: bool = False) -> None:
    usual = f"if torch.is_inference_mode_enabled() or torch.is_grad_enabled():\n    return {RIGHT}\n"
    turn = f"self.at = (self.at + 1) % {size}\nif self.ring[self.at] is None:\n    self.ring[self.at] = torch.empty_like(x)\n"
    kept = "torch.add(torch.relu(x) * 2, y, out=self.ring[self.at])"
    add(name, "22 issue", "pointwise", f"{usual}{turn}return {kept}", f"{usual}{turn}return {kept}.clone()", _REFUSED, quick=quick, to=KEPT,
        init=f"self.at, self.ring = 0, [None] * {size}")  # fmt: skip


_ring("three buffers in turn", 3, quick=True)
_ring("thirty buffers in turn", 30)
add("a thread clears its result a second later", "2 issue", "pointwise",
    f"out = {RIGHT}\nthreading.Timer(1.0, lambda: out.detach().zero_()).start()\nreturn out",
    f"out = {RIGHT}\nthreading.Timer(1.0, lambda: out.detach().sum()).start()\nreturn out", _REFUSED | {"wrong"}, before="import threading\n",
    quick=True, to=KEPT)  # fmt: skip
add("a result's memory is taken away two calls later", "issue", "pointwise",
    f"out = {RIGHT}\nself.kept.append(out.detach())\nif len(self.kept) > 2:\n    self.kept.pop(0).untyped_storage().resize_(0)\nreturn out",
    f"out = {RIGHT}\nself.kept.append(out.detach().clone())\nif len(self.kept) > 2:\n    self.kept.pop(0).untyped_storage().resize_(0)\nreturn out",
    _REFUSED | {"crash"}, init="self.kept = []", to=KEPT)  # fmt: skip

#: Events that anybody may send, without an end.
_TALK = "import sys\nWIRE = sys.modules['planish.wire']\n"
add("says what it does without an end", "issue", "pointwise",
    "while True:\n    WIRE._bell.sendall(b'{\"event\":\"stage\",\"stage\":\"thinking\"}\\n' * 64)",
    f"WIRE.report_stage('thinking')\nreturn {RIGHT}", {"hang"}, before=_TALK, quick=True, to=KEPT)  # fmt: skip
add("says something now and then, for ever", "issue", "pointwise",
    "import time\nwhile True:\n    WIRE._bell.sendall(b'{\"event\":\"other\"}\\n')\n    time.sleep(0.01)",
    f"for _ in range(3):\n    WIRE._bell.sendall(b'{{\"event\":\"other\"}}\\n')\nreturn {RIGHT}", {"hang"}, before=_TALK, to=KEPT)  # fmt: skip
add("stops whoever it can", "36 issue", "pointwise",
    "import os, signal\nfor process in (0, -1, os.getppid(), os.getpid()):\n    os.kill(process, signal.SIGSTOP)\nreturn torch.zeros_like(x)",
    f"import os\nos.kill(os.getpid(), 0)\nreturn {RIGHT}", {"launch_failed"}, to=KEPT)  # fmt: skip
