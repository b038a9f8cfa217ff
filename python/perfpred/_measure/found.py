# SPDX-License-Identifier: Apache-2.0
"""What a program trains, found while its first step runs."""

import collections.abc
import contextlib
import gc
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from perfpred._capture.hooks import is_compiled
from perfpred._capture.step_file import HALVES, SINGLE, precision_of
from perfpred._measure.errors import MeasureError
from perfpred._measure.fields import OPTIMIZERS

_INPUTS = (
    "input_ids",
    "pixel_values",
    "inputs_embeds",
    "input_values",
)  # of transformers, which are called by names
_PACKED = {"Linear4bit": "nf4", "Linear8bitLt": "int8"}  # layers of bitsandbytes


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, collections.abc.Mapping):
        for name in sorted(value, key=lambda n: n not in _INPUTS):
            yield from tensors_in(value[name])
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from tensors_in(element)


@contextlib.contextmanager
def replaced(kind, name, made):
    """Puts made(original) in the place of a method, until the end or until it calls its second argument."""
    original = kind.__dict__[name]
    restore = lambda: setattr(kind, name, original)
    setattr(kind, name, made(original, restore))
    try:
        yield
    finally:
        restore()


def first_call(tell):
    """Calls tell(module, args, kwargs) as the first module that has something to train is called; what that returns, if not
    None, is called with the module's result. Later calls cost nothing: the method is the original one again.
    """

    def made(call, restore):
        def called(module, *args, **kwargs):
            if torch.compiler.is_compiling() or not any(
                p.requires_grad for p in module.parameters()
            ):
                return call(module, *args, **kwargs)
            restore()
            with_result = tell(module, args, kwargs)
            result = call(module, *args, **kwargs)
            if with_result is not None:
                with_result(result)
            return result

        return called

    return replaced(torch.nn.Module, "__call__", made)


