# SPDX-License-Identifier: Apache-2.0
"""Where in a training step the program is: phase, layer, and what tensors are for."""

import contextlib
import gc
import inspect
import sys

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from perfpred._capture.batches import Batches
from perfpred._capture.passes import ForwardPass, find_read, first_read
from perfpred._capture.place import is_meta, storage_of
from perfpred._capture.recorder import CaptureError, user_line
from perfpred._capture.values import tensors_in

_TOLERANCES = ("tolerance_grad", "tolerance_change")  # of torch.optim.LBFGS


def _all_tensors(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _all_tensors(element)


def _compiled_kind():
    """What torch.compile() makes of a module; None where nothing was compiled. To import it takes seconds."""
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)


def _backend_of(module):
    """The name of the backend that a compiled module was given; "" where PyTorch does not tell it."""
    link = getattr(module, "dynamo_ctx", None)
    if link is None:  # compiled in place
        config = getattr(module._compiled_call_impl, "get_compiler_config", None)
        link = (
            inspect.getclosurevars(config).nonlocals.get("self")
            if config is not None
            else None
        )
    link = getattr(link, "callback", None)
    while link is not None:
        if name := getattr(link, "_compiler_name", ""):
            return name
        link = getattr(link, "_torchdynamo_orig_backend", None) or getattr(
            link, "_torchdynamo_orig_callable", None
        )
    return ""


def is_compiled(module):
    """Whether a module was compiled, by torch.compile() or its own compile(). Backends as "eager" and "aot_eager" compile
    nothing: the kernels are those of the module itself.
    """
    if (
        not isinstance(module, _compiled_kind() or ())
        and getattr(module, "_compiled_call_impl", None) is None
    ):
        return False
    return "eager" not in _backend_of(module)


def optimizers():
    return [
        thing
        for thing in gc.get_objects()
        if issubclass(type(thing), torch.optim.Optimizer)
    ]


def _remove(handle):
    """Removes a hook on all modules whole: PyTorch forgets a part, and then warns of it whenever a compiled module is called."""
    handle.remove()
    torch.nn.modules.module._global_forward_hooks_with_kwargs.pop(handle.id, None)


def _call_of_compiled(recorder):
    """Calls the module that torch.compile() was given: else hooks on all modules are called for both, with a warning."""

    def called(compiled, *args, **kwargs):
        if is_compiled(compiled):
            recorder.note_compiled()
        return compiled._orig_mod(*args, **kwargs)

    return called


