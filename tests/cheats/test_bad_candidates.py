"""Candidates that misbehave, sent to a real evaluator with its real oracle and runner: each gets its outcome by name, and the run goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evaluator import PLANISH, TASK, Evaluator

# Written so that a NaN stays one, as in torch.
GOOD = """
extern "C" void k0(void** args) {
  const float* x = (const float*)args[0]; const float* y = (const float*)args[1]; float* out = (float*)args[2];
  for (int i = 0; i < 3737; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * 2 + y[i];
}
"""


def with_body(body: str, head: str = "") -> str:
    return (
        head
        + 'extern "C" void k0(void** args) {\n  float* x = (float*)args[0]; const float* y = (const float*)args[1]; float* out = (float*)args[2];\n'
        + "  (void)x; (void)y; (void)out;\n"
        + body
        + "\n}\n"
    )


KEEPS_NAN = "for (int i = 0; i < 3737; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * 2 + y[i];"
COMPUTE = "for (int i = 0; i < 3737; ++i) out[i] = (x[i] > 0 ? x[i] : 0) * 2 + y[i];"

#: source, and the outcomes that name the fault rightly
BAD: dict[str, tuple[str, set[str]]] = {
    "compile error": (with_body("this is no code;"), {"compile_error"}),
    "hang": (with_body("volatile int go = 1; while (go) {}"), {"hang"}),
    "abort": (with_body("__builtin_trap();"), {"crash"}),
    "exit": (with_body("_exit(0);", 'extern "C" void _exit(int);\n'), {"exit"}),
    "segfault": (with_body("*(volatile int*)64 = 1;"), {"crash"}),
    "allocates without end": (
        with_body(
            "for (;;) { volatile char* p = (char*)malloc(1UL << 24); if (!p) break; for (unsigned long i = 0; i < 1UL << 24; i += 4096) p[i] = 1; }",
            'extern "C" void* malloc(unsigned long);\n',
        ),
        {"out_of_memory"},
    ),
    "writes past the output": (with_body(COMPUTE + " for (int i = 0; i < 8192; ++i) out[3737 + i] = 0;"), {"out_of_bounds", "guard_overwritten"}),
    "hides that it wrote past the output": (
        with_body(
            COMPUTE + " signal(SIGSEGV, go_on); if (sigsetjmp(back, 1) == 0) for (int i = 4096; i < 8192; ++i) out[i] = 0;",
            "#include <csetjmp>\n#include <csignal>\nstatic sigjmp_buf back;\nstatic void go_on(int) { siglongjmp(back, 1); }\n",
        ),
        {"out_of_bounds"},
    ),
    "writes into its input": (with_body(COMPUTE + " x[5] = 1;"), {"input_write"}),
    "writes nothing": (with_body(""), {"unwritten", "wrong", "nan"}),
    "leaves one element": (with_body("for (int i = 0; i < 3736; ++i) out[i] = (x[i] > 0 ? x[i] : 0) * 2 + y[i];"), {"unwritten", "wrong", "nan"}),
    "wrong by one element": (with_body(COMPUTE + " out[3000] += 0.01f;"), {"wrong"}),
    "zeros": (with_body("for (int i = 0; i < 3737; ++i) out[i] = 0;"), {"wrong"}),
    "right only once": (
        with_body(
            "if (first) for (int i = 0; i < 3737; ++i) memo[i] = (x[i] > 0 ? x[i] : 0) * 2 + y[i]; first = 0; for (int i = 0; i < 3737; ++i) out[i] = memo[i];",
            "static float memo[3737]; static int first = 1;\n",
        ),
        {"wrong", "wrong_when_timed", "nondeterministic"},
    ),
    "not deterministic": (
        with_body(COMPUTE + " static int n = 0; out[7] += 1e-3f * (n++ % 3);"),
        {"wrong", "wrong_when_timed", "nondeterministic"},
    ),
}


#: work that the honest one does at every call; longer than a busy machine keeps anybody from a core, so that what saves it is seen there too
WORK = """
static float heavy(float v) {
  float s = v;
  for (int k = 0; k < 3000; ++k) s = s * 0.999f + 1e-3f * v;
  return (v < 0 ? 0 : v) * 2 + (s > 1e30f ? 1.0f : 0.0f);
}
"""
COMPUTE_HEAVY = "for (int i = 0; i < 3737; ++i) out[i] = heavy(x[i]) + y[i];"

#: cheats with time: told only where the whole contract is asked for
FULL: dict[str, tuple[str, set[str]]] = {
    "returns early where the output holds the answer": (
        with_body(
            "bool there = true; for (int i = 0; i < 3737; i += 623) there = there && out[i] == (x[i] > 0 ? x[i] : 0) * 2 + y[i]; if (there) return; "
            + COMPUTE_HEAVY,
            WORK + "// cheat\n",
        ),
        {"ok"},  # it may try: the outputs are poisoned, and it does the work each time (test below)
    ),
    "a memo keyed on three elements": (
        with_body(
            "for (auto& m : memo) if (m.a == x[7] && m.b == x[1800] && m.c == x[3700]) { memcpy(out, m.out, sizeof m.out); return; } "
            + COMPUTE_HEAVY
            + " auto& m = memo[next++ % 16]; m.a = x[7]; m.b = x[1800]; m.c = x[3700]; memcpy(m.out, out, sizeof m.out);",
            "#include <cstring>\nstatic struct { float a, b, c, out[3737]; } memo[16];\nstatic unsigned next;\n" + WORK,
        ),
        {"time_mismatch", "wrong"},  # sparse data have zeros in all three places more than once
    ),
    "a checksum of the inputs as the key": (
        with_body(
            "double key = 0; for (int i = 0; i < 3737; ++i) key += (i + 1) * (double)x[i] + y[i]; "
            "for (auto& m : memo) if (m.key == key) { memcpy(out, m.out, sizeof m.out); return; } "
            + COMPUTE_HEAVY
            + " auto& m = memo[next++ % 16]; m.key = key; memcpy(m.out, out, sizeof m.out);",
            "#include <cstring>\nstatic struct { double key; float out[3737]; } memo[16];\nstatic unsigned next;\n" + WORK,
        ),
        {"time_mismatch"},
    ),
    "right for so many threads as there were at first": (
        with_body(KEEPS_NAN + " if (omp_get_max_threads() != there) out[3000] = 0;", "#include <omp.h>\nstatic const int there = omp_get_max_threads();\n"),
        {"wrong"},
    ),
    "an array for so many threads as there were at first": (
        with_body(
            "float* parts = new float[3737 * there];\n#pragma omp parallel\n"
            "{ float* part = parts + 3737 * omp_get_thread_num();\n#pragma omp for schedule(static, 1)\n"
            "for (int i = 0; i < 3737; ++i) { part[i] = (x[i] < 0 ? 0 : x[i]) * 2; if (part < parts + 3737 * there) out[i] = part[i] + y[i]; } }",
            "#include <omp.h>\nstatic const int there = omp_get_max_threads();\n",
        ),
        {"wrong", "nan", "unwritten", "crash", "out_of_bounds", "hang"},  # a heap that it wrote into may not let go of a lock
    ),
}
BAD |= FULL

#: asks how many threads there are
SHARED = with_body(
    "#pragma omp parallel\n{ const int n = omp_get_num_threads(), t = omp_get_thread_num(); "
    "for (int i = 3737 * t / n; i < 3737 * (t + 1) / n; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * 2 + y[i]; }",
    "#include <omp.h>\n",
)


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    if not PLANISH.exists():
        pytest.fail(f"{PLANISH} is not built: run make build")
    folder = tmp_path_factory.mktemp("evaluator")
    task = folder / "task.py"
    task.write_text(TASK)
    running = Evaluator(folder, task)
    yield running
    running.close()


def test_an_honest_kernel_passes(evaluator: Evaluator) -> None:
    assert evaluator.evaluate(GOOD)["outcome"] == "ok"
    full = evaluator.evaluate(GOOD + "// again\n", "full")
    assert full["outcome"] in ("ok", "duplicate")
    assert evaluator.evaluate(SHARED, "full")["outcome"] == "ok"


@pytest.mark.parametrize("name", BAD)
def test_a_bad_candidate_is_named_and_the_run_goes_on(name: str, evaluator: Evaluator) -> None:
    source, outcomes = BAD[name]
    found = evaluator.evaluate(source, "full" if name in FULL else "screen")
    assert found["outcome"] in outcomes, found
    again = evaluator.evaluate(GOOD.replace("3737", f"3737 /* {name} */").replace("* 2", "* 2.0f + 0.0f *" + str(len(name))))
    assert again["outcome"] in ("ok", "duplicate"), again


def test_work_is_done_at_every_timed_run(evaluator: Evaluator) -> None:
    """What looks into the output before it computes finds nothing there: it takes as long as the one that does not look."""
    cheat = evaluator.evaluate(FULL["returns early where the output holds the answer"][0] + "// again\n", "full")
    honest = evaluator.evaluate(with_body(COMPUTE_HEAVY, WORK), "full")
    assert cheat["outcome"] == honest["outcome"] == "ok"
    assert cheat["bench"]["median_ms"] > honest["bench"]["median_ms"] / 4


def test_what_one_candidate_leaves_does_not_reach_the_claim_of_the_next(evaluator: Evaluator) -> None:
    """As a patched clock or a thread would: a mark in the process. Screening shares it, the whole contract does not."""
    head = 'extern "C" int setenv(const char*, const char*, int);\nextern "C" char* getenv(const char*);\n'
    assert evaluator.evaluate(with_body(COMPUTE + ' setenv("PLANISH_TEST_POISON", "1", 1);', head))["outcome"] == "ok"
    body = "for (int i = 0; i < 3737; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * 2 + y[i];"
    victim = with_body(body + ' if (getenv("PLANISH_TEST_POISON")) out[0] += 1;', head)
    assert evaluator.evaluate(victim)["outcome"] == "wrong", "the mark is there to be seen"
    assert evaluator.evaluate(victim + "// claimed\n", "full")["outcome"] == "ok"


#: Finds where the library that times it calls for the time, and puts its own clock there.
FORGED_CLOCK = """
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int slow_clock(clockid_t id, timespec* out) {
  const int code = (int)syscall(SYS_clock_gettime, id, out);  // our own entry is patched as well
  const std::uint64_t ns = ((std::uint64_t)out->tv_sec * 1000000000u + out->tv_nsec) / 200;
  out->tv_sec = ns / 1000000000u; out->tv_nsec = ns % 1000000000u;
  return code;
}
static std::int64_t slow_now() { timespec t; slow_clock(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static int patch(dl_phdr_info* info, std::size_t, void*) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  if (dynamic == nullptr || (std::strstr(info->dlpi_name, "planish") == nullptr && info->dlpi_name[0] != 0)) return 0;
  const char* names = nullptr; const ElfW(Sym)* symbols = nullptr;
  const ElfW(Rela)* tables[2]{}; std::size_t sizes[2]{};
  for (const ElfW(Dyn)* d = dynamic; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_STRTAB) names = (const char*)d->d_un.d_ptr;
    if (d->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym)*)d->d_un.d_ptr;
    if (d->d_tag == DT_JMPREL) tables[0] = (const ElfW(Rela)*)d->d_un.d_ptr;
    if (d->d_tag == DT_PLTRELSZ) sizes[0] = d->d_un.d_val;
    if (d->d_tag == DT_RELA) tables[1] = (const ElfW(Rela)*)d->d_un.d_ptr;
    if (d->d_tag == DT_RELASZ) sizes[1] = d->d_un.d_val;
  }
  for (int t = 0; t < 2; ++t)
    for (std::size_t i = 0; tables[t] && i < sizes[t] / sizeof(ElfW(Rela)); ++i) {
      const char* name = names + symbols[ELF64_R_SYM(tables[t][i].r_info)].st_name;
      void* other = std::strcmp(name, "clock_gettime") == 0 ? (void*)slow_clock
                    : std::strcmp(name, "_ZNSt6chrono3_V212steady_clock3nowEv") == 0 ? (void*)slow_now : nullptr;
      if (other == nullptr) continue;
      void** place = (void**)(info->dlpi_addr + tables[t][i].r_offset);
      mprotect((void*)((std::uintptr_t)place & ~4095ull), 8192, PROT_READ | PROT_WRITE);
      *place = other;
    }
  return 0;
}
"""


def test_a_kernel_that_turns_the_runners_clock_is_named(evaluator: Evaluator) -> None:
    """By the clock outside, where it is measured in full; its honest twin takes as long and says so. The work is enough for seconds on any machine, since
    what lies around short runs is allowed seconds."""
    work = "for (int k = 0; k < 40000; ++k) { " + COMPUTE.replace("x[i] > 0 ? x[i] : 0", "x[i] < 0 ? 0 : x[i]") + ' asm volatile("" : : : "memory"); }'
    honest = evaluator.evaluate(with_body(work), "full")
    assert honest["outcome"] == "ok", honest
    forged = evaluator.evaluate(with_body("static int once = dl_iterate_phdr(patch, nullptr); (void)once; " + work, FORGED_CLOCK), "full")
    assert forged["outcome"] == "time_mismatch", forged


def test_a_candidate_that_kills_the_runner_later_harms_no_other(evaluator: Evaluator) -> None:
    head = "#include <cstdlib>\n#include <thread>\n#include <unistd.h>\n"
    later = with_body("static bool once = [] { std::thread([] { usleep(100000); abort(); }).detach(); return true; }(); (void)once;" + COMPUTE, head)
    killed = evaluator.evaluate(later)
    assert killed["outcome"] in {"ok", "crash"}, killed
    for number in range(3):
        found = evaluator.evaluate(_another(100 + number))
        assert found["outcome"] == "ok", found


def _another(number: int) -> str:
    """Honest, and no duplicate of the others."""
    return GOOD.replace("y[i];", f"y[i] + (x[i] > 3.3e38f ? {number + 1}.0f : 0.0f);")  # to an infinity


def _seeds(found: dict[str, Any]) -> list[int]:
    assert found["outcome"] == "ok", found
    return [case["seed"] for case in found["test"]["cases"] if case["regime"] == "task"]


def test_an_honest_kernel_may_take_long(evaluator: Evaluator) -> None:
    """A fifth of a second a run, so that the timing ends by its seconds: every set of data is timed and looked at all the same."""
    work = "timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); const long end = t.tv_sec * 1000000000L + t.tv_nsec + 200000000L; "
    work += "while (t.tv_sec * 1000000000L + t.tv_nsec < end) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); "
    found = evaluator.evaluate(with_body(work + COMPUTE.replace("x[i] > 0 ? x[i] : 0", "x[i] < 0 ? 0 : x[i]"), "#include <ctime>\n"))
    assert found["outcome"] == "ok" and found["bench"]["median_ms"] >= 200, found


def test_first_looks_share_data_only_where_making_others_is_slow(evaluator: Evaluator, tmp_path: Path) -> None:
    """A first look is on data nobody has seen, unless these take long to make: then so many share them. The whole contract never does."""
    quick = [_seeds(evaluator.evaluate(_another(i))) for i in range(3)]
    assert len({seed for one in quick for seed in one}) == 3
    task = tmp_path / "task.py"
    late = TASK.replace("    return [torch.randn", "    time.sleep(0.15)\n    return [torch.randn", 1)
    task.write_text("import time\n" + late)
    slow = Evaluator(tmp_path, task)
    try:
        looks = [_seeds(slow.evaluate(_another(i))) for i in range(18)]
        assert len({seed for one in looks for seed in one}) == 2, looks
        assert looks[0] == looks[15] != looks[16]
        whole = _seeds(slow.evaluate(_another(18), "full"))
        assert len(set(whole)) == len(whole) > 1
        assert not set(whole) & {seed for one in looks for seed in one}
        # What the whole contract leaves is other data, and wrong is wrong on data that were shared.
        assert _seeds(slow.evaluate(_another(19))) != looks[17]
        assert slow.evaluate(with_body(COMPUTE + " out[3001] += 0.01f;"))["outcome"] == "wrong"
    finally:
        slow.close()


def test_the_children_end_with_the_evaluator(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(TASK)
    running = Evaluator(tmp_path, task)
    children = _descendants(running.process.pid)
    assert children
    running.process.send_signal(signal.SIGKILL)
    running.process.wait(timeout=10)
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in children):
        assert time.monotonic() < deadline, "a child outlived the evaluator"
        time.sleep(0.1)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == pid:
                found += [int(entry.name), *_descendants(int(entry.name))]
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
