"""The executor on hand-written programs: aten steps, kernels, both mixed, effects and what must be refused."""

from __future__ import annotations

import hashlib
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from planish import executor as executor_module
from planish import rt
from planish.executor import Executor, ExecutorError
from programs import SCALE, add, aten, buffer, build, kernel, launch, param, program, scale, state, user


@pytest.fixture(scope="session")
def runtime() -> Path:
    return rt.find_library()


@pytest.fixture(scope="session")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return build([SCALE], tmp_path_factory.mktemp("kernels"))


def aten_only(document: dict[str, Any], blobs: Path | str = "") -> Executor:
    return Executor(document, [], blobs, None, "cpu", effects=[])


def test_aten_steps_equal_eager() -> None:
    document = program(
        [buffer("input", [4, 8], user(0)), buffer("param", [8, 8], param("w")), buffer("temp", [4, 8]), buffer("output", [4, 8])],
        [aten("aten.mm.default", [{"name": "self", "buffer": 0}, {"name": "mat2", "buffer": 1}], [2]), add(2, 0, 3)],
        [{"buffer": 3, "kind": "user"}],
    )
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    executor = aten_only(document)
    assert [(b.kind, b.index, b.name) for b in executor.bindings] == [("user", 0, ""), ("param", -1, "w")]
    assert torch.equal(executor.run([x, w])[0], x @ w + x)


def test_keyword_arguments_lists_and_several_outputs() -> None:
    document = program(
        [buffer("input", [2, 3], user(0)), buffer("output", [4, 3]), buffer("output", [3]), buffer("output", [3], dtype="i64"),
         buffer("output", [2, 3], dtype="f64")],
        [
            aten("aten.cat.default", [{"name": "tensors", "buffers": [0, 0]}, {"name": "dim", "int": 0}], [1]),
            aten("aten.max.dim", [{"name": "self", "buffer": 0}, {"name": "dim", "int": 0}, {"name": "keepdim", "bool": False}], [2, 3]),
            aten(
                "aten._to_copy.default",
                [{"name": "self", "buffer": 0}, {"name": "dtype", "dtype": "f64"}, {"name": "layout", "none": True}, {"name": "device", "enum": "cpu"},
                 {"name": "pin_memory", "none": True}, {"name": "non_blocking", "bool": False}, {"name": "memory_format", "enum": "torch.preserve_format"}],
                [4],
            ),
        ],
        [{"buffer": b, "kind": "user"} for b in (1, 2, 3, 4)],
    )  # fmt: skip
    x = torch.randn(2, 3)
    cat, values, indices, double = aten_only(document).run([x])
    assert torch.equal(cat, torch.cat([x, x]))
    assert torch.equal(values, x.max(0).values) and torch.equal(indices, x.max(0).indices)
    assert double.dtype is torch.float64 and torch.equal(double, x.double())


def test_scalars_and_aliases_come_back_in_order() -> None:
    document = program(
        [buffer("input", [3], user(0)), buffer("output", [3])],
        [add(0, 0, 1)],
        [
            {"kind": "scalar", "arg": {"float": "0x1.8p+0"}},
            {"buffer": 1, "kind": "user"},
            {"kind": "scalar", "arg": {"none": True}},
            {"buffer": 0, "kind": "user"},
        ],
    )
    x = torch.randn(3)
    number, doubled, nothing, same = aten_only(document).run([x])
    assert number == 1.5 and nothing is None and same is x and torch.equal(doubled, 2 * x)


def test_constants_are_read_from_blobs(tmp_path: Path) -> None:
    constant = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    raw = constant.numpy().tobytes()
    name = hashlib.sha256(raw).hexdigest()
    (tmp_path / name).write_bytes(raw)
    document = program(
        [buffer("const", [2, 3], {"kind": "const", "blob": name}, strides=[1, 2]), buffer("input", [2, 3], user(0)), buffer("output", [2, 3])],
        [add(0, 1, 2)],
        [{"buffer": 2, "kind": "user"}],
    )
    x = torch.randn(2, 3)
    assert torch.equal(aten_only(document, tmp_path).run([x])[0], constant + x)
    with pytest.raises(ExecutorError, match="cannot read constant"):
        aten_only(document, tmp_path / "none")
    (tmp_path / name).write_bytes(raw[:-1])
    with pytest.raises(ExecutorError, match="has 23 bytes, expected 24"):
        aten_only(document, tmp_path)