class Hooks:
    """Tells a recorder of phases, layers and roles while it is entered."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.passes = []  # forward passes of the step
        self.begin = 0  # operators before the step
        self.stepped = (
            False  # has an optimizer finished a step since the last forward pass?
        )
        # Called when a forward pass begins, with the network and whether it is trained.
        self.before_forward = lambda network, trains: None
        self._networks = []  # modules that were called from outside of modules
        self._calls = {}  # how often the step called each network that it trains
        self._backward_passes = 0
        self.accumulated = Batches(recorder)
        self._ended_backward = False  # since the last forward pass
        self._pass = None  # that is being made
        self._loaded = []  # samples of the batches that were made since the last one
        self._modules = []  # that are being called: the layer to return to
        self._names = {}
        self._backward = 0
        self._trying = False
        self._tried = set()
        self._saved_states = []
        self._tolerances = {}  # of groups of parameters
        self._updated = {}  # parameters, by the optimizer that the step updated them with
        self._cleared = (
            set()
        )  # parameters whose gradients the program has cleared since it used them

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for handle in (
                register_module_forward_pre_hook(self._enter_module),
                register_module_forward_hook(
                    self._leave_module, with_kwargs=True, always_call=True
                ),
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ):
                stack.callback(_remove, handle)
            for place, name in (
                (torch.autograd, "backward"),
                (torch.autograd, "grad"),
                (torch.autograd, "_engine_run_backward"),
                (torch.autograd.graph, "_engine_run_backward"),
            ):
                run = getattr(place, name)
                stack.callback(setattr, place, name, run)
                with_memory = self.recorder.execute or not name.startswith("_")
                setattr(
                    place,
                    name,
                    self._backward_of(run if with_memory else self._on_device(run)),
                )
            for kind in (torch.optim.Optimizer, torch.nn.Module):
                stack.callback(setattr, kind, "zero_grad", kind.zero_grad)
                kind.zero_grad = self._clearing(kind.zero_grad)
            if (kind := _compiled_kind()) is not None:
                stack.callback(setattr, kind, "__call__", kind.__call__)
                kind.__call__ = _call_of_compiled(self.recorder)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self._open.__exit__(*error)

    def restart(self):
        """The step that is recorded begins here."""
        self.passes, self.begin = [], 0
        self._calls.clear()
        self._backward_passes = 0
        self.accumulated.restart()
        self._updated.clear()

    def loaded(self, samples):
        """A DataLoader makes a batch of so many samples."""
        self._loaded.append(samples)

    def samples(self, tell):
        """Of a batch of the step; None where they are not known. tell: whether a note says how they were found."""
        first = first_read(self.passes) or next(iter(self.passes), None)
        if first is None:
            return None
        samples, remark = first.samples()
        if remark and tell:
            self.recorder.remark(remark)
        return samples

    def left_out(self):
        """How many optimizers of the step's networks do not update them in this step, as one of a GAN's two."""
        of_networks = {
            id(p) for network in self._called() for p in network.parameters()
        }
        updated = {id(p) for parameters in self._updated.values() for p in parameters}
        left = 0
        for optimizer in optimizers():
            own = {id(p) for p in parameters_of(optimizer)}
            left += bool(own & of_networks) and not own & updated
        return left

    def _called(self):
        return [network for network in self._networks if id(network) in self._calls]

    @property
    def batches(self):
        """How many batches the step has: several where gradients accumulate, each with a call of every network and a
        backward pass. Two backward passes of one batch (an adversary's) call some network only once.
        """
        return max(1, min([self._backward_passes, *self._calls.values()]))

    @contextlib.contextmanager
    def loss(self):
        """Operators in this context compute a loss."""
        before = self.recorder.phase
        if before == "forward":
            self.recorder.phase = "loss"
        try:
            yield
        finally:
            self.recorder.phase = before

    def _on_device(self, run):
        """Gradients that a backward pass begins with have no memory, as all that follow."""

        def without_memory(tensors, gradients, *rest, **kwargs):
            return run(
                tensors,
                tuple(self.recorder.without_memory(g) for g in gradients),
                *rest,
                **kwargs,
            )

        return without_memory

    def _backward_of(self, run):
        def backward(*args, **kwargs):
            if self._backward == 0:
                self._count_backward_pass()
                self._find_read(
                    args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
                )
            self._backward += 1
            self.recorder.phase = "backward"
            layer, self.recorder.layer = self.recorder.layer, -1
            try:
                return run(*args, **kwargs)
            finally:
                self._backward -= 1
                self.recorder.layer = layer
                if self._backward == 0:
                    self._ended_backward = True
                    self._end_of_backward = len(self.recorder.ops)
                    self.recorder.on_write = None if self.stepped else self._on_write
                    self.accumulated.end_backward()

        return backward

    def _find_read(self, roots):
        find_read(self.passes, _all_tensors(roots))
        first = first_read(self.passes)
        if first is not None:
            self.accumulated.begin_first(first.begin)

    def _count_backward_pass(self):
        """Gradients that are added to no others begin a new sum: a second pass on the same batch, as SAM and LBFGS do it."""
        if not self._has_gradients():
            self._backward_passes = 0
        self._backward_passes += 1

    def _has_gradients(self):
        return any(
            p.grad is not None
            for network in self._called()
            for p in network.parameters()
        )

    # ---- modules ----

    def _enter_module(self, module, args):
        recorder = self.recorder
        if isinstance(module, torch.jit.ScriptModule) and not recorder.execute:
            raise CaptureError(
                f"{user_line()}: a network of TorchScript (torch.jit.script, trace or load) is not captured: call the Python "
                "code that it was made of"
            )
        if is_compiled(module):
            recorder.note_compiled()
        if not self._modules:
            self._enter_network(module, args)
        if self._pass is not None:
            self._pass.enter(module, args)
        self._modules.append(recorder.layer)
        name = self._names.get(id(module))
        recorder.layer = recorder.layer_id(
            type(module).__name__ if name is None else name or type(module).__name__
        )

    def _enter_network(self, module, args):
        recorder = self.recorder
        self._names = {
            id(m): name.replace("._orig_mod", "") for name, m in module.named_modules()
        }
        parameters = list(module.parameters())
        for parameter in parameters:
            recorder.set_role(
                parameter, "parameter" if parameter.requires_grad else "buffer"
            )
            if recorder.recording:
                recorder.note_tensor(
                    parameter
                )  # one that no operator uses has memory, too
        for buffer in module.buffers():
            if is_meta(buffer) or recorder.execute:
                recorder.set_role(buffer, "buffer")
        if not any(module is known for known in self._networks):
            self._networks.append(module)
        if self._backward:
            return
        if isinstance(module, torch.nn.modules.loss._Loss) or (
            not parameters and recorder.phase == "loss"
        ):
            recorder.phase = "loss"
            return
        trains = torch.is_grad_enabled() and any(p.requires_grad for p in parameters)
        self.before_forward(module, trains)
        loaded = self._loaded[0] if self._loaded else None
        self._loaded.clear()
        self._pass = ForwardPass(module, trains, len(recorder.ops), loaded)
        self.passes.append(self._pass)
        if trains:
            self._begin_training(module)
        if recorder.phase == "loss":  # between two networks
            for op in reversed(recorder.ops):
                if op["phase"] != "loss":
                    break
                op["phase"] = "forward"
        recorder.phase = "forward"

    def _begin_training(self, module):
        """A forward pass begins of a network that is trained."""
        self.stepped = False
        self.recorder.on_write = None
        if (
            self._ended_backward
            and not self._updated
            and not self.recorder.execute
            and self._has_gradients()
        ):
            self.accumulated.begin_next()
        self._ended_backward = False
        self._calls[id(module)] = self._calls.get(id(module), 0) + 1

    def _leave_module(
        self, module, args, *rest
    ):  # without keyword arguments where an exception was raised
        self.recorder.layer = self._modules.pop() if self._modules else -1
        if self._modules or self._backward:
            return
        given = [*args, *(rest[0] if len(rest) == 2 else {}).values()]
        tensors = list(_all_tensors(given))
        if self._pass is not None:
            self._pass.leave(
                len(self.recorder.ops), given, tensors, self.recorder.joined
            )
            self._pass = None
        if self.recorder.phase == "forward":
            self.recorder.phase = "loss"
            self._name_inputs(tensors)

    def _name_inputs(self, tensors):
        for tensor in tensors:
            if (is_meta(tensor) or self.recorder.execute) and tensor.is_leaf:
                self.recorder.name_input(tensor)

    def name_gradients(self):
        """Finds the gradients that no optimizer has used."""
        for network in self._networks:
            for parameter in network.parameters():
                if parameter.grad is not None:
                    self.recorder.set_role(parameter.grad, "gradient")

    def _clearing(self, zero_grad):
        """A zero_grad() that knows of the gradients of the step before, which are in memory until then. The first step of
        a program has none: they are made up.
        """

        def clear(owner, *args, **kwargs):
            parameters = (
                parameters_of(owner)
                if isinstance(owner, torch.optim.Optimizer)
                else list(owner.parameters())
            )
            keeps = not kwargs.get("set_to_none", args[0] if args else True)
            if self.recorder.recording and not self.recorder.execute:
                self._remember_gradients(
                    [p for p in parameters if p.requires_grad], keeps
                )
            self._cleared.update(id(p) for p in parameters)
            return zero_grad(owner, *args, **kwargs)

        return clear

    def _remember_gradients(self, parameters, keeps):
        recorder = self.recorder
        made_up = (
            keeps or recorder.ops
        )  # what is cleared before all else was never there
        for parameter in parameters:
            if (
                parameter.grad is None
                and made_up
                and id(parameter) not in self._cleared
            ):
                with recorder.unrecorded():
                    parameter.grad = torch.empty_like(parameter)
            if parameter.grad is not None and made_up:
                recorder.set_role(parameter.grad, "gradient")
                recorder.note_tensor(parameter.grad)

    # ---- optimizers ----

    def _name_training(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self.recorder.set_role(parameter, "parameter")
                if parameter.grad is not None:
                    self.recorder.set_role(parameter.grad, "gradient")
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                for tensor in tensors_in(value):
                    if tensor.dim() > 0 or is_meta(tensor):
                        self.recorder.set_role(tensor, "optimizer_state")

    def _before_step(self, optimizer, args, kwargs):
        if self._trying:
            return
        if isinstance(optimizer, torch.optim.LBFGS) and not self.recorder.execute:
            self._iterate_on(optimizer)
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._watched(optimizer, args[1]), *args[2:]), kwargs
        if kwargs.get("closure") is not None:
            return args, {
                **kwargs,
                "closure": self._watched(optimizer, kwargs["closure"]),
            }
        self._begin_update(optimizer)

    def _iterate_on(self, optimizer):
        """Numbers that nobody knows do not change: to L-BFGS they look as if it had converged."""
        for group in optimizer.param_groups:
            self._tolerances.setdefault(
                id(group),
                (group, {name: group[name] for name in _TOLERANCES}),
            )
            group.update(dict.fromkeys(_TOLERANCES, -1.0))

    def _watched(self, optimizer, closure):
        """A closure that computes the gradients while the optimizer steps."""

        def watched():
            try:
                return closure()
            finally:
                self._begin_update(optimizer)

        return watched

    def _begin_update(self, optimizer):
        self.recorder.phase = "optimizer"
        if id(optimizer) not in self._tried:
            self._tried.add(id(optimizer))
            self._saved_states.append((optimizer, _copy_of_state(optimizer)))
            closure = inspect.signature(type(optimizer).step).parameters.get("closure")
            needs_closure = (
                closure is not None and closure.default is inspect.Parameter.empty
            )
            if not optimizer.state and not needs_closure and not self.recorder.execute:
                self._try_step(optimizer)
        self._name_training(optimizer)

    def _on_write(self, tensors):
        """Whoever writes to parameters after a backward pass updates them, where there is no optimizer of torch.optim."""
        recorder = self.recorder
        parameters = [p for network in self._called() for p in network.parameters()]
        own, known = (
            {storage_of(p)._cdata for p in parameters},
            {id(p) for p in parameters},
        )
        if not any(storage_of(tensor)._cdata in own for tensor in tensors):
            return
        recorder.on_write = None
        if self.stepped or any(
            id(p) in known
            for optimizer in optimizers()
            for p in parameters_of(optimizer)
        ):
            return  # an optimizer has the update, or had it: others of the program are of other networks
        recorder.phase = "optimizer"
        for op in recorder.ops[self._end_of_backward :]:
            op["phase"] = "optimizer"
        self._updated[None] = tensors
        self.stepped = True

    def _try_step(self, optimizer):
        """Makes the optimizer's state, so that the step that is recorded is like all later ones."""
        self._trying = True
        try:
            with self.recorder.unrecorded():
                optimizer.step()
        finally:
            self._trying = False

    def _after_step(self, optimizer, args, kwargs):
        if self._trying:
            return
        self._name_training(optimizer)
        self._updated[id(optimizer)] = parameters_of(optimizer)
        self._cleared.difference_update(id(p) for p in parameters_of(optimizer))
        self.stepped = True

    def restore_optimizers(self):
        for group, tolerances in self._tolerances.values():
            group.update(tolerances)
        self._tolerances.clear()
        for optimizer, state in self._saved_states:
            optimizer.state.clear()
            optimizer.state.update(state)
        self._saved_states = []


def parameters_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def _copy_of_state(optimizer):
    """Counts of steps are on the host and grow; all else is on the device and stays as it is."""

    def kept(value):
        return (
            value.clone()
            if isinstance(value, torch.Tensor) and value.dim() == 0
            else value
        )

    return {
        key: {name: kept(v) for name, v in state.items()}
        if isinstance(state, dict)
        else state
        for key, state in optimizer.state.items()
    }