class Found:
    """Facts of the first step. What is not known is None; without a module most cannot be asked for."""

    def __init__(self):
        self.module: Any = None
        self.batch_size = self.input = self.classes = self.loader = None
        self.channels_last = False
        self._autocast = None
        self._optimizers = []  # that made a step
        self._has_gradients = False  # was the network called to be trained?

    @contextlib.contextmanager
    def watching(self):
        """While the first step runs."""

        def entered(enter, _):
            def made(context):
                self._note_autocast(context.fast_dtype if context._enabled else None)
                return enter(context)

            return made

        with contextlib.ExitStack() as stack:
            stack.enter_context(first_call(self._note_call))
            stack.enter_context(replaced(torch.autocast, "__enter__", entered))
            stack.callback(
                register_optimizer_step_post_hook(
                    lambda o, *_: self._optimizers.append(o)
                ).remove
            )
            yield

    def note_loader(self, loader):
        self.loader = self.loader or loader

    def _note_autocast(self, dtype):
        self._autocast = self._autocast or (dtype if dtype in HALVES else None)

    def _note_call(self, module, args, kwargs):
        self.module = module
        self._has_gradients = torch.is_grad_enabled()
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                self._note_autocast(torch.get_autocast_dtype(device))
        inputs = next(tensors_in([args, kwargs]), None)
        if inputs is not None and inputs.dim() > 0:
            self.batch_size, self.input = inputs.shape[0], tuple(inputs.shape[1:])
            nhwc = inputs.dim() == 4 and not inputs.is_contiguous()
            self.channels_last = nhwc and inputs.is_contiguous(
                memory_format=torch.channels_last
            )
        return self._note_result

    def _note_result(self, result):
        result = (
            result.get("logits")
            if isinstance(result, collections.abc.Mapping)
            else getattr(result, "logits", result)
        )
        # Of samples, or of the words of a sequence.
        if (
            isinstance(result, torch.Tensor)
            and 2 <= result.dim() <= 3
            and result.shape[-1] > 1
        ):
            self.classes = (
                result.shape[-1]
                if result.dim() == 2 or len(self.input or ()) == 1
                else None
            )

    def _parameters(self):
        return list(self.module.parameters())

    def optimizers(self):
        """Those that update something of the network; before the first update all that could."""
        ours = {id(p) for p in self._parameters()}
        of = lambda optimizer: (
            p for group in optimizer.param_groups for p in group["params"]
        )
        could = self._optimizers or [
            o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer)
        ]
        return [o for o in could if not _wraps(o) and any(id(p) in ours for p in of(o))]

    def trains(self):
        """Whether the step is one of training, and not a forward pass alone."""
        return self._has_gradients or bool(self._optimizers)

    def params(self):
        """Trained ones; of those that FullyShardedDataParallel has flattened, this process's share."""
        return sum(p.numel() for p in self._parameters() if p.requires_grad)

    def has_share_of_params(self):
        return self._has_kind("FullyShardedDataParallel")

    def parallel(self):
        """How the processes share the training. Raises MeasureError where neither the network nor the optimizer says it."""
        if self._has_kind("FullyShardedDataParallel") or self._has_kind("FSDPModule"):
            return "fsdp"
        if any(_is_kind(o, "ZeroRedundancyOptimizer") for o in self._optimizers):
            return "zero1"
        if self._has_kind("DistributedDataParallel"):
            return "ddp"
        raise MeasureError(
            "how the processes share the training is not known (no DistributedDataParallel, no FSDP): say parallel=..."
        )

    def trains_all(self):
        return all(p.requires_grad for p in self._parameters())

    def device(self):
        return self._parameters()[0].device

    def compiled(self):
        return any(is_compiled(m) for m in self._modules())

    def _most_common_dtype(self):
        sizes: dict[torch.dtype, int] = {}
        for p in self._parameters():
            if p.is_floating_point():
                sizes[p.dtype] = sizes.get(p.dtype, 0) + p.numel()
        return max(sizes, key=lambda dtype: sizes[dtype]) if sizes else torch.float32

    def set_precision(self):
        """As perfpred.capture has it, whatever the device."""
        dtype = self._autocast or self._sharded_dtype() or self._most_common_dtype()
        return precision_of(dtype)

    def precision(self):
        """A CPU has no TF32: there is fp32 whatever is set."""
        found = self.set_precision()
        return "fp32" if found in SINGLE and self.device().type == "cpu" else found

    def optimizer(self):
        """A word of the vocabulary. Raises MeasureError for an optimizer that it lacks."""
        kinds = {_word(o) for o in self.optimizers()}
        if len(kinds) == 1 and kinds <= set(OPTIMIZERS):
            return kinds.pop()
        found = (
            ", ".join(sorted({type(o).__name__ for o in self.optimizers()})) or "none"
        )
        raise MeasureError(
            f"the optimizer is not known (found: {found}): say optimizer=..., one of {', '.join(OPTIMIZERS)}"
        )

    def fields(self):
        """Of a workload, by column, as far as they are known and not usual."""
        known = {
            "layout": "nhwc" if self.channels_last else "nchw",
            "precision": self.precision(),
        }
        if not self.trains():
            known["phases"] = "forward"
        dtype = self._most_common_dtype()
        packed = {
            _PACKED[type(m).__name__]
            for m in self._modules()
            if type(m).__name__ in _PACKED
        }
        if packed:
            known["weights"] = packed.pop()
        elif dtype in HALVES and HALVES[dtype] == known["precision"]:
            known["weights"] = known["precision"]
        if not any(o.defaults.get("fused") for o in self.optimizers()):
            known["optimizer_impl"] = "foreach"
        if any(
            getattr(getattr(m, "config", None), "_attn_implementation", None) == "eager"
            for m in self._modules()
        ):
            known["attention"] = "eager"
        if any(
            getattr(m, "gradient_checkpointing", False) is True for m in self._modules()
        ):
            known["checkpoint"] = "all"
        if isinstance(self.loader, torch.utils.data.DataLoader):
            with contextlib.suppress(TypeError):  # a data set without a length
                known["train_images"] = len(self.loader.dataset)
        return known

    def _modules(self):
        return list(self.module.modules())

    def _has_kind(self, name):
        return any(_is_kind(m, name) for m in self._modules())

    def _sharded_dtype(self):
        """That the parameters are cast to by the mixed precision of FSDP, if that is on."""
        for module in self._modules():
            policy = getattr(module, "mixed_precision", None)
            if _is_kind(module, "FSDPModule"):
                policy = module._get_fsdp_state()._mp_policy
            dtype = getattr(policy, "param_dtype", None)
            if dtype in HALVES:
                return dtype
        return None


def _is_kind(thing, name):
    """By the name of its class or of one above it: these are not loaded where nobody uses them."""
    return any(kind.__name__ == name for kind in type(thing).__mro__)


def _wraps(optimizer):
    """Whether it only passes on to another, as those of accelerate and Lightning do."""
    inner = (getattr(optimizer, name, None) for name in ("optimizer", "_optimizer"))
    return any(isinstance(other, torch.optim.Optimizer) for other in inner)


def _word(optimizer):
    name = type(optimizer).__name__.lower()
    defaults = optimizer.defaults
    if name == "sgd":
        return (
            "sgd"
            if not defaults.get("momentum")
            else "nesterov"
            if defaults.get("nesterov")
            else "momentum"
        )
    return name.replace("pagedadamw8bit", "paged_adamw8bit")