def test_states_and_inputs_are_written_back() -> None:
    document = program(
        [buffer("input", [3], user(0)), buffer("state", [3], state("mean")), buffer("output", [3]), buffer("output", [3])],
        [add(0, 1, 2), add(2, 0, 3)],
        [{"buffer": 3, "kind": "user"}, {"buffer": 2, "kind": "mutate_buffer", "target": "mean"}, {"buffer": 3, "kind": "mutate_input", "target": 0}],
    )
    x, mean = torch.randn(3), torch.randn(3)
    x0, mean0 = x.clone(), mean.clone()
    executor = aten_only(document)
    executor.execute([x, mean])
    assert torch.equal(x, x0) and torch.equal(mean, mean0), "execute alone writes nothing back"
    executor.run([x, mean])
    assert torch.equal(mean, x0 + mean0) and torch.equal(x, x0 + mean0 + x0)


def test_a_target_that_is_no_buffer_of_the_program_becomes_a_binding() -> None:
    document = program(
        [buffer("input", [3], user(0)), buffer("output", [3])],
        [add(0, 0, 1)],
        [{"buffer": 1, "kind": "mutate_buffer", "target": "last"}],
    )
    executor = aten_only(document)
    assert executor.bindings[1].name == "last" and executor.bindings[1].buffer == -1
    x, last = torch.randn(3), torch.zeros(3)
    assert executor.run([x, last]) == []
    assert torch.equal(last, 2 * x)


def test_kernels_alone(runtime: Path, binaries: list[str]) -> None:
    document = program(
        [buffer("input", [40], user(0)), buffer("temp", [40]), buffer("temp", [40]), buffer("output", [40])],
        [scale(0, 1, 40), scale(1, 2, 40, 3.0), scale(2, 3, 40, -1.0)],
        [{"buffer": 3, "kind": "user"}],
        [SCALE],
    )
    executor = Executor(document, binaries, "", runtime, "cpu")
    x = torch.randn(40)
    first, second = executor.run([x])[0], executor.run([x + 1])[0]
    assert torch.equal(first, -(x * 2 * 3)) and torch.equal(second, -((x + 1) * 2 * 3)), "each call has its own output"


def test_kernels_between_aten_steps(runtime: Path, binaries: list[str]) -> None:
    document = program(
        [buffer("input", [4, 8], user(0)), *[buffer("temp", [4, 8]) for _ in range(3)], buffer("output", [4, 8])],
        [add(0, 0, 1), scale(1, 2, 32), add(2, 0, 3), scale(3, 4, 32, 0.5)],
        [{"buffer": 4, "kind": "user"}],
        [SCALE],
    )
    x = torch.randn(4, 8)
    assert torch.allclose(Executor(document, binaries, "", runtime, "cpu").run([x])[0], (4 * x + x) / 2)


def test_an_aten_result_with_other_strides_is_copied_for_a_kernel(runtime: Path, binaries: list[str]) -> None:
    document = program(
        [buffer("input", [3, 5], user(0)), buffer("temp", [5, 3]), buffer("output", [5, 3])],
        [aten("aten.t.default", [{"name": "self", "buffer": 0}], [1]), scale(1, 2, 15)],
        [{"buffer": 2, "kind": "user"}],
        [SCALE],
    )
    x = torch.randn(3, 5)
    assert torch.equal(Executor(document, binaries, "", runtime, "cpu").run([x])[0], 2 * x.t())


def test_a_misaligned_view_is_copied_for_a_kernel(runtime: Path, tmp_path: Path) -> None:
    reports = kernel("where", "*(int64_t*)args[1] = (int64_t)args[0] & 15;")
    document = program(
        [buffer("input", [9], user(0)), buffer("temp", [8]), buffer("output", [1], dtype="i64")],
        [
            aten("aten.slice.Tensor", [{"name": "self", "buffer": 0}, {"name": "dim", "int": 0}, {"name": "start", "int": 1},
                  {"name": "end", "int": 9}, {"name": "step", "int": 1}], [1]),
            launch(0, {"buffer": 1}, {"buffer": 2}),
        ],
        [{"buffer": 2, "kind": "user"}],
        [reports],
    )  # fmt: skip
    assert int(Executor(document, build([reports], tmp_path), "", runtime, "cpu").run([torch.randn(9)])[0]) == 0


