"""Compares the kernels with the original on fresh data. `make test` runs it; pytest does, too."""

import time

import launch
import model
import reference
import torch
from torch.utils import _pytree as pytree

# Relative Frobenius error, by dtype; integers and booleans are compared exactly.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def call_of(given):
    if isinstance(given, dict):
        return (), given
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if len(given) == 2 and isinstance(given[0], (list, tuple)) and isinstance(given[1], dict):
        return tuple(given[0]), given[1]
    return tuple(given), {}


def models():
    args, kwargs = call_of(getattr(reference, "get_init_inputs", list)())
    made = []
    for kind in (reference.Model, model.ModelNew):
        torch.manual_seed(42)
        made.append(kind(*args, **kwargs).to(model.TARGET))
    made[1].load_state_dict(made[0].state_dict())
    return made


def called(module, args, kwargs):
    """With torch's generator in one state for whoever draws from it."""
    torch.manual_seed(7)
    return module(*args, **kwargs)


@torch.no_grad()
def test_the_kernels_give_what_the_original_gives():
    for seed in (1, 2, 3):
        original, ours = models()
        torch.manual_seed(seed)
        given = pytree.tree_map(lambda t: t.to(model.TARGET) if isinstance(t, torch.Tensor) else t, call_of(reference.get_inputs()))
        twin = pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, given)
        before = launch.launches
        wanted = pytree.tree_leaves((called(original, *given), given, list(original.buffers())))
        actual = pytree.tree_leaves((called(ours, *twin), twin, list(ours.buffers())))
        assert launch.launches > before or not model.HAS_KERNELS, "the original ran in place of the kernels"
        assert len(wanted) == len(actual)
        for a, b in zip(wanted, actual, strict=True):
            if not isinstance(a, torch.Tensor):
                assert a == b
            elif a.dtype in TOLERANCE:
                assert a.shape == b.shape and a.dtype is b.dtype
                error = (a.double() - b.double()).norm() / a.double().norm().clamp_min(1e-30)
                assert error <= TOLERANCE[a.dtype], f"relative error {error:.3g}"
            else:
                assert torch.equal(a, b)


@torch.no_grad()
def test_other_calls_run_the_original():
    original, ours = models()

    def misaligned(t):
        return torch.empty(t.numel() + 1, dtype=t.dtype, device=model.TARGET)[1:].view(t.shape).copy_(t) if isinstance(t, torch.Tensor) else t

    args, kwargs = pytree.tree_map(misaligned, call_of(reference.get_inputs()))
    before = launch.launches
    wanted, actual = called(original, args, kwargs), called(ours, args, kwargs)
    assert launch.launches == before
    for a, b in zip(pytree.tree_leaves(wanted), pytree.tree_leaves(actual), strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def verdict(original_ms, ours_ms):
    if ours_ms <= original_ms:
        return f"{original_ms / ours_ms:.2f} times as fast"
    return f"SLOWER by {ours_ms / original_ms:.2f}; the shipped folder keeps memory and launches with less host time, this form does not"


@torch.no_grad()
def times(calls=15):
    """Median milliseconds of a call of the original and of the kernels, in turn, results dropped at once."""
    given = pytree.tree_map(lambda t: t.to(model.TARGET) if isinstance(t, torch.Tensor) else t, call_of(reference.get_inputs()))
    both = models()
    found = ([], [])
    for k in range(2 * (calls + 2)):
        if model.TARGET == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        both[k % 2](*given[0], **given[1])
        if model.TARGET == "cuda":
            torch.cuda.synchronize()
        found[k % 2].append(1e3 * (time.perf_counter() - start))
    return tuple(sorted(samples[2:])[calls // 2] for samples in found)


if __name__ == "__main__":
    test_the_kernels_give_what_the_original_gives()
    test_other_calls_run_the_original()
    print("passed: the kernels give what the original gives")
    original_ms, ours_ms = times()
    print(f"a call takes {ours_ms:.3g} ms, the original {original_ms:.3g} ms: {verdict(original_ms, ours_ms)}")
