"""Solutions that are right, do their work many times over, and forge how long that takes; each with an honest twin that does it once.

A solution's interpreter is its own, so none of these is a matter of what its process says: they lose where calls are timed from outside, on contents that
only the judge knows, while nothing of the solution runs in between (docs/trust.md). A cheat that is not refused must be seen to be slow (`Entry.slower`).
"""

from __future__ import annotations

from corpus import Entry, model, task

TIMED_TASKS = {"timed": task("return torch.tanh(x @ x.t()) * 1e-2", "torch.randn(384, 512)", "x")}

WORK = """
def once(x):
    return torch.tanh(x @ x.t()) * 1e-2

def work(x):
    for _ in range(9):
        once(x)
    return once(x)
"""

#: The runner of this process, its table of methods, and whoever answers the bell.
FOUND = """
import gc, sys
RUNNER = next(o for o in gc.get_objects() if type(o).__name__ == "Runner")
TABLE = next(o for o in gc.get_objects() if type(o) is dict and "load_module" in o and "unbind" in o)
WIRE = sys.modules["planish.wire"]
MODULE = sys.modules["planish.runner.module"]
MAIN = sys.modules["__main__"]
"""

REFUSED = frozenset({"time_mismatch", "wrong_when_timed", "launch_failed", "crash", "hang", "wrong", "unwritten", "nondeterministic"})
TIMED: list[Entry] = []


def add(name: str, before: str, forward: str, init: str = "pass", twin: str = "return once(x)", twin_before: str = "", quick: bool = False) -> None:
    honest = model("timed", twin, WORK + twin_before)
    cheat = model("timed", forward, WORK + before, init)
    TIMED.append(Entry(name, "5 35 issue", "timed", cheat, honest, REFUSED, quick, time=True, slower=3))