def test_kernels_write_into_given_outputs(runtime: Path, binaries: list[str]) -> None:
    document = program([buffer("input", [8], user(0)), buffer("output", [8])], [scale(0, 1, 8)], [{"buffer": 1, "kind": "user"}], [SCALE])
    target, x = torch.zeros(8), torch.randn(8)
    env = Executor(document, binaries, "", runtime, "cpu").execute([x], {1: target})
    assert env[1] is target and torch.equal(target, 2 * x)


def test_temporaries_share_memory_only_when_never_alive_together(runtime: Path, binaries: list[str]) -> None:
    n = 1 << 12
    document = program(
        [buffer("input", [n], user(0)), *[buffer("temp", [n]) for _ in range(4)], buffer("output", [n])],
        [scale(k, k + 1, n) for k in range(5)],
        [{"buffer": 5, "kind": "user"}],
        [SCALE],
    )
    executor = Executor(document, binaries, "", runtime, "cpu")
    assert executor._arena_bytes == 2 * 4 * n, "two alive at any time"
    x = torch.randn(n)
    assert torch.equal(executor.run([x])[0], 32 * x)


def test_memory_of_large_outputs_comes_back_when_nothing_refers_to_it(runtime: Path, binaries: list[str]) -> None:
    n = 1 << 19  # 2 MiB
    document = program([buffer("input", [n], user(0)), buffer("output", [n])], [scale(0, 1, n)], [{"buffer": 1, "kind": "user"}], [SCALE])
    executor = Executor(document, binaries, "", runtime, "cpu")
    one, two = torch.full((n,), 1.0), torch.full((n,), 2.0)
    first = executor.run([one])[0]
    tail = first[-5:]
    address = first.data_ptr()
    del first
    second = executor.run([two])[0]
    assert second.data_ptr() != address, "a view still refers to the first"
    assert torch.equal(tail, torch.full((5,), 2.0)) and torch.equal(second, 2 * two)
    del tail
    third = executor.run([one])[0]
    assert third.data_ptr() == address and torch.equal(third, 2 * one) and torch.equal(second, 2 * two)
    third.add_(1)
    assert third.is_contiguous() and not third.requires_grad and third._base is None


@pytest.mark.parametrize("cheap", [False, True])
def test_a_caller_who_keeps_results_gets_fresh_memory(runtime: Path, binaries: list[str], monkeypatch: pytest.MonkeyPatch, cheap: bool) -> None:
    n = 1 << 19
    monkeypatch.setattr(executor_module, "_huge_pages_are_cheap", lambda: cheap)
    document = program([buffer("input", [n], user(0)), buffer("output", [n])], [scale(0, 1, n)], [{"buffer": 1, "kind": "user"}], [SCALE])
    executor = Executor(document, binaries, "", runtime, "cpu")
    huge: list[bool] = []
    original = executor_module._Block

    def block(size: int, wanted: bool) -> Any:
        huge.append(wanted)
        return original(size, wanted)

    monkeypatch.setattr(executor_module, "_Block", block)
    kept = [executor.run([torch.full((n,), float(k))])[0] for k in range(6)]
    assert huge == [True] * executor._pool.keep + [cheap] * (6 - executor._pool.keep), "beyond the blocks that stay, only where they cost less"
    assert len({t.data_ptr() for t in kept}) == 6
    for k, t in enumerate(kept):
        assert torch.equal(t, torch.full((n,), 2.0 * k))
    assert executor._pool._made == {4 * n: 6}
    addresses = {t.data_ptr() for t in kept}
    del t, kept
    assert [len(blocks) for blocks in executor._pool._kept.values()] == [executor._pool.keep]
    again = executor.run([torch.ones(n)])[0]
    assert again.data_ptr() in addresses and torch.equal(again, torch.full((n,), 2.0))


