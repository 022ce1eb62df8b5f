"""Launches the kernels of this project on torch tensors: shared objects on the CPU, cubins on a GPU through the CUDA driver."""

import ctypes
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

HERE = Path(__file__).resolve().parent
launches = 0  # so that a test can see whether kernels ran


class CpuKernel:
    """`extern "C" void entry(void** args)`: for a tensor args[i] is its data pointer, for a number it points to the number."""

    def __init__(self, file, entry):
        try:
            self._entry = ctypes.CDLL(str(HERE / file))[entry]
        except OSError as error:
            raise RuntimeError(f"{error}; run make first") from error
        self._entry.restype = None

    def __call__(self, *args):
        global launches
        launches += 1
        pointers = [a.data_ptr() if isinstance(a, torch.Tensor) else ctypes.addressof(a) for a in args]
        self._entry((ctypes.c_void_p * len(args))(*pointers))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute with the values that are needed here: the shape of a cluster of blocks, or a 1."""

    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_uint * 3), ("rest", ctypes.c_char * 52)]


class _Config(ctypes.Structure):
    """CUlaunchConfig"""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint)]  # fmt: skip


_COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE: all blocks run at the same time, or the launch is refused
_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_PROGRAMMATIC = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: the kernel waits for those before it by itself
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


def _driver(function, *args):
    code = getattr(ctypes.CDLL("libcuda.so.1"), function)(*args)
    if code:
        raise RuntimeError(f"{function} gave CUDA error {code}")


class CudaKernel:
    """A `__global__` function of a cubin; loaded once for each device, launched on torch's current stream."""

    def __init__(self, file, entry):
        path = HERE / file
        if not path.exists():
            raise RuntimeError(f"{path} is not there; run make first")
        self._image, self._entry, self._loaded = path.read_bytes(), entry.encode(), {}

    def _function(self, device, shared, cluster):
        if device.index not in self._loaded:
            torch.cuda.synchronize(device)  # torch's context exists and is current from here on
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            _driver("cuModuleLoadData", ctypes.byref(module), self._image)
            _driver("cuModuleGetFunction", ctypes.byref(function), module, self._entry)
            if shared:
                _driver("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
            if cluster[0] * cluster[1] * cluster[2] > 8:
                _driver("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)
            self._loaded[device.index] = function
        return self._loaded[device.index]

    def __call__(self, *args, grid, block, cluster=(1, 1, 1), shared=0, cooperative=False, programmatic=False):
        global launches
        launches += 1
        device = next(a.device for a in args if isinstance(a, torch.Tensor))
        values = [ctypes.c_uint64(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in args]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        with torch.cuda.device(device):
            function = self._function(device, shared, cluster)
            wanted = [_Attribute(id=_CLUSTER_DIMENSION, value=tuple(cluster))] if tuple(cluster) != (1, 1, 1) else []
            wanted += [_Attribute(id=_COOPERATIVE, value=(1, 0, 0))] if cooperative else []
            wanted += [_Attribute(id=_PROGRAMMATIC, value=(1, 0, 0))] if programmatic else []
            attributes = (_Attribute * 3)(*wanted)
            config = _Config(tuple(grid), tuple(block), shared, torch.cuda.current_stream().cuda_stream, attributes, len(wanted))
            _driver("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)


def laid_out(tensor, shape, strides):
    """The tensor with exactly these strides, which kernels rely on: copied where an operator gave it others."""
    if tensor.shape == shape and tensor.stride() == strides and tensor.data_ptr() % 16 == 0:
        return tensor
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def constant(name, dtype, shape, strides, device, _kept={}):  # noqa: B006  (the default is the cache)
    """A constant of the program, from blobs/."""
    key = (name, device, shape, strides)
    if key not in _kept:
        count = torch.Size(shape).numel()
        values = torch.frombuffer(bytearray((HERE / "blobs" / name).read_bytes()), dtype=dtype) if count else torch.empty(0, dtype=dtype)
        _kept[key] = torch.empty_strided(shape, strides, dtype=dtype, device=device).copy_(values.reshape(shape))
    return _kept[key]


def same(given, value):
    """Whether an argument is what the kernels were made for: a number, or a tensor of numbers on the CPU."""
    if type(given) is not type(value):
        return False
    if isinstance(value, torch.Tensor):
        return given.device.type == "cpu" and given.dtype is value.dtype and given.shape == value.shape and torch.equal(given, value)
    return given == value


def fits(tensors, expected, target):
    """Whether all tensors are what the kernels were made for: (dtype, shape, strides), on one device, plain and without gradients."""
    grad = torch.is_grad_enabled()
    return all(
        type(t) in (torch.Tensor, torch.nn.Parameter)
        and (t.dtype, tuple(t.shape), t.stride()) == want
        and t.device == tensors[0].device
        and t.device.type == target
        and t.data_ptr() % 16 == 0
        and not (grad and t.requires_grad)
        and not t.is_neg()
        for t, want in zip(tensors, expected, strict=True)
    )


def plain_context():
    """False where torch wants something else than the values: tracing, compiling, autocast, function transforms."""
    return not (torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._is_any_autocast_enabled()
                or torch._C._functorch.peek_interpreter_stack() is not None or torch._C._len_torch_dispatch_stack())  # fmt: skip


def made_as_captured(reference, args, kwargs):
    """Whether a model is constructed with the arguments of the task's own get_init_inputs()."""
    with torch.random.fork_rng(devices=[]):
        wanted = getattr(reference, "get_init_inputs", list)()
    if isinstance(wanted, dict):
        wanted = ((), wanted)
    elif not (len(wanted) == 2 and isinstance(wanted[0], (list, tuple)) and isinstance(wanted[1], dict)):
        wanted = (wanted, {})
    wanted, given = (pytree.tree_flatten((tuple(w[0]), dict(w[1]))) for w in (wanted, (args, kwargs)))
    return wanted[1] == given[1] and all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else type(a) is type(b) and a == b
        for a, b in zip(wanted[0], given[0], strict=True)
    )