add(
    "its clock runs slowly",
    "import time\n_now = time.perf_counter_ns\ntime.perf_counter_ns = lambda: _now() // 100\n",
    "return work(x)",
    twin_before="import time\ntime.perf_counter_ns()\n",
    quick=True,
)
add(
    "the runner's `time` and `run` answer at once",
    FOUND + "TABLE['time'] = lambda p, f: {'samples_ms': [0.01] * 10, 'median_ms': 0.01, 'lo_ms': 0.01, 'hi_ms': 0.01, 'host_us': 10.0}\n"
    "_run = TABLE['run']\nTABLE['run'] = lambda p, f: {**_run(p, f), 'ms': 0.01}\n",
    "return work(x)",
    twin_before=FOUND,
    quick=True,
)
add(
    "the bell is answered before the work is done",
    FOUND
    + """
def call(params, fds):
    handle, prepared = RUNNER._find(params["handle"], params["data"])
    RUNNER.held = [torch.empty(384, 384)]
    word = WIRE.await_bell()
    WIRE.answer_bell(word, f"{RUNNER.held[0].data_ptr()}:384,1")
    RUNNER.held[0].copy_(handle.call(prepared))
    return {}
TABLE["call"] = call
""",
    "return work(x)",
    twin_before=FOUND,
    quick=True,
)
add(
    "the bell is answered for it, from the last result",
    FOUND
    + """
KEPT = torch.empty(384, 384)
def call(params, fds):
    handle, prepared = RUNNER._find(params["handle"], params["data"])
    word = WIRE.await_bell()
    WIRE.answer_bell(word, f"{KEPT.data_ptr()}:384,1")
    KEPT.copy_(handle.call(prepared))
    return {}
TABLE["call"] = call
""",
    "return work(x)",
    twin_before=FOUND,
)
add(
    "the work is done in `before`",
    FOUND
    + """
_before = MODULE.ModuleHandle.before
def before(self, prepared):
    _before(self, prepared)
    self.model.kept = work(prepared.args[0])
MODULE.ModuleHandle.before = before
""",
    "return self.kept if self.kept is not None else work(x)",
    init="self.kept = None",
    twin_before=FOUND,
)
add(
    "the work is done in `put`",
    FOUND
    + """
_put = MODULE.put
def put(result, target, what):
    _put(work(result.of), target, what)
MODULE.put = put
""",
    "out = torch.empty(384, 384)\nout.of = x\nreturn out",
    twin="out = once(x)\nout.of = x\nreturn out",
    twin_before=FOUND,
)
add(
    "the work is done in Tensor.copy_",
    """
_copy = torch.Tensor.copy_
def copy_(self, other, *more):
    of = getattr(other, "of", None)
    return _copy(self, other if of is None else work(of), *more)
torch.Tensor.copy_ = copy_
""",
    "out = torch.empty(384, 384)\nout.of = x\nreturn out",
    twin="out = torch.empty(384, 384)\nout.copy_(once(x))\nreturn out",
)
add(
    "the work is done in tree_flatten",
    """
from torch.utils import _pytree
_flatten = _pytree.tree_flatten
def tree_flatten(tree, *more, **named):
    of = getattr(tree, "of", None)
    return _flatten(tree if of is None else work(of), *more, **named)
_pytree.tree_flatten = tree_flatten
""",
    "out = torch.empty(384, 384)\nout.of = x\nreturn out",
    twin="from torch.utils import _pytree\n_pytree.tree_flatten([x])\nreturn once(x)",
)
add(
    "a lazy tensor that calls itself a Parameter",
    """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [work(a.of) if isinstance(a, Lazy) and hasattr(a, "of") else a for a in args]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*plain, **(kwargs or {}))
def lazy(x):
    out = torch.empty(384, 384).as_subclass(Lazy)
    out.of = x
    return out
torch.nn.Parameter = Lazy
""",
    "return lazy(x)",
    twin="return once(x).as_subclass(torch.Tensor)",
)
_MEMO = """
key = tuple(x.flatten()[[0, 1000, -1]].tolist())
seen, out = self.memo.get(key, (0, None))
if seen <= {met}:
    out = work(x)
self.memo[key] = (seen + 1, out)
return out.clone()
"""
add("results kept by three elements", "", _MEMO.format(met=0), init="self.memo = {}")
add("results used after seven meetings", "", _MEMO.format(met=7), init="self.memo = {}")
#: A thread that works on whatever is written, before anybody asks for it, and keeps what it made: to be `taken`.
_KNOWN = """
import ctypes, os, signal, threading, time
DONE = {{}}
def watch(x):
    while True:
        key = float(x.sum())
        if key not in DONE:
            DONE[key] = work(x.clone())
        time.sleep(0.0002)
def known(x):
    if x.data_ptr() not in DONE:
        DONE[x.data_ptr()] = threading.Thread(target=watch, args=(x,), daemon=True)
        DONE[x.data_ptr()].start()
    for _ in range(3):
        out = DONE.{taken}
        if out is not None:
            return out.clone()
    return work(x)
"""
_KEPT, _TAKEN = _KNOWN.format(taken="get(float(x.sum()))"), _KNOWN.format(taken="pop(float(x.sum()), None)")
add("a thread works on what is written, before anybody asks", FOUND + _KEPT, "return known(x)")
#: Who goes on although it was stopped sees that sooner.
add(
    "a timer wakes it up while it is stopped",
    _TAKEN
    + """
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
class Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("every", "every_ns", "first", "first_ns")]
LIBC, TIMER = ctypes.CDLL(None), ctypes.c_void_p()
LIBC.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0, b"")), ctypes.byref(TIMER))
LIBC.timer_settime(TIMER, 0, ctypes.byref(Spec(0, 300_000, 0, 300_000)), None)
""",
    "return known(x)",
    twin_before="import threading\nthreading.Timer(0.001, int).start()\n",
    quick=True,
)
add(
    "two processes wake each other up",
    _TAKEN
    + """
def wake(process):
    while True:
        try:
            os.kill(process, signal.SIGCONT)
        except OSError:
            pass
        time.sleep(0.0001)
MINE, OTHER = os.getpid(), os.fork()
if OTHER == 0:
    wake(MINE)
threading.Thread(target=wake, args=(OTHER,), daemon=True).start()
""",
    "return known(x)",
    twin_before="import os\nOTHER = os.fork()\nif OTHER == 0:\n    os._exit(0)\nos.waitpid(OTHER, 0)\n",
)
add(
    "it keeps the processors busy while others are timed",
    """
import threading, time
BUSY = threading.Event()
def burn():
    a = torch.randn(300, 300)
    while BUSY.wait():
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end:
            a @ a
        BUSY.clear()
for _ in range(4):
    threading.Thread(target=burn, daemon=True).start()
""",
    "BUSY.clear()\nout = work(x)\nBUSY.set()\nreturn out",
    twin_before="import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    quick=True,
)