def test_what_huge_pages_cost_is_asked_once() -> None:
    executor_module._huge_pages_are_cheap.cache_clear()
    assert executor_module._huge_pages_are_cheap() is executor_module._huge_pages_are_cheap()
    assert executor_module._huge_pages_are_cheap.cache_info().misses == 1


def test_the_pool_can_be_turned_off(runtime: Path, binaries: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    n = 1 << 19
    document = program([buffer("input", [n], user(0)), buffer("output", [n])], [scale(0, 1, n)], [{"buffer": 1, "kind": "user"}], [SCALE])
    monkeypatch.setenv("PLANISH_OUTPUT_POOL", "0")
    executor = Executor(document, binaries, "", runtime, "cpu")
    monkeypatch.undo()
    assert torch.equal(executor.run([torch.ones(n)])[0], torch.full((n,), 2.0))
    assert not executor._pool._kept


def test_calls_from_many_threads(runtime: Path, binaries: list[str]) -> None:
    n = 1 << 19  # 2 MiB: pooled
    document = program(
        [buffer("input", [n], user(0)), buffer("temp", [n]), buffer("output", [n])], [scale(0, 1, n), scale(1, 2, n)], [{"buffer": 2, "kind": "user"}], [SCALE]
    )
    executor = Executor(document, binaries, "", runtime, "cpu")
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = torch.full((n,), float(seed))
        for _ in range(10):
            if not torch.equal(executor.run([x])[0], 4 * x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_buffers_without_elements(runtime: Path, binaries: list[str]) -> None:
    document = program([buffer("input", [0], user(0)), buffer("output", [0])], [scale(0, 1, 0)], [{"buffer": 1, "kind": "user"}], [SCALE])
    assert Executor(document, binaries, "", runtime, "cpu").run([torch.empty(0)])[0].shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "planish.program/9"}, "schema"),
        ({"steps": [aten("aten.no_such_op.default", [], [1])]}, "no operator"),
        ({"steps": [{"kind": "jump"}]}, "jump"),
        ({"buffers": [buffer("input", [2], user(0), dtype="f33"), buffer("output", [2])]}, "unknown dtype"),
    ],
)
def test_bad_documents_are_refused(change: dict[str, Any], message: str, runtime: Path) -> None:
    document = program([buffer("input", [2], user(0)), buffer("output", [2])], [add(0, 0, 1)], [{"buffer": 1, "kind": "user"}])
    with pytest.raises(ExecutorError, match=message) as error:
        Executor({**document, **change}, [], "", runtime, "cpu")
    assert error.value.kind == "bad_program"


def test_kernels_need_a_runtime() -> None:
    document = program([buffer("input", [8], user(0)), buffer("output", [8])], [scale(0, 1, 8)], [{"buffer": 1, "kind": "user"}], [SCALE])
    with pytest.raises(ExecutorError, match="no runtime library"):
        aten_only(document)


def test_an_operator_that_returns_another_shape_than_declared_is_refused(runtime: Path, binaries: list[str]) -> None:
    document = program([buffer("input", [2, 3], user(0)), buffer("temp", [2, 3]), buffer("output", [2, 3])],
                       [aten("aten.t.default", [{"name": "self", "buffer": 0}], [1]), scale(1, 2, 6)], [{"buffer": 2, "kind": "user"}], [SCALE])  # fmt: skip
    with pytest.raises(ExecutorError, match=r"declared torch.float32 \[2, 3\]"):
        Executor(document, binaries, "", runtime, "cpu").run([torch.randn(2, 3)])


def test_an_operator_that_returns_another_precision_than_declared_is_converted(runtime: Path, binaries: list[str]) -> None:
    """As batch norm's statistics of a 16-bit input: torch's metadata say f32, the CPU kernel returns f16."""
    half = [{"name": "self", "buffer": 0}, {"name": "dtype", "dtype": "f16"}]
    document = program([buffer("input", [6], user(0)), buffer("temp", [6]), buffer("output", [6])],
                       [aten("aten._to_copy.default", half, [1]), scale(1, 2, 6)], [{"buffer": 2, "kind": "user"}], [SCALE])  # fmt: skip
    x = torch.randn(6)
    (result,) = Executor(document, binaries, "", runtime, "cpu").run([x])
    assert torch.equal(result, 2 * x.half().float())


