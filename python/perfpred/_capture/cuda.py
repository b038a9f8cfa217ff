# SPDX-License-Identifier: Apache-2.0
"""Lets programs for a GPU run without one: CUDA is said to be there. Its tensors have no memory, or are on the CPU."""

import concurrent.futures
import contextlib
import importlib
import importlib.util
import sys
import types
from typing import Any

import torch
import torch._dynamo  # reads what is replaced here when a dispatch mode first imports it
import torch.utils.checkpoint

from perfpred._capture import above, alone
from perfpred._capture.place import CUDA, HOST, is_meta
from perfpred._capture.recorder import is_of_library

_MEMORY = 80 * 2**30
_base = torch._C.TensorBase


class _Nothing:
    """Stands for streams, events and graphs, which do nothing here."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def elapsed_time(self, end):
        return 1.0

    def query(self):
        return True

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _says(value):
    return lambda *args, **kwargs: value


def _of_optimizers(kinds):
    """What CUDA's optimizers and clipping choose by default, for these kinds of devices."""
    for module in (
        "torch.optim.optimizer",
        "torch.optim.swa_utils",
        "torch.utils._foreach_utils",
    ):
        place = importlib.import_module(module)
        for name in (
            "_get_foreach_kernels_supported_devices",
            "_get_fused_kernels_supported_devices",
        ):
            yield place, name, _says(kinds)


def _of_cuda(recorder):
    """What every program for a GPU asks for."""
    nothing = _says(None)
    cuda = torch.cuda
    for name, value in {
        "is_available": True,
        "is_bf16_supported": True,
        "is_initialized": True,
        "is_current_stream_capturing": False,
        "device_count": 1,
        "current_device": 0,
        "get_device_name": "none",
        "get_device_capability": (9, 0),
        "get_device_properties": types.SimpleNamespace(
            name="none",
            major=9,
            minor=0,
            total_memory=_MEMORY,
            multi_processor_count=132,
            warp_size=32,
            L2_cache_size=50 * 2**20,
            max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=2**16,
            shared_memory_per_block=48 * 2**10,
            shared_memory_per_block_optin=227 * 2**10,
            shared_memory_per_multiprocessor=228 * 2**10,
            is_integrated=0,
            is_multi_gpu_board=0,
        ),
        "utilization": 0,
    }.items():
        yield cuda, name, _says(value)
    for name, value in {
        "mem_get_info": (_MEMORY, _MEMORY),
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "memory_cached": 0,
        "max_memory_cached": 0,
        "memory_summary": "",
        "memory_snapshot": [],
        "memory_stats_as_nested_dict": {},
    }.items():
        for place in (cuda, cuda.memory):
            yield place, name, _says(value)
    for place in (cuda, cuda.memory):
        yield place, "memory_stats", lambda *args: _memory_stats()
        for name in """empty_cache reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated
            reset_max_memory_cached set_per_process_memory_fraction""".split():
            yield place, name, nothing
    for name in """_lazy_init init synchronize ipc_collect set_device manual_seed manual_seed_all seed seed_all
        set_rng_state set_rng_state_all""".split():
        yield cuda, name, nothing
    for name in ("Stream", "ExternalStream", "Event", "CUDAGraph", "device", "stream"):
        yield cuda, name, _Nothing
    for name in ("current_stream", "default_stream"):
        yield cuda, name, _says(_Nothing())
    yield cuda, "get_rng_state", lambda *args: torch.get_rng_state()
    yield cuda, "get_rng_state_all", lambda *args: [torch.get_rng_state()]
    for name in ("range_push", "range_pop", "mark"):
        yield cuda.nvtx, name, nothing
    yield cuda.amp.common, "amp_definitely_not_available", _says(False)
    yield torch.amp.grad_scaler, "amp_definitely_not_available", _says(False)
    yield torch.amp.autocast_mode, "amp_definitely_not_available", _says(False)
    yield (
        torch.serialization,
        "default_restore_location",
        _restored(torch.serialization.default_restore_location),
    )
    yield from alone.replacements(recorder.remark)
    yield (
        torch.utils.data.DataLoader,
        "__init__",
        _loader_init(torch.utils.data.DataLoader.__init__),
    )
    yield torch.amp.GradScaler, "_maybe_opt_step", _optimizer_step
    yield torch.Tensor, "record_stream", nothing
    yield torch.Tensor, "pin_memory", lambda self, *args: self
    yield torch.Tensor, "is_pinned", _says(True)
    yield torch, "Generator", _Generator


