# SPDX-License-Identifier: Apache-2.0
"""The context manager `capture`: one training step, recorded into a file."""

import contextlib
import gc
import os
from types import TracebackType
from typing import Callable, Optional

import torch

from perfpred._capture import step_file
from perfpred._capture.above import above_autograd
from perfpred._capture.cuda import cuda_on_cpu, optimizers_of_cuda, pretended_cuda
from perfpred._capture.hooks import Hooks
from perfpred._capture.place import HOST, META, is_meta, swap
from perfpred._capture.recorder import CaptureError, Recorder
from perfpred._tables import Path

__all__ = ["CaptureError", "Session", "capture"]

_EXECUTED = (
    "the step was executed: its operators are those of the device that it ran on; a CPU writes out recurrent networks and "
    "some attention, which are one operator each on a GPU"
)


@contextlib.contextmanager
def _parameters_without_memory(recorder):
    """Gives parameters no memory, however they are made."""
    kind = torch.nn.Parameter
    new = kind.__new__

    def made(cls, data=None, requires_grad=True):
        if type(data) in (torch.Tensor, kind) and not is_meta(data):
            data = recorder.stand_in(data.detach())
        return new(cls, data, requires_grad)

    lazy = torch.nn.UninitializedParameter
    new_lazy = lazy.__new__

    def made_lazy(cls, requires_grad=True, device=None, dtype=None):
        result = new_lazy(cls, requires_grad, META, dtype)
        recorder.places.put(result, torch.device(device or HOST))
        return result

    kind.__new__, lazy.__new__ = made, made_lazy
    try:
        yield
    finally:
        kind.__new__, lazy.__new__ = new, new_lazy


@contextlib.contextmanager
def _watched_loaders(recorder, loaded):
    """Lets loaders make their batches with values, and unrecorded, and tell how many samples a batch has."""
    kind = torch.utils.data.dataloader._BaseDataLoaderIter
    following, next_index = kind.__next__, kind._next_index

    def made(self):
        before = recorder.on_host
        recorder.on_host = not recorder.execute
        try:
            with recorder.unrecorded():
                return following(self)
        finally:
            recorder.on_host = before

    def index(self):
        samples = next_index(self)
        if isinstance(samples, (list, tuple)):
            loaded(len(samples))
        return samples

    kind.__next__, kind._next_index = made, index
    try:
        yield
    finally:
        kind.__next__, kind._next_index = following, next_index


class Session:
    """Everything that records, switched on and off together."""

    def __init__(self, execute=False, tell=None):
        self.recorder = Recorder(execute, tell)
        self.hooks = Hooks(self.recorder)
        self._open = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            if self.recorder.execute:
                self.recorder.remark(_EXECUTED)
                stack.enter_context(
                    optimizers_of_cuda()
                    if torch.cuda.is_available()
                    else cuda_on_cpu(self.recorder)
                )
            else:
                stack.enter_context(pretended_cuda(self.recorder))
                stack.enter_context(above_autograd(self.hooks.loss, self.recorder))
                stack.enter_context(_parameters_without_memory(self.recorder))
            stack.enter_context(_watched_loaders(self.recorder, self.hooks.loaded))
            stack.enter_context(self.hooks)
            stack.enter_context(self.recorder)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error):
        self.recorder.recording = False
        return self._open.__exit__(*error)

    def document(self, batch_size=None):
        self.hooks.name_gradients()
        return step_file.document(self.recorder, batch_size, self.hooks)


class capture:
    """Records the training step that runs inside of it, and writes it to a step file:

        with perfpred.capture("step.json"):
            train_step(model, batch)

    The step runs on tensors without memory: it computes nothing, and parameters, buffers and optimizers are afterwards
    as they were before.

    path: the file, which appears whole or not at all; only if the step ends without an exception.
    batch_size: default: the samples of the DataLoader's batch; else the first size of the first tensor that the network
    is called with.
    execute: run the step on tensors with values, for steps whose shapes depend on them. It changes the weights then.
    tell: called with a line of text when the program asks for a value that does not exist.

    Raises CaptureError if the step cannot be captured, OSError if the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        batch_size: Optional[int] = None,
        execute: bool = False,
        tell: Optional[Callable[[str], None]] = None,
    ) -> None:
        self.path = os.fspath(path)
        self.batch_size = batch_size
        self.execute = execute
        self._tell = tell

    def __enter__(self) -> "capture":
        step_file.check_writable(self.path)
        self.session = Session(self.execute, self._tell)
        if not self.execute:
            self._remove_memory()
        try:
            self.session.__enter__()
        except BaseException:
            self._restore()
            raise
        self.session.recorder.recording = True
        self.session.recorder.spares_host = True
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.session.__exit__(kind, error, trace)
        document = None
        try:
            if kind is None:
                document = self.session.document(self.batch_size)
        finally:
            self._restore()
        if document is not None:
            step_file.write(self.path, document)

    def _remove_memory(self):
        """Puts tensors without memory in the place of all parameters, buffers and states of optimizers."""
        recorder = self.session.recorder
        found = {}
        for thing in gc.get_objects():
            kind = type(thing)
            if issubclass(kind, torch.nn.Module):
                for of_module in ("_parameters", "_buffers"):
                    for tensor in thing.__dict__.get(of_module, {}).values():
                        if tensor is not None:
                            found[id(tensor)] = tensor
            elif issubclass(kind, torch.optim.Optimizer):
                for state in thing.state.values():
                    for value in state.values() if isinstance(state, dict) else ():
                        if isinstance(value, torch.Tensor) and value.dim() > 0:
                            found[id(value)] = value
            elif (
                issubclass(kind, torch.Tensor) and thing.requires_grad and thing.is_leaf
            ):
                found[id(thing)] = thing
        for tensor in found.values():
            if is_meta(tensor):
                continue
            made = recorder.stand_in(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, tensor.requires_grad)
            elif tensor.requires_grad:
                made.requires_grad_()
            if tensor.grad is not None:
                made.grad = recorder.stand_in(tensor.grad)
            try:
                swap(tensor, made)
            except RuntimeError as error:
                self._restore()
                raise CaptureError(
                    f"a parameter is in use and cannot be replaced for the capture: {error}"
                ) from error
            recorder.swapped.append((tensor, made))
        for _, original in recorder.swapped:
            if original.grad is not None:
                recorder.release(original.grad)  # it is gone when the step clears it

    def _restore(self):
        self.session.hooks.restore_optimizers()
        swapped = self.session.recorder.swapped
        while swapped:
            tensor, original = swapped.pop()
            tensor.grad = None
            swap(tensor, original)