def test_a_run_of_steps_keeps_no_more_than_what_is_still_read() -> None:
    """Temporaries of a run die after their last reader, those that a later run, a kernel or the caller reads stay."""
    alive: list[int] = []
    document = program(
        [buffer("input", [4], user(0)), *(buffer("temp", [4]) for _ in range(3)), buffer("output", [4])],
        [add(0, 0, 1), add(1, 0, 2), add(2, 1, 3), add(3, 3, 4)],
        [{"kind": "user", "buffer": 4}],
    )
    executor = aten_only(document)
    made: list[weakref.ref[torch.Tensor]] = []
    names = executor._actions[0].__globals__
    for k in range(4):
        original = names[f"op{k}"]

        def noted(*args: Any, original: Any = original) -> torch.Tensor:
            alive.append(sum(ref() is not None for ref in made))
            result: torch.Tensor = original(*args)
            made.append(weakref.ref(result))
            return result

        names[f"op{k}"] = noted
    x = torch.ones(4)
    assert torch.equal(executor.run([x])[0], 10 * x)
    assert alive == [0, 1, 2, 1], "two are read by the third step, one by the last"


def test_constants_that_an_operator_assumes_anyway_are_left_out_and_others_are_not() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    alpha = [{"name": "self", "buffer": 0}, {"name": "other", "buffer": 0}]
    document = program(
        [buffer("input", [2, 3], user(0)), *(buffer("output", [2, 3]) for _ in range(2)), buffer("output", [2]), buffer("output", [2, 1])],
        [
            aten("aten.add.Tensor", [*alpha, {"name": "alpha", "int": 1}], [1]),
            aten("aten.add.Tensor", [*alpha, {"name": "alpha", "int": 3}], [2]),
            aten("aten.sum.dim_IntList", [{"name": "self", "buffer": 0}, {"name": "dim", "ints": [1]}, {"name": "keepdim", "bool": False}], [3]),
            aten("aten.sum.dim_IntList", [{"name": "self", "buffer": 0}, {"name": "dim", "ints": [1]}, {"name": "keepdim", "bool": True}], [4]),
        ],
        [{"kind": "user", "buffer": b} for b in (1, 2, 3, 4)],
    )
    one, three, flat, kept = aten_only(document).run([x])
    assert torch.equal(one, 2 * x) and torch.equal(three, 4 * x)
    assert torch.equal(flat, x.sum(1)) and torch.equal(kept, x.sum(1, keepdim=True))


# out[at[i]] = in[i]
PUT = kernel(
    "put",
    "auto* in = (const float*)args[0]; auto* at = (const int64_t*)args[1]; auto* out = (float*)args[2];"
    "for (int64_t i = 0; i < 2; ++i) if ((uint64_t)at[i] < 8) out[at[i]] = in[i];",
)


