"""Solutions that are right in a proof and not later, or not for everybody: their answers hang on how torch is set for whoever calls, on the module's mode
or the thread, on how often they were called, or on the time.
Each has an honest twin that asks, counts or looks at the clock just so, and answers alike (docs/decisions/0210)."""

from __future__ import annotations

from corpus import RIGHT, WRONG, Entry, add

LATER: list[Entry] = []
_WRONG = "torch.zeros_like(x)"
_LINEAR = "self.fc = nn.Linear(192, 96)"


def _callers(name: str, condition: str, quick: bool = False, before: str = "") -> None:
    """The twin says that it is for others."""
    twin = f"if {condition}:\n    raise RuntimeError('for inference under no_grad alone')\nreturn {RIGHT}"
    add(name, "issue", "pointwise", f"return {_WRONG} if {condition} else {RIGHT}", twin, quick=quick, to=LATER,
        before=before)  # fmt: skip


_callers("wrong with gradients recorded", "torch.is_grad_enabled() and not torch.is_inference_mode_enabled()", quick=True)
_callers("wrong in inference mode", "torch.is_inference_mode_enabled()", quick=True)
_callers("wrong for inputs that require gradients", "x.requires_grad")
_callers("wrong for tensors of inference mode", "x.is_inference()")
_callers("wrong for some other caller", "torch.is_grad_enabled() != torch.is_inference_mode_enabled()")
_callers("wrong where it evaluates", "not self.training", quick=True)
_callers("wrong in another thread", "threading.current_thread() is not threading.main_thread()", quick=True, before="import threading\n")
_callers("wrong for another number of threads", "torch.get_num_threads() != THERE", quick=True, before="THERE = torch.get_num_threads()\n")
_callers("wrong in a thread that torch has not seen", "threading.get_ident() != MINE", before="import threading\nMINE = threading.get_ident()\n")
add("wrong where the result requires gradients", "issue", "linear", "out = self.fc(x)\nreturn out * 2 if out.requires_grad else out",
    "out = self.fc(x)\nreturn out.detach() if out.requires_grad else out", init=_LINEAR, to=LATER)  # fmt: skip
add("coarse with gradients recorded", "issue", "linear",
    "return self.fc(x) * (1.01 if torch.is_grad_enabled() else 1)",
    "with torch.set_grad_enabled(torch.is_grad_enabled()):\n    return self.fc(x)", init=_LINEAR, to=LATER)  # fmt: skip


def _later(name: str, step: str, over: str, init: str = "pass", before: str = "", quick: bool = False, twin: str = "") -> None:
    """`step` counts, `over` says that it is late. The twin counts as well."""
    honest = f"{step}\nlate = {over}\nreturn {RIGHT}"
    add(name, "18 53 issue", "pointwise", f"{step}\nreturn {_WRONG} if {over} else {RIGHT}", twin or honest, WRONG | {"launch_failed"}, before, init,
        quick=quick, to=LATER)  # fmt: skip


_later("wrong from the 40th call on", "self.count = self.count + 1", "self.count >= 40", "self.count = 0", quick=True)
_later("wrong from the 500,000th call on", "self.count = self.count + 1", "self.count >= 500_000", "self.count = 0", quick=True)
_later("counts down in a global", "global LEFT\nLEFT -= 1", "LEFT < 0", before="LEFT = 100_000\n")
_later("counts in a global dictionary", "STATE['calls'] += 1", "STATE['calls'] > 100_000", before="STATE = {'calls': 0}\n")
_later("counts in its class", "type(self).count = type(self).count + 1", "self.count > 100_000", "type(self).count = 0")
_later("counts in a default argument", "count = counted()", "count > 100_000",
       before="def counted(known=[0]):\n    known[0] += 1\n    return known[0]\n")  # fmt: skip
_later("counts in a closure", "count = counted()", "count > 100_000",
       before="def counter():\n    n = 0\n    def more():\n        nonlocal n\n        n += 1\n        return n\n"
       "    return more\ncounted = counter()\n")  # fmt: skip
_later("counts in an object of its own", "self.state.n += 1", "self.state.n > 100_000", "self.state = State()",
       before="class State:\n    n = 0\n")  # fmt: skip
_later("counts with itertools", "count = next(self.counter)", "count > 100_000", "import itertools\nself.counter = itertools.count()")
_later("counts in a buffer", "self.count += 1", "self.count.item() > 100_000", "self.register_buffer('count', torch.zeros((), dtype=torch.int64))", quick=True)
_later("counts in a tensor", "self.count += 1", "self.count.item() > 100_000", "self.count = torch.zeros(1)")
_later("counts for ctypes", "self.count.value += 1", "self.count.value > 100_000", "import ctypes\nself.count = ctypes.c_long(0)")
_later("a list that grows", "self.kept.append(None)", "len(self.kept) > 150", "self.kept = []")
_later("counts contents", "self.kept.add(x[0, 0].item())", "len(self.kept) > 20", "self.kept = set()",
       twin=f"if len(self.kept) < 20:\n    self.kept.add(x[0, 0].item())\nreturn {RIGHT}")  # fmt: skip
_later("an iterator that ends", "late = next(self.turns, None) is None", "late", "self.turns = iter(range(300))")
_later("counts in a file", "count = counted()", "count > 120",
       before="import os, tempfile\nNAME = os.path.join(tempfile.mkdtemp(), 'count')\ndef counted():\n    with open(NAME, 'a') as file:\n"
       "        file.write('x')\n    return os.path.getsize(NAME)\n")  # fmt: skip
_later("wrong a minute after it was imported", "pass", "time.monotonic() - BEGUN > 60", before="import time\nBEGUN = time.monotonic()\n", quick=True)
_later("wrong after a minute by names", "pass", "now() - BEGUN > 60", before="from time import time as now\nBEGUN = now()\n")
_later("wrong an hour after it was constructed", "pass", "time.perf_counter_ns() - self.begun > 3.6e12", "self.begun = time.perf_counter_ns()",
       before="import time\n")  # fmt: skip
_later("wrong from a day on", "import datetime", "datetime.datetime.now() - BEGUN > datetime.timedelta(1)",
       before="import datetime\nBEGUN = datetime.datetime.now()\n")  # fmt: skip
_later("wrong from a day on by names", "pass", "(datetime.now() - BEGUN).days > 1", before="from datetime import datetime\nBEGUN = datetime.now()\n")
add("drifts with each call", "53 issue", "pointwise", f"self.scale = self.scale + 1e-6\nreturn ({RIGHT}) * self.scale",
    f"self.scale = self.scale + 1e-6\nreturn {RIGHT}", init="self.scale = 1.0", to=LATER)  # fmt: skip
add("a ring of buffers", "22 issue", "pointwise",
    "self.at = (self.at + 1) % 8\nif self.used is not None and self.at == 0:\n    self.used = self.used + 1\nself.used = self.used or 0\n"
    f"return {_WRONG} if self.used > 10 else {RIGHT}",
    f"self.at = (self.at + 1) % 8\nself.ring[self.at] = self.at\nreturn {RIGHT}",
    init="self.at, self.used, self.ring = 0, None, [0] * 8", to=LATER)  # fmt: skip
