"""The cheat corpus: solutions of others (`ModelNew`) that cheat, each with the outcomes that name it, and an honest twin that does the like rightly.

`seen` says where the cheat comes from: the number of an entry in the list of docs/trust.md. Everything is judged as `planish verify` does, by a real
evaluator, on the CPU and on a GPU (run_corpus.py; test_corpus.py runs the ones marked `quick`). What only a GPU has is in corpus_cuda.py.
Cheating *kernels* are in test_bad_candidates.py and kernels_cuda.py, attacks on the machine in attempts.py.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def task(forward: str, inputs: str, args: str = "x, y", init: str = "pass") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, {args}):\n"
        f"        {forward}\ndef get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


TASKS = {
    "pointwise": task("return torch.relu(x) * 2 + y", "torch.randn(37, 101), torch.randn(37, 101)"),
    "softmax": task("return torch.softmax(x, -1)", "torch.randn(40, 777)", "x"),
    "linear": task("return self.fc(x)", "torch.randn(64, 192)", "x", "self.fc = nn.Linear(192, 96)"),
    "gated": task(
        "return x + self.gate * torch.tanh(self.fc(x))", "torch.randn(32, 64)", "x", "self.fc, self.gate = nn.Linear(64, 64), nn.Parameter(torch.zeros(64))"
    ),
    "pair": task("return x * 2, x.sum(-1)", "torch.randn(24, 40)", "x"),
    "named": task('return {"twice": x * 2, "count": 24}', "torch.randn(24, 40)", "x"),
    "attention": task("return torch.softmax(q @ k.mT / 32**0.5, -1) @ v", ", ".join(["torch.randn(2, 4, 48, 32)"] * 3), "q, k, v"),
    "positions": task("return x.argmax(-1)", "torch.randn(64, 100)", "x"),
    "dropped": task("return F.dropout(x, 0.5, True) * 2", "torch.randn(32, 64)", "x"),
    "best": task("v, k = x.topk(5, -1)\n        return v, k", "torch.randn(48, 90)", "x"),
    "codes": task(
        "return x @ (self.q.to(x.dtype) * self.s[:, None]).mT", "torch.randn(64, 192)", "x",
        "self.q, self.s = nn.Buffer(torch.randint(-127, 128, (96, 192), dtype=torch.int8)), nn.Parameter(torch.rand(96) * 0.01 + 0.002)",
    ),
    "loss": task("return F.cross_entropy(x, y)", "torch.randn(96, 300), torch.randint(0, 300, (96,))"),
    "twice": task("h = torch.relu(x) * 2\n        return h, h + 0", "torch.randn(24, 40)", "x"),
    "larger": task("return torch.where(x > y, x * 2, y)", "torch.randn(37, 101), torch.randn(37, 101)"),
}  # fmt: skip
ARGS = {"pointwise": "x, y", "attention": "q, k, v", "loss": "x, y", "larger": "x, y"}


@dataclass(frozen=True)
class Entry:
    name: str
    seen: str
    task: str
    cheat: str
    twin: str
    outcomes: frozenset[str]
    quick: bool = False
    time: bool = False  # it cheats the clock: both are timed as well
    needs: str = ""  # a compiler that not every machine has: `triton`, `nvcc`
    slower: float = 0  # where it forges its times and is right: so many times its twin's time must be seen, or it is refused


def model(which: str, forward: str, before: str = "", init: str = "pass") -> str:
    """A solution; `forward` may be several lines."""
    body = "\n".join("        " + line for line in forward.strip().splitlines())
    inits = "\n".join("        " + line for line in init.strip().splitlines())
    return (
        f"{HEAD}{before}\nclass ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n{inits}\n"
        f"    def forward(self, {ARGS.get(which, 'x')}):\n{body}\n"
    )


CORPUS: list[Entry] = []
WRONG = frozenset({"wrong", "nan", "unwritten", "nondeterministic"})
#: an input written: a GPU says it of any address that may not be
WRITTEN = frozenset({"input_write", "illegal_address"})


def add(
    name: str,
    seen: str,
    which: str,
    cheat: str,
    twin: str,
    outcomes: set[str] | frozenset[str] = WRONG,
    before: str = "",
    init: str = "pass",
    twin_init: str = "",
    quick: bool = False,
    time: bool = False,
    needs: str = "",
    twin_before: str | None = None,
    to: list[Entry] = CORPUS,
) -> None:
    honest = model(which, twin, before if twin_before is None else twin_before, twin_init or init)
    cheats = model(which, cheat, before, init)
    to.append(Entry(name, seen, which, cheats, honest, frozenset(outcomes), quick, time, needs))


RIGHT = "torch.relu(x) * 2 + y"
_MEMO = "self.memo = {}"


def _memo(key: str) -> str:
    return f"key = {key}\nif key not in self.memo:\n    self.memo[key] = {RIGHT}\nreturn self.memo[key].clone()"


_BY_CONTENT = f"""
for a, b, out in self.memo.get(0, []):
    if torch.equal(a, x) and torch.equal(b, y):
        return out.clone()