def _cache_program(steps: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """A cache (1) of which two places are written: a copy of it (3) that kernels write, and what is made of that (4, 5)."""
    buffers = [buffer("input", [2], user(0)), buffer("state", [8], state("cache")), buffer("input", [2], user(1), dtype="i64"),
               buffer("output", [8]), buffer("output", [8]), buffer("output", [8])]  # fmt: skip
    used = {o["buffer"] for o in outputs} | {3}
    for b in (4, 5):
        if b not in used:
            buffers[b]["role"] = "temp"
    put = launch(1, {"buffer": 0}, {"buffer": 2}, {"buffer": 3})
    return program(buffers, [{"kind": "copy", "from": 1, "to": 3}, put, *steps], outputs, [SCALE, PUT])


_CHANGED = {"buffer": 3, "kind": "mutate_buffer", "target": "cache"}


def _cache_call(document: dict[str, Any], runtime: Path, folder: Path) -> tuple[Executor, torch.Tensor, list[Any]]:
    executor = Executor(document, build([SCALE, PUT], folder), "", runtime, "cpu", effects=[])
    cache = torch.arange(8.0)
    at = cache.data_ptr()
    found = {"x": torch.tensor([50.0, 60.0]), "at": torch.tensor([6, 1]), "cache": cache}
    order = {("user", 0): "x", ("user", 1): "at", ("buffer", -1): "cache"}
    results = executor.run([found[order[b.kind, b.index]] for b in executor.bindings])
    assert cache.data_ptr() == at
    assert cache.tolist() == [0, 60, 2, 3, 4, 5, 50, 7]
    return executor, cache, results


def test_places_of_a_state_are_written_where_they_are(runtime: Path, tmp_path: Path) -> None:
    read = [scale(3, 4, 8), add(3, 4, 5)]  # by a kernel, then by an operator
    document = _cache_program(read, [{"buffer": 5, "kind": "user"}, _CHANGED])
    executor, _, (result,) = _cache_call(document, runtime, tmp_path)
    assert result.tolist() == [3 * v for v in (0, 60, 2, 3, 4, 5, 50, 7)]
    assert [e.direct for e in executor.effects] == [True]
    assert executor.direct() is None, "an operator is among the steps"
    kernels = _cache_program(read[:1], [{"buffer": 4, "kind": "user"}, _CHANGED])
    (tmp_path / "kernels").mkdir()
    executor, _, (result,) = _cache_call(kernels, runtime, tmp_path / "kernels")
    found = executor.direct()
    assert found is not None
    assert found["launch"][2] == 2, "the copy of the cache is no step of the caller's form"
    assert [b for b, *_ in found["fresh"]] == [4]


def test_a_document_without_effects_leaves_the_state(runtime: Path, tmp_path: Path) -> None:
    document = _cache_program([scale(3, 4, 8)], [{"buffer": 4, "kind": "user"}, _CHANGED])
    executor = Executor(document, build([SCALE, PUT], tmp_path), "", runtime, "cpu")
    cache = torch.arange(8.0)
    found = executor.execute([torch.tensor([50.0, 60.0]), cache, torch.tensor([6, 9])])
    assert cache.tolist() == list(range(8))
    assert found[3].tolist() == [0, 1, 2, 3, 4, 5, 50, 7]


def test_a_state_that_is_read_as_it_was_or_seen_by_results_is_copied(runtime: Path, tmp_path: Path) -> None:
    def view(source: int) -> dict[str, Any]:
        return aten("aten.view.default", [{"name": "self", "buffer": source}, {"name": "size", "ints": [8]}], [5])

    late = _cache_program([scale(1, 4, 8)], [{"buffer": 4, "kind": "user"}, _CHANGED])
    through_a_view = _cache_program([view(1), scale(5, 4, 8)], [{"buffer": 4, "kind": "user"}, _CHANGED])
    returned = _cache_program([view(3)], [{"buffer": 5, "kind": "user"}, _CHANGED])
    for number, (document, result) in enumerate([(late, [2.0 * i for i in range(8)]), (through_a_view, [2.0 * i for i in range(8)]),
                                                 (returned, [0, 60, 2, 3, 4, 5, 50, 7])]):  # fmt: skip
        (tmp_path / str(number)).mkdir()
        executor, cache, results = _cache_call(document, runtime, tmp_path / str(number))
        assert [e.direct for e in executor.effects] == [False]
        assert results[0].tolist() == result
        assert results[0].untyped_storage().data_ptr() != cache.untyped_storage().data_ptr()


def test_launches_and_the_copies_behind_them_are_one_submission(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime makes graphs of whole programs alone."""
    submitted: list[tuple[int, int]] = []
    native = Executor._native

    def noted(self: Executor, first: int, last: int) -> Any:
        act = native(self, first, last)
        return lambda *call: (submitted.append((first, last)), act(*call))

    monkeypatch.setattr(Executor, "_native", noted)
    executor, cache, _ = _cache_call(_cache_program([scale(1, 4, 8)], [{"buffer": 4, "kind": "user"}, _CHANGED]), runtime, tmp_path)
    assert [e.direct for e in executor.effects] == [False] and cache.tolist() != list(range(8))
    assert submitted == [(0, executor.direct()["launch"][2])]


def test_a_view_of_memory_that_lies_otherwise_is_a_copy() -> None:
    image = buffer("input", [1, 2, 2, 2], user(0)) | {"strides": [8, 1, 4, 2]}  # channels last, as a part of a program is given it
    rows = aten("aten.view.default", [{"name": "self", "buffer": 0}, {"name": "size", "ints": [1, 8]}], [1])
    x = torch.arange(8.0).view(1, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError):
        x.view(1, 8)
    executor = aten_only(program([image, buffer("temp", [1, 8]), buffer("output", [1, 8])], [rows, add(1, 1, 2)], [{"buffer": 2, "kind": "user"}]))
    assert executor.run([x])[0].tolist() == [[2.0 * i for i in range(8)]]


@pytest.mark.parametrize(
    "image",
    [
        torch.randn(2, 4, 2, 4).transpose(2, 3),
        torch.randn(1, 4, 4, 1).as_strided((1, 4, 4, 1), (3, 1, 4, 2)),
        torch.randn(2, 4, 4, 2).contiguous(memory_format=torch.channels_last),
    ],
    ids=["rows beside each other", "one image with channels last", "channels last"],
)
def test_a_norm_of_groups_takes_an_image_in_any_layout(image: torch.Tensor) -> None:
    """torch's refuses all but the last on a CPU, and that one too on a GPU."""
    shape = list(image.shape)
    numbers = {"N": shape[0], "C": 4, "HxW": shape[2] * shape[3], "group": 2}
    step = aten(
        "aten.native_group_norm.default",
        [{"name": "input", "buffer": 0}, {"name": "weight", "none": True}, {"name": "bias", "none": True}]
        + [{"name": name, "int": number} for name, number in numbers.items()]
        + [{"name": "eps", "float": (1e-5).hex()}],
        [1, None, None],
    )
    images = [buffer("input", shape, user(0)) | {"strides": list(image.stride())}, buffer("output", shape)]
    if not image.is_contiguous(memory_format=torch.channels_last) or 1 in shape:
        with pytest.raises(RuntimeError):
            torch.ops.aten.native_group_norm.default(image, None, None, *numbers.values(), 1e-5)
    executor = aten_only(program(images, [step], [{"buffer": 1, "kind": "user"}]))
    torch.testing.assert_close(executor.run([image])[0], torch.nn.functional.group_norm(image.clone(memory_format=torch.contiguous_format), 2))


def _draw(op: str, args: list[dict[str, Any]], state: int, outs: list[int | None]) -> dict[str, Any]:
    return aten(op, [*args, {"name": "generator_state", "buffer": state}], outs)


def _drawing(second: int = 3) -> dict[str, Any]:
    like = [{"name": "self", "buffer": 0}]
    kinds = [{"name": name, "none": True} for name in ("dtype", "layout", "device", "pin_memory", "memory_format")]
    state = {"role": "input", "source": {"kind": "generator"}, "dtype": "u8", "shape": [5056], "strides": [1]}
    return program(
        [buffer("input", [4, 8], user(0)), state, buffer("temp", [4, 8]), buffer("temp", [5056], dtype="u8"), buffer("temp", [4, 8]),
         buffer("output", [5056], dtype="u8"), buffer("output", [4, 8])],
        [_draw("aten.rand_like.default", [*like, *kinds], 1, [2, 3]), _draw("aten.randn_like.default", [*like, *kinds], second, [4, 5]), add(2, 4, 6)],
        [{"buffer": 6, "kind": "user"}, {"buffer": 5, "kind": "mutate_generator"}],
    )  # fmt: skip


def test_steps_that_draw_draw_from_torchs_generator_in_their_order() -> None:
    x = torch.randn(4, 8)
    executor = aten_only(_drawing())
    assert [b.kind for b in executor.bindings] == ["user"] and executor.generator is not None
    assert (executor.generator.before, executor.generator.behind) == (1, 5)
    torch.manual_seed(3)
    expected, left = torch.rand_like(x) + torch.randn_like(x), torch.get_rng_state()
    torch.manual_seed(3)
    assert torch.equal(executor.run([x])[0], expected) and torch.equal(torch.get_rng_state(), left)
    assert executor.direct() is None


def test_a_state_that_is_no_longer_there_is_refused() -> None:
    with pytest.raises(ExecutorError) as caught:
        aten_only(_drawing(second=1))
    assert caught.value.kind == "bad_program" and "no longer there" in str(caught.value)