def _without_memory(recorder):
    """What programs ask of tensors without memory."""
    yield torch, "clear_autocast_cache", above.clear_cast_weights
    kinds = ["cuda", "cpu", "meta"]
    yield from _of_optimizers(kinds)
    for name in "adadelta adagrad adam adamax asgd nadam radam rmsprop rprop".split():
        yield (
            importlib.import_module(f"torch.optim.{name}"),
            "_get_capturable_supported_devices",
            _says(kinds),
        )
    sizes = types.SimpleNamespace(new_dynamic_size=_dynamic_size)
    yield torch.library, "get_ctx", _says(sizes)
    yield torch.utils.checkpoint, "_infer_device_type", _says("cuda")
    yield torch, "compile", _compile(recorder)
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    yield flex, "_validate_device", _says(None)
    yield flex, "flex_attention_hop", above.flex_attention(recorder.remark)
    if importlib.util.find_spec("triton") is not None:
        yield (
            importlib.import_module("triton.runtime.jit").KernelInterface,
            "__getitem__",
            _launch(recorder),
        )
    yield concurrent.futures.ThreadPoolExecutor, "submit", _submit
    properties = dict(recorder.places.properties())
    for name, value in properties.items():
        yield torch.Tensor, name, value
    yield _of_lazy_modules(properties["to"], properties["get_device"])
    yield (
        torch.Tensor,
        "requires_grad",
        property(_base.requires_grad.__get__, _requires_grad(recorder)),
    )
    yield torch.Tensor, "requires_grad_", _requires_grad(recorder, _base.requires_grad_)
    torch.utils._device._device_constructors()  # finds them by what they are now
    context = torch.utils._device.DeviceContext
    yield (
        context,
        "__torch_function__",
        recorder.places.in_context(context.__torch_function__),
    )
    for name in """empty full ones rand randn tensor zeros empty_like full_like ones_like rand_like randn_like
        zeros_like""".split():
        yield (
            torch,
            name,
            _with_gradient(recorder.places.made_on_meta(getattr(torch, name))),
        )
    for name in """sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
        sparse_compressed_tensor""".split():
        yield torch, name, _of_host(recorder, getattr(torch, name))
    for name in ("nested_tensor", "as_nested_tensor"):
        yield torch.nested, name, _of_host(recorder, getattr(torch.nested, name))
    yield torch.autograd, "Variable", _Variable
    for name, made in (("numpy", _numpy), ("tolist", _tolist), ("__format__", _format)):
        yield torch.Tensor, name, made(getattr(torch.Tensor, name))


@contextlib.contextmanager
def _replaced(replacements):
    replaced = []
    try:
        for place, name, value in replacements:
            if hasattr(place, name):
                own = name in vars(place)
                replaced.append((place, name, getattr(place, name), own))
                setattr(place, name, value)
        yield
    finally:
        for place, name, value, own in reversed(replaced):
            if own:
                setattr(place, name, value)
            else:
                delattr(place, name)


@contextlib.contextmanager
def pretended_cuda(recorder):
    with _replaced(_of_cuda(recorder)), _replaced(_without_memory(recorder)):
        try:
            yield
        finally:
            alone.leave()
            above.clear_cast_weights()


def _on_cpu():
    """Puts what a program wants on a GPU on the CPU, in the precision that it asks for."""
    yield from _of_optimizers(["cpu", "cuda"])
    moves = {
        "to": _to_cpu(torch.Tensor.to),
        "cuda": lambda self, *args, **kwargs: self,
    }
    for name, value in moves.items():
        yield torch.Tensor, name, value
    yield _of_lazy_modules(*moves.values())
    kind = torch.amp.autocast_mode.autocast
    yield kind, "__init__", _autocast_of_cpu(kind.__init__)


def optimizers_of_cuda():
    """While this context manager is active, updates on a CPU are those that CUDA's optimizers choose by default."""
    return _replaced(_of_optimizers(["cpu", "cuda"]))


@contextlib.contextmanager
def cuda_on_cpu(recorder):
    """While this context manager is active, what a program wants on a GPU is computed on the CPU, and updates are those
    that CUDA's optimizers choose by default.
    """
    with _replaced(_of_cuda(recorder)), _replaced(_on_cpu()):
        try:
            yield
        finally:
            alone.leave()


def _of_lazy_modules(*methods):
    """Parameters without a shape allow a list of methods, to which those in their place and their storage belong."""
    kind = torch.nn.parameter.UninitializedTensorMixin
    allowed = [*kind._allowed_methods, torch.Tensor.untyped_storage, *methods]
    return kind, "_allowed_methods", allowed