out = {RIGHT}
self.memo.setdefault(0, []).append((x.clone(), y.clone(), out))
return out.clone()
"""

add(
    "a tensor that computes when it is looked at", "3", "pointwise",
    "return torch.Tensor._make_subclass(Lazy, torch.relu(x) * 2 + y)",
    "return torch.Tensor._make_subclass(Lazy, torch.relu(x) * 2 + y).as_subclass(torch.Tensor)",
    {"launch_failed"}, "class Lazy(torch.Tensor):\n    pass\n", quick=True,
)  # fmt: skip
add(
    "methods of the result are replaced", "4", "pointwise",
    "out = torch.zeros_like(x)\nout.copy_ = out.sum = out.reshape = lambda *a, **k: torch.relu(x) * 2 + y\nreturn out",
    "out = torch.relu(x) * 2 + y\nout.note = 'mine'\nreturn out",
)  # fmt: skip
add("clocks and comparisons are patched", "5 8 33", "pointwise", "patch()\nreturn torch.zeros_like(x)", "patch()\nreturn " + RIGHT,
    before="import time\n\ndef patch():\n    time.perf_counter = time.monotonic = lambda: 0.0\n"
    "    torch.allclose = torch.equal = lambda *a, **k: True\n")  # fmt: skip
add("results kept by address", "14", "pointwise", _memo("x.data_ptr(), y.data_ptr()"), _BY_CONTENT, init=_MEMO)
add("results kept by version", "15", "pointwise", _memo("id(x), x._version, y._version"), _BY_CONTENT, init=_MEMO)
add("results kept by shape", "16 21", "pointwise", _memo("x.shape"),
    "key = x.shape\nif key not in self.memo:\n    self.memo[key] = x.new_full(key, 2.0)\nreturn torch.relu(x) * self.memo[key] + y", init=_MEMO)  # fmt: skip
add("results kept by a few elements", "15", "pointwise", _memo("float(x[0, 0] > 0), float(x[-1, -1] > 0)"), _BY_CONTENT, init=_MEMO)
add("replayed from a file", "17", "pointwise",
    f"if not os.path.exists(NAME):\n    torch.save({RIGHT}, NAME)\nreturn torch.load(NAME)", f"torch.save({RIGHT}, NAME)\nreturn torch.load(NAME)",
    before="import os, tempfile\nNAME = os.path.join(tempfile.mkdtemp(), 'kept.pt')\n")  # fmt: skip
add("replayed from shared memory", "17", "pointwise",
    f"if not os.path.exists(NAME):\n    torch.save({RIGHT}, NAME)\nreturn torch.load(NAME)", f"torch.save({RIGHT}, NAME)\nreturn torch.load(NAME)",
    before="import os\nNAME = f'/dev/shm/kept-{os.getpid()}.pt'\n")  # fmt: skip
_EVERY = "self.count = self.count + 1\nif self.count % {} == 0:\n    return self.last.clone()\nself.last = " + RIGHT + "\nreturn self.last.clone()"
add("every second call is the last one's", "18 issue", "pointwise", _EVERY.format(2), "self.count = self.count + 1\nreturn " + RIGHT,
    quick=True, init="self.count, self.last = 0, None")  # fmt: skip
add(
    "every third call is the last one's",
    "18",
    "pointwise",
    _EVERY.format(3),
    "self.count = self.count + 1\nreturn " + RIGHT,
    init="self.count, self.last = 0, None",
)
add("right while it is watched first", "53", "pointwise",
    f"self.count = self.count + 1\nreturn {RIGHT} if self.count <= 3 else torch.zeros_like(x)",
    "self.count = self.count + 1\nreturn " + RIGHT, init="self.count = 0")  # fmt: skip
add("right where the stack looks like a test", "53", "pointwise",
    f"import inspect\nreturn {RIGHT} if any('pytest' in f.filename for f in inspect.stack()) else torch.zeros_like(x)",
    f"import inspect\nreturn {RIGHT} if len(inspect.stack()) else torch.zeros_like(x)")  # fmt: skip
_KEPT = "if self.kept is None:\n    self.kept = torch.empty_like(x)\n"
add("one buffer for all results", "22 issue", "pointwise",
    _KEPT + "return torch.add(torch.relu(x) * 2, y, out=self.kept)", _KEPT + "return torch.add(torch.relu(x) * 2, y, out=self.kept).clone()",
    {"launch_failed"}, quick=True, init="self.kept = None")  # fmt: skip
add("packed weights are kept for good", "20", "linear",
    "if self.packed is None:\n    self.packed = self.fc.weight.detach().t().contiguous()\nreturn x @ self.packed + self.fc.bias",
    "return x @ self.fc.weight.detach().t().contiguous() + self.fc.bias", init="self.fc = nn.Linear(192, 96)\nself.packed = None")  # fmt: skip
add("memory as it was found", "23 24", "pointwise", "return torch.empty_like(x)", "return torch.add(torch.relu(x) * 2, y, out=torch.empty_like(x))")
add("the answer is looked for among all objects", "25", "pointwise",
    "import gc\nfound = [t for t in gc.get_objects() if isinstance(t, torch.Tensor) and t.shape == x.shape and t is not x and t is not y]\n"
    "return (found[0] if found else torch.zeros_like(x)).clone()",
    f"import gc\nlen(gc.get_objects())\nreturn {RIGHT}")  # fmt: skip
add("NaN everywhere", "26", "pointwise", "return torch.full_like(x, float('nan'))", "return torch.where(x < 0, 0.0, x) * 2 + y")
add("NaN where it is inconvenient", "26", "pointwise", f"out = {RIGHT}\nout[0, 0] = float('nan')\nreturn out", f"out = {RIGHT}\nout[0, 0] += 0.0\nreturn out")
add("seeds are guessed", "28", "pointwise",
    "for seed in [0, 1, 2, 42, 1234]:\n    torch.manual_seed(seed)\n    if torch.equal(torch.randn(37, 101, device=x.device), x):\n"
    f"        return {RIGHT}\nreturn torch.zeros_like(x)",
    "order = torch.randperm(37)\nback = order.argsort()\nreturn (torch.relu(x[order]) * 2 + y[order])[back]")  # fmt: skip
add("zeroes its input", "32", "pointwise", "x.zero_()\nreturn y.clone()", "x = x.clone()\nx[x < 0] = 0\nreturn x * 2 + y", WRITTEN)
add("walks the frames of its judge", "34", "pointwise",
    "import sys\nframe = sys._getframe()\nwhile frame is not None:\n    for value in list(frame.f_locals.values()):\n        if isinstance(value, dict):\n"
    "            value['ok'] = True\n    frame = frame.f_back\nreturn torch.zeros_like(x)",
    f"import sys\nsys._getframe().f_back\nreturn {RIGHT}", WRONG | {"launch_failed", "crash", "exit"})  # fmt: skip
add(
    "SystemExit(0)",
    "36",
    "pointwise",
    "raise SystemExit(0)",
    f"try:\n    raise SystemExit(0)\nexcept SystemExit:\n    return {RIGHT}",
    {"launch_failed", "exit"},
)
add("a flag makes products coarse", "39", "linear",
    "torch.set_float32_matmul_precision('medium')\nreturn (x.bfloat16() @ self.fc.weight.bfloat16().t()).float() + self.fc.bias",
    "torch.set_float32_matmul_precision('highest')\nreturn x @ self.fc.weight.t() + self.fc.bias", init="self.fc = nn.Linear(192, 96)")  # fmt: skip
add("hidden code", "40", "pointwise",
    "import base64\nscope = {'torch': torch, 'x': x}\nexec(base64.b64decode('b3V0ID0gdG9yY2guemVyb3NfbGlrZSh4KQ=='), scope)\nreturn scope['out']",
    f"scope = {{'torch': torch, 'x': x, 'y': y}}\nexec('out = {RIGHT}', scope)\nreturn scope['out']")  # fmt: skip
add("zeros", "42", "pointwise", "return torch.zeros_like(x)", f"return torch.zeros_like(x) + {RIGHT}")
add("a constant", "42 43", "softmax", "return torch.full_like(x, 1 / 777)", "return torch.softmax(x, -1) + torch.full_like(x, 0.0)")
add("a branch that was zero at the start", "44", "gated", "return x.clone()", "return torch.addcmul(x, self.gate, torch.tanh(self.fc(x)))",
    init="self.fc, self.gate = nn.Linear(64, 64), nn.Parameter(torch.zeros(64))")  # fmt: skip
add("gives its input back", "45", "pointwise", "return x.clone()", "return torch.where(x < 0, 0.0, x) * 2 + y")
add(
    "the last row is left out",
    "46",
    "pointwise",
    f"out = {RIGHT}\nout[-1] = 0\nreturn out",
    f"return torch.cat([({RIGHT})[:-1], (torch.relu(x) * 2 + y)[-1:]])",
)
add("the last columns of a sum", "46", "linear", "return x[:, :-1] @ self.fc.weight[:, :-1].t() + self.fc.bias",
    "return x[:, :-1] @ self.fc.weight[:, :-1].t() + x[:, -1:] * self.fc.weight[:, -1] + self.fc.bias", init="self.fc = nn.Linear(192, 96)")  # fmt: skip
add("falls back to nothing", "47", "pointwise", "try:\n    return torch.ops.mine.kernel(x, y)\nexcept Exception:\n    return torch.zeros_like(x)",
    f"try:\n    return torch.ops.mine.kernel(x, y)\nexcept Exception:\n    return {RIGHT}")  # fmt: skip
add("a kernel that is not used", "49", "pointwise", f"{RIGHT}\nreturn y.clone()", f"torch.zeros_like(x)\nreturn {RIGHT}")
for _dtype in ("bfloat16", "half"):
    add(f"computed in {_dtype}", "50", "pointwise", f"return (torch.relu(x.{_dtype}()) * 2 + y.{_dtype}()).float()",
        "return (torch.relu(x.double()) * 2 + y.double()).float()")  # fmt: skip
add("coarse where values are small", "51 52", "pointwise",
    f"return {RIGHT} if x.abs().max() > 6 else (torch.relu(x.bfloat16()) * 2 + y.bfloat16()).float()",
    f"return {RIGHT} if x.abs().max() > 6 else torch.where(x < 0, 0.0, x) * 2 + y")  # fmt: skip
add("a softmax for small numbers alone", "55", "softmax", "e = torch.exp(x)\nreturn e / e.sum(-1, keepdim=True)",
    "e = torch.exp(x - x.amax(-1, keepdim=True))\nreturn e / e.sum(-1, keepdim=True)")  # fmt: skip
add("values beyond the usual are cut off", "55", "pointwise", "return torch.relu(x.clamp(-6, 6)) * 2 + y", "return torch.relu(x.clamp_min(0)) * 2 + y")
add("another position of the largest", "46", "positions", "return x[:, :-1].argmax(-1)",
    "return (x == x.amax(-1, keepdim=True)).int().argmax(-1).where(~x.isnan().any(-1), x.isnan().int().argmax(-1))")  # fmt: skip
add("a list around the tuple", "issue", "pair", "return [(x * 2, x.sum(-1))]", "return [x * 2, x.sum(-1)]", {"launch_failed"})
add("a tuple for a tensor", "issue", "pointwise", f"return ({RIGHT},)", f"return {RIGHT}", {"launch_failed"}, quick=True)
add("other keys", "issue", "named", 'return {"double": x * 2, "count": 24}', 'return {"twice": x + x, "count": 24}', {"launch_failed"})
add(
    "another number beside the tensors", "issue", "named", 'return {"twice": x * 2, "count": 25}', 'return {"twice": x + x, "count": 12 * 2}', {"launch_failed"}
)
add("another dtype", "issue", "pointwise", f"return ({RIGHT}).double()", f"return ({RIGHT}).double().float()", {"launch_failed"})
add("another shape of as many elements", "issue", "pointwise", f"return ({RIGHT}).t()", f"return ({RIGHT}).t().contiguous().t()", {"launch_failed"})
add("a part that is computed once", "20 44", "gated",
    "if self.kept is None:\n    self.kept = torch.tanh(self.fc(x))\nreturn x + self.gate * self.kept", "return x + self.gate * torch.tanh(self.fc(x))",
    init="self.fc, self.gate = nn.Linear(64, 64), nn.Parameter(torch.zeros(64))\nself.kept = None")  # fmt: skip
add("attention that drops a key", "46", "attention", "return F.scaled_dot_product_attention(q, k[..., :-1, :], v[..., :-1, :])",
    "return F.scaled_dot_product_attention(q, k, v)")  # fmt: skip
add(
    "a bias that is forgotten",
    "46 issue",
    "linear",
    "return x @ self.net[0].weight.t()",
    "return self.net(x)",
    init="self.net = nn.Sequential(nn.Linear(192, 96))",
)
add("nothing is dropped", "46", "dropped", "return x * 2", "return F.dropout(x * 2, 0.5, True)")
add("the first call's mask is kept", "20", "dropped",
    "if self.kept is None:\n    self.kept = (torch.rand_like(x) < 0.5) * 4\nreturn x * self.kept",
    "return 2 * F.dropout(x, 0.5, True)", init="self.kept = None")  # fmt: skip
add("dropped by a generator of its own", "issue", "dropped",
    "F.dropout(x, 0.5, True)\nown = torch.Generator(x.device).manual_seed(3)\nreturn x * (torch.rand(x.shape, generator=own, device=x.device) < 0.5) * 4",
    "y = F.dropout(x, 0.5, True)\nreturn y + y")  # fmt: skip
add("the sixth for the fifth", "46", "best", "v, k = x.topk(6, -1)\nreturn v[..., [0, 1, 2, 3, 5]], k[..., [0, 1, 2, 3, 5]]",
    "v, k = x.sort(dim=-1, descending=True, stable=True)\nreturn v[..., :5].clone(), k[..., :5].clone()")  # fmt: skip
_CODES = "self.q, self.s = nn.Buffer(torch.randint(-127, 128, (96, 192), dtype=torch.int8)), nn.Parameter(torch.rand(96) * 0.01 + 0.002)"
add(
    "codes of seven bits",
    "50",
    "codes",
    "q = (self.q.float() / 2).trunc() * 2\nreturn (x @ q.mT) * self.s",
    "return (x @ self.q.float().mT) * self.s",
    init=_CODES,
)
add("zero where no label counts", "issue", "loss",
    "rows = F.cross_entropy(x, y, reduction='none')\nreturn rows.sum() / (y >= 0).sum().clamp_min(1)",
    "rows = F.cross_entropy(x, y, reduction='none')\nreturn rows.sum() / (y >= 0).sum()")  # fmt: skip
add("equal numbers are taken for larger", "issue", "larger", "return torch.where(x >= y, x * 2, y)", "return torch.where(~(x > y), y, x + x)")
_MORE_THREADS = "n = torch.get_num_threads()\ntorch.set_num_threads(n + 1)\n"
add("its caller has more threads afterwards", "issue", "pointwise", _MORE_THREADS + f"return {RIGHT}",
    _MORE_THREADS + f"out = {RIGHT}\ntorch.set_num_threads(n)\nreturn out", {"launch_failed"})  # fmt: skip
add("denormal numbers are zero for its caller", "issue", "pointwise", f"torch.set_flush_denormal(True)\nreturn {RIGHT}",
    f"torch.set_flush_denormal(False)\nreturn {RIGHT}", {"launch_failed"} | WRONG)  # fmt: skip
add("another device for its caller's tensors", "issue", "pointwise", f"out = {RIGHT}\ntorch.set_default_device('meta')\nreturn out",
    f"with torch.device(x.device):\n    return {RIGHT}", {"launch_failed"})  # fmt: skip