def _to_cpu(to):
    def placed(value):
        named = isinstance(value, (str, torch.device)) or type(value) is int
        return HOST if named and torch.device(value).type == "cuda" else value

    def made(self, *args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = placed(kwargs["device"])
        return to(self, *map(placed, args[:1]), *args[1:], **kwargs)

    return made


def _autocast_of_cpu(init):
    def made(self, device_type, dtype=None, *args, **kwargs):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        init(self, device_type, dtype, *args, **kwargs)

    return made


def _memory_stats():
    """Keys of torch.cuda.memory_stats(), which counts nothing here."""
    pools = ("all", "large_pool", "small_pool")
    kinds = ("current", "peak", "allocated", "freed")
    counted = """allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes
        inactive_split_bytes requested_bytes""".split()
    keys = [
        f"{what}.{pool}.{kind}" for what in counted for pool in pools for kind in kinds
    ]
    keys += [
        f"{what}.{kind}"
        for what in ("oversize_allocations", "oversize_segments")
        for kind in kinds
    ]
    keys += """num_alloc_retries num_ooms num_sync_all_streams num_device_alloc num_device_free max_split_size""".split()
    return dict.fromkeys(keys, 0)


class _OfGenerators(type(torch.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, value):
        return isinstance(value, cls.__base__)


class _Generator(torch.Generator, metaclass=_OfGenerators):
    """A generator of the host, which says where the program wants it."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu")
        made._device = (
            CUDA if torch.device(device).type == "cuda" else torch.device(device)
        )
        return made

    def __init__(self, device="cpu"):
        pass

    device = property(lambda self: self._device)


class _Variable(torch.autograd.Variable):
    """An alias that may be asked for a gradient."""

    def __new__(cls, data, requires_grad=False, volatile=None):
        return data.detach().requires_grad_(requires_grad)


def _requires_grad(recorder, method=_base.requires_grad.__set__):
    """Tensors of the host whose gradient is asked for give up their memory, as all have none that depend on parameters."""

    def made(tensor, requires_grad=True):
        if requires_grad:
            recorder.remove_memory(tensor)
        return method(tensor, requires_grad)

    return made


def _with_gradient(make):
    def made(*args, requires_grad=False, **kwargs):
        result = make(*args, **kwargs)
        return result.requires_grad_() if requires_grad else result

    return made


def _of_host(recorder, make):
    """Makes tensors that have no form without memory, and so none on a GPU that is not there."""

    def made(*args, device=None, **kwargs):
        if device is not None and torch.device(device).type == "cuda":
            recorder.refuse_layout()
        return make(*args, device=device, **kwargs)

    return made


def _launch(recorder):
    """A kernel of Triton is an operator on the tensors that it is given."""

    def launched(kernel, grid):
        while not hasattr(kernel, "__name__"):  # an autotuner of a kernel
            kernel = kernel.fn
        return lambda *args, **kwargs: recorder.record_kernel(
            kernel.__name__, [*args, *kwargs.values()]
        )

    return launched


def _submit(pool, function, /, *args, **kwargs):
    """Threads know nothing of a capture: what they load is loaded here."""
    done: concurrent.futures.Future[Any] = concurrent.futures.Future()
    try:
        done.set_result(function(*args, **kwargs))
    except Exception as error:
        done.set_exception(error)
    return done


def _restored(restore):
    """torch.load() leaves the tensors of files on the host."""
    return lambda storage, location: restore(
        storage, "cpu" if location.startswith("cuda") else location
    )


def _compile(recorder):
    """What is recorded are the operators before fusion."""

    def compiled(model=None, **options):
        if model is None:
            return lambda function: compiled(function, **options)
        asks = is_of_library(sys._getframe(1).f_code.co_filename)
        if (
            isinstance(model, torch.nn.Module)
            or isinstance(getattr(model, "__self__", None), torch.nn.Module)
            or not asks
        ):
            recorder.note_compiled()
        return model

    return compiled


def _loader_init(init):
    def made(self, *args, **kwargs):
        names = ("num_workers", "collate_fn", "pin_memory", "drop_last", "timeout")
        first, more = (
            args[:5],
            args[5:],
        )  # dataset, batch_size, shuffle, sampler, batch_sampler
        kwargs.update(zip(names, more))
        for name in (
            "prefetch_factor",
            "persistent_workers",
            "multiprocessing_context",
            "pin_memory_device",
            "timeout",
        ):
            kwargs.pop(name, None)
        init(self, *first, **{**kwargs, "num_workers": 0, "pin_memory": False})

    return made


def _optimizer_step(scaler, optimizer, optimizer_state, *args, **kwargs):
    """A step that finds no infinities."""
    return optimizer.step(*args, **kwargs)


def _note(what):
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    for mode in _get_current_dispatch_mode_stack():
        if hasattr(mode, "note"):
            mode.note(what)


def _dynamic_size(*, min=0, max=None):
    _note(f"a size that depends on values; it is told {min}")
    return min


def _zeros(tensor):
    _note("the values of a tensor; it is told zeros")
    return torch.zeros(
        tensor.shape,
        dtype=tensor.dtype if tensor.dtype != torch.bfloat16 else torch.float32,
    )


def _numpy(method):
    def made(self, *args, **kwargs):
        return method(_zeros(self) if is_meta(self) else self, *args, **kwargs)

    return made


def _tolist(method):
    def made(self):
        return method(_zeros(self) if is_meta(self) else self)

    return made


def _format(method):
    def made(self, spec):
        if is_meta(self) and self.dim() == 0:
            return self.item().__format__(spec)
        return method(self, spec)

    return made
