# SPDX-License-Identifier: Apache-2.0
"""Records the operators that PyTorch executes, with the tensors that they read and write."""

import contextlib
import functools
import math
import os
import sys
import types
import weakref
from typing import Any, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from perfpred._capture.above import below_autograd
from perfpred._capture.branches import answer_without_exception
from perfpred._capture.place import HOST, META, Places, is_meta, storage_of, swap
from perfpred._capture.values import KnownValues, tensors_in
from perfpred._library import Error

# Tensors that a program makes on the host with at most so many elements have values. Larger ones have none, so that
# weights take no memory.
_LARGEST_WITH_VALUES = 4096

# A fused operator that returns nothing writes these arguments (and reads the gradients, which its schema also marks).
_WRITTEN = {
    "self",
    "exp_avgs",
    "exp_avg_sqs",
    "max_exp_avg_sqs",
    "momentum_buffer_list",
    "state_sums",
    "found_inf",
}


# Operators that are another one's kernel on a device, and one that only hands a number to the program.
_EXECUTED_AS = {
    "aten::_pack_padded_sequence": "aten::cat",
    "aten::_is_all_true": "aten::all",
    "aten::_is_any_true": "aten::any",
}
_OF_HOST = "aten::_local_scalar_dense"

# Operators without a rule for tensors without memory, and the number of the argument that their result is as.
_AS_ARGUMENT = {
    "aten::_sample_dirichlet": 0,
    "aten::_standard_gamma": 0,
    "aten::_standard_gamma_grad": 0,
    "aten::_dirichlet_grad": 0,
    "aten::poisson": 0,
    "aten::binomial": 0,
    "aten::_ctc_loss_backward": 1,
}


class CaptureError(Error, RuntimeError):
    """A step that cannot be captured; says the line of the user's program that asked for the impossible."""


_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_PACKAGES = (torch.__path__[0], _OWN, "<", os.path.dirname(os.__file__))


def is_of_library(file):
    """Whether a source belongs to Python, PyTorch, perfpred or an installed package."""
    return (
        file.startswith(_PACKAGES)
        or "/site-packages/" in file
        or "/dist-packages/" in file
    )


def user_line():
    """`file:line` of the innermost frame that belongs to the user's program."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    innermost = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_of_library(file):
            return f"{file}:{frame.f_lineno}"
        if innermost is None and not file.startswith(_PACKAGES):
            innermost = f"{file}:{frame.f_lineno}"  # an installed package that is no part of PyTorch
        frame = frame.f_back
    return innermost or "?"


class _Schema:
    """What the recorder needs to know of an operator."""

    def __init__(self, op):
        schema = op._schema
        returned = [r.alias_info for r in schema.returns]
        self.name = op.name().partition(".")[0]
        # A view neither computes nor moves anything; nor does an exchange with no other process.
        self.view = (
            bool(returned) and returned[0] is not None and not returned[0].is_write
        )
        self.view = self.view or self.name.startswith("c10d::")
        self.in_place = (
            bool(returned) and returned[0] is not None and returned[0].is_write
        )
        self.pointwise = torch.Tag.pointwise in op.tags
        self.written = []
        if not schema.returns:
            arguments = [
                a
                for a in schema.arguments
                if a.alias_info is not None and a.alias_info.is_write
            ]
            named = [a.name for a in arguments if a.name in _WRITTEN]
            if "found_inf" in named and "unscale" not in self.name:
                named.remove("found_inf")
            self.written = named or [a.name for a in arguments]
        self.arguments = [a.name for a in schema.arguments]
        self.flags = [
            (i, a)
            for i, a in enumerate(self.arguments)
            if a in ("transposed", "causal", "is_causal")
        ]
        self.device = "device" in self.arguments
        self.random = self.name in (
            "aten::rand",
            "aten::randn",
        )  # nobody knows their values


_schemas: dict[Any, "_Schema"] = {}


def _schema_of(op):
    found = _schemas.get(op)
    if found is None:
        found = _schemas[op] = _Schema(op)
    return found


def _parts(tensor):
    if tensor.layout == torch.strided:
        return [tensor]
    with _disable_current_modes():
        if tensor.layout == torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
        places = (
            [tensor.crow_indices(), tensor.col_indices()]
            if rows
            else [tensor.ccol_indices(), tensor.row_indices()]
        )
        return [*places, tensor.values()]


@functools.cache
def _executes_itself(kind):
    """Whether a class of tensors says what an operator on them executes."""
    return kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


# Composite operators with a kernel of their own on CUDA (native_functions.yaml), which a build without CUDA lacks.
_ONE_KERNEL = {"aten::silu_backward", "aten::_fused_rms_norm"}


@functools.cache
def _is_composite(op):
    """Whether no device has a kernel for it: it is the operators that it consists of."""
    if op.name() in _ONE_KERNEL:
        return False
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(op.name(), "CompositeImplicitAutograd") and not has_kernel(
        op.name(), "CUDA"
    )


class Recorder(TorchDispatchMode):
    """Executes operators, on tensors without memory unless `execute`, and records them while `recording`."""

    def __init__(self, execute=False, tell=None):
        super().__init__()
        self.execute = execute
        self.tell = tell or (lambda text: None)
        self.recording = False
        self.on_host = (
            False  # a loader makes a batch: whatever it does is done on the host
        )
        self.spares_host = (
            False  # leaves tensors of the host that it did not make as they are
        )
        self.on_write = None  # is called with tensors that an operator writes to
        self.compare = None  # is called with operators that are not recorded
        self.phase = "forward"
        self.layer = -1
        self.layers = []
        self.values = []  # what the program asked of tensors without values
        self.compiled = False  # the program compiles its network
        self.remarks = []  # what whoever reads an answer should know
        self._made = {}  # storages on the host that were made here
        self._stand_ins = {}  # of tensors of the host, by their storage
        self.known = KnownValues()
        self.places = Places()
        self.swapped = []  # tensors of the program that have no memory while they are captured, and what they stood for
        self._roles = {}  # by storage: what is known of it before it is used
        self._joined = {}  # by storage: rows of each of the parts that it was joined of
        self._layer_of_node = {}
        self._layer_ids = {}
        self.clear()

    def clear(self):
        """Forgets what was recorded."""
        self.ops = []
        self.tensors = []
        self.storages = []
        self._tensor_ids = {}
        self._storage_ids = {}
        self._named = set()  # storages of which it was said what they are for
        self._watchers = {}

    @contextlib.contextmanager
    def unrecorded(self):
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    # ---- what hooks tell ----

    def layer_id(self, name):
        if name not in self._layer_ids:
            self._layer_ids[name] = len(self.layers)
            self.layers.append(name)
        return self._layer_ids[name]

    def set_role(self, tensor, role):
        """Says what a tensor is for; before or after operators use it."""
        storage = storage_of(tensor)
        key = storage._cdata
        if key in self._storage_ids:
            self.storages[self._storage_ids[key]]["role"] = role
            self._named.add(self._storage_ids[key])
        if key not in self._roles:
            self._roles[key] = (
                role,
                weakref.ref(storage, lambda _: self._roles.pop(key, None)),
            )
        elif self._roles[key][0] != role:
            self._roles[key] = (role, self._roles[key][1])

    def holds_activations(self):
        """Whether anything that a forward pass has made is alive."""
        return any(
            self.storages[index]["role"] == "activation"
            for index in self._storage_ids.values()
        )

    def joined(self, tensor):
        """Rows of each part of a tensor that the program joined of equal parts; None for other tensors."""
        known = self._joined.get(storage_of(tensor)._cdata)
        return None if known is None else known[0]

    def _learn_joined(self, schema, args, result):
        """Of aten::cat along the first axis, and of copies to the device."""
        if schema.name == "aten::_to_copy":
            rows = self.joined(args[0])
        elif schema.name == "aten::cat" and self.layer < 0:
            parts, axis = args[0], args[1] if len(args) > 1 else 0
            sizes = {tuple(part.shape) for part in parts}
            alike = len(parts) > 1 and len(sizes) == 1 and axis == 0
            rows = parts[0].shape[0] if alike else None
        else:
            return
        if rows is not None and rows > 1:
            storage = storage_of(result)
            key = storage._cdata
            gone = weakref.ref(storage, lambda _: self._joined.pop(key, None))
            self._joined[key] = (rows, gone)

    def note_tensor(self, tensor):
        """Lists a tensor, whether or not an operator uses it."""
        self._tensor_id(tensor)

    def name_input(self, tensor):
        """Says that a tensor was given to the network, unless it is known what it is for."""
        index = self._storage_ids.get(storage_of(tensor)._cdata)
        if (
            index is not None
            and self.storages[index]["role"] == "buffer"
            and index not in self._named
        ):
            self.set_role(tensor, "input")

    # ---- tensors of the file ----

    def _storage_id(self, tensor, is_output):
        storage = storage_of(tensor)
        key = storage._cdata
        known = self._storage_ids.get(key)
        if known is not None:
            return known
        index = len(self.storages)
        role = self._roles[key][0] if key in self._roles else None
        if role is not None:
            self._named.add(index)
        if role is None and isinstance(tensor, torch.nn.Parameter):
            role = "parameter" if tensor.requires_grad else "buffer"
        if role is None and not is_output:
            if tensor.requires_grad and tensor.is_leaf:
                role = "parameter"
            else:
                role = (
                    "input" if self.phase == "loss" and tensor.dim() > 0 else "buffer"
                )
        if role is None:
            role = "activation" if self.phase in ("forward", "loss") else "temporary"
        self.storages.append({"bytes": storage.nbytes(), "role": role})
        self._storage_ids[key] = index
        ids, ops = self._storage_ids, self.ops

        def freed(_):
            ids.pop(key, None)
            if ops:
                ops[-1].setdefault("frees", []).append(index)

        self._watchers[index] = weakref.ref(storage, freed)
        return index

    def _tensor_ids_of(self, tensor, is_output=False):
        """Of a tensor; of a sparse one, of its indices and values."""
        return [self._tensor_id(part, is_output) for part in _parts(tensor)]

    def _tensor_id(self, tensor, is_output=False):
        storage = self._storage_id(tensor, is_output)
        # Slices of one tensor, as q, k and v in one product's result, differ in where they begin.
        key = (
            storage,
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
            tensor.storage_offset(),
        )
        known = self._tensor_ids.get(key)
        if known is None:
            known = self._tensor_ids[key] = len(self.tensors)
            self.tensors.append(
                (storage, tensor.dtype, tuple(tensor.shape), tensor.stride())
            )
        return known

    def _current_layer(self):
        if (
            self.layer >= 0
        ):  # autograd has just made a node for this operator, if its result has a gradient
            self._layer_of_node.setdefault(
                torch.autograd._get_sequence_nr() - 1, self.layer
            )
            return self.layer
        node = torch._C._current_autograd_node()
        return -1 if node is None else self._layer_of_node.get(node._sequence_nr(), -1)

    def record_kernel(self, name, args):
        """A kernel that is no operator of LibTorch, and writes to some of its arguments."""
        tensors = [self.without_memory(t) for t in args if isinstance(t, torch.Tensor)]
        for tensor in tensors:
            self.known.forget(tensor)
        if self.recording:
            entry = {
                "name": f"triton::{name}",
                "inputs": [self._tensor_id(t) for t in tensors],
                "outputs": [],
            }
            layer = self._current_layer()
            self.ops.append(
                {
                    **entry,
                    "phase": self.phase,
                    **({"layer": layer} if layer >= 0 else {}),
                }
            )

    def _record(self, op, schema, args, kwargs, result):
        layer = self._current_layer()
        outputs: list[Any] = []
        for value in result if isinstance(result, (list, tuple)) else [result]:
            if value is None or isinstance(value, (torch.Tensor, list, tuple)):
                outputs.extend([None] if value is None else tensors_in(value))
        if schema.written:
            named = dict(zip(schema.arguments, args))
            named.update(kwargs)
            outputs = [
                t for name in schema.written for t in tensors_in(named.get(name))
            ]
        values = list(args) + list(kwargs.values())
        if schema.name == "aten::copy_":
            values = values[1:]
        if schema.name.startswith(
            "aten::mkldnn_rnn_layer"
        ):  # states have three axes, as those of other networks have
            values[5:7] = [state.unsqueeze(0) for state in values[5:7]]
        inputs = [
            t
            for v in values
            for t in tensors_in(v)
            if t.dim() > 0 or is_meta(t) or self.execute
        ]
        entry = {
            "name": _EXECUTED_AS.get(schema.name, schema.name),
            "inputs": [i for t in inputs for i in self._tensor_ids_of(t)],
            "outputs": [
                i
                for t in outputs
                for i in ([None] if t is None else self._tensor_ids_of(t, True))
            ],
            "phase": self.phase,
        }
        flags = {}
        for position, name in schema.flags:
            value = args[position] if position < len(args) else kwargs.get(name, False)
            if value:
                flags["causal" if "causal" in name else name] = True
        if schema.pointwise:
            flags["pointwise"] = True
        if flags:
            entry["args"] = flags
        if layer >= 0:
            entry["layer"] = layer
        if schema.name.startswith("aten::_fft_"):
            entry["flops"] = _fourier_flops(schema.name, args[0], args[1], outputs[0])
        self.ops.append(entry)

    # ---- execution ----

    @staticmethod
    def refuse_layout():
        raise CaptureError(
            f"{user_line()}: sparse and nested tensors are not captured without memory: execute the step instead "
            "(execute=True, --execute), or write it with dense tensors (index_select, index_add)"
        )

    def stand_in(self, tensor):
        """A tensor without memory in place of one of the host. Tensors that share memory share it there, too."""
        if tensor.layout != torch.strided or tensor.is_nested:
            self.refuse_layout()
        storage = storage_of(tensor)
        key = storage._cdata
        with _disable_current_modes():  # neither is an operator of the program
            if key not in self._stand_ins:
                made = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta")
                self.set_role(made, self._role_on_host(tensor))
                self._stand_ins[key] = (
                    made,
                    weakref.ref(storage, lambda _: self._stand_ins.pop(key, None)),
                )
                self.known.learn_storage(made, tensor)
                self.places.put(made, tensor.device)
            whole = self._stand_ins[key][0]
            result = torch.empty(0, dtype=tensor.dtype, device="meta")
            return result.set_(
                whole.untyped_storage(),
                tensor.storage_offset(),
                tensor.size(),
                tensor.stride(),
            )

    def release(self, tensor):
        """Forgets the stand-in of a tensor of the host, which nothing but the program holds from now on."""
        self._stand_ins.pop(storage_of(tensor)._cdata, None)

    def remove_memory(self, tensor):
        """Lets a leaf of the host have no memory from now on, so that its gradient needs none."""
        if (
            self.on_host
            or is_meta(tensor)
            or tensor.layout != torch.strided
            or tensor.requires_grad
            or not tensor.is_leaf
        ):
            return
        made = self.stand_in(tensor)
        swap(tensor, made)
        if self.spares_host:
            self.swapped.append((tensor, made))

    def without_memory(self, value):
        """An argument of an operator, with stand-ins for the tensors of the host in it."""
        if isinstance(value, torch.Tensor):
            return value if is_meta(value) or value.dim() == 0 else self.stand_in(value)
        if isinstance(value, (list, tuple)) and any(
            isinstance(v, torch.Tensor) for v in value
        ):
            return [self.without_memory(v) for v in value]
        if isinstance(value, torch.device):
            return META
        return value

    def _value(self, tensor):
        """A plausible value of a tensor that has none: no check of a program that trains raises an exception."""
        value: Any = False
        if tensor.dtype == torch.bool:
            passes = answer_without_exception()
            if passes is not None:
                return passes
        else:
            value = (
                1.0
                if tensor.is_floating_point()
                else complex(1)
                if tensor.is_complex()
                else 1
            )
        self.note(f"a tensor's value; it is told {value}")
        return value

    def note_compiled(self):
        self.compiled = True
        self.remark(
            "torch.compile: the operators before fusion are recorded, and that the step is compiled"
        )

    def remark(self, what):
        if what not in self.remarks:
            self.remarks.append(what)
            self.tell(what)

    def note(self, what):
        line = user_line()
        if not any(v["line"] == line for v in self.values):
            self.values.append({"line": line, "asks": what})
            self.tell(f"{line}: asks for {what}")

    def _answered_on_host(self, op, schema, args, kwargs):
        """The result of an operator that needs no device, in a tuple; None for all others."""
        if schema.name in (_OF_HOST, "aten::equal"):
            values = [self.known.value(t) for t in args]
            if all(v is not None for v in values):
                return (op(*values),)
        if schema.name == _OF_HOST:
            return (self._value(args[0]),)
        if schema.name == "aten::equal":
            self.note("a comparison of tensors; it is told that they are equal")
            return (True,)
        if schema.name in ("aten::record_stream", "aten::is_pinned"):
            return (True if schema.name.endswith("pinned") else None,)
        if schema.name == "aten::_pin_memory":
            return (args[0].alias(),)
        return None

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(map(_executes_itself, types)):
            return NotImplemented
        if _is_composite(
            op
        ):  # in inference mode no autograd takes it apart, nor with nested tensors
            if not self.execute and any(
                t.is_nested for value in args for t in tensors_in(value)
            ):
                self.refuse_layout()
            with self:
                return op.decompose(*args, **kwargs)
        self.places.truthful += 1
        try:
            with below_autograd():
                result = self._execute(op, args, kwargs)
                self._learn_joined(_schema_of(op), args, result)
                return result
        finally:
            self.places.truthful -= 1

    def _execute(self, op, args, kwargs):
        if self.execute:
            return self._run(op, args, kwargs)
        return self._run_without_memory(op, args, kwargs)

    def _run(self, op, args, kwargs):
        schema = _schema_of(op)
        device, moved = kwargs.get("device"), False
        if device is not None and device.type == "cuda":
            kwargs = {**kwargs, "device": HOST}
            moved = schema.name == "aten::_to_copy"  # the loader's copy to the device
        kwargs = {name: v for name, v in kwargs.items() if name != "pin_memory"}
        result = op(*args, **kwargs)
        if (
            self.recording
            and not moved
            and schema.name != _OF_HOST
            and not schema.view
            and not schema.name.startswith("profiler::")
        ):
            numbers = all(t.dim() == 0 for v in args for t in tensors_in(v))
            if not (numbers and self.phase == "optimizer"):
                self._record(op, schema, args, kwargs, result)
        return result

    def _run_without_memory(self, op, args, kwargs):
        schema = _schema_of(op)
        if self.on_host:
            return op(*args, **kwargs)
        tensors = [t for v in (*args, *kwargs.values()) for t in tensors_in(v)]
        if not tensors:
            return self._make(op, schema, args, kwargs)
        has_meta = any(is_meta(t) for t in tensors)
        device = kwargs.get("device")
        if (
            not has_meta
            and (device is None or device.type == "cpu")
            and not self._must_spare(schema, args)
        ):
            return self._on_host(
                op(*args, **kwargs)
            )  # the program computes on the host
        answered = (
            self._answered_on_host(op, schema, args, kwargs) if has_meta else None
        )
        if answered is not None:
            return answered[0]
        if schema.name == "aten::_to_copy":
            source = args[0]
            if not is_meta(source):  # the loader's copy to the device
                copy = self._executed(op, self._map(args), {**kwargs, "device": META})
                if source.dim() > 0:
                    self.set_role(copy, self._role_on_host(source))
                self.known.learn(copy, source.to(copy.dtype))
                return copy
            if (
                device is not None
                and device.type == "cpu"
                and kwargs.get("dtype") in (None, source.dtype)
            ):
                known = self.known.value(source)
                if known is not None:
                    return self._on_host(known.clone())
                copy = torch.empty_like(source)  # to the host
                self.places.put(copy, HOST)
                return copy
        if schema.name == "aten::copy_" and not (is_meta(args[0]) and is_meta(args[1])):
            if is_meta(args[0]) and args[1].dim() > 0:
                self.set_role(args[0], "input")
                self.known.forget(args[0])
            return args[0]
        mapped, mapped_kwargs = (
            self._map(args),
            {name: self.without_memory(v) for name, v in kwargs.items()},
        )
        result = self._executed(op, mapped, mapped_kwargs)
        if isinstance(device, torch.device) and device != META:
            self.places.put(result, device)
        elif not schema.view:
            self.places.follow(tensors, tensors_in(result))
        if self.on_write is not None and (schema.in_place or schema.written):
            self.on_write(list(tensors_in(args[0])))
        if not schema.view:
            changed = [args[0], result] if schema.in_place or schema.written else None
            self.known.follow(op, args, kwargs, result, changed)
        if self.recording and not schema.view:
            self._record(op, schema, mapped, mapped_kwargs, result)
        elif self.compare is not None and not schema.view:
            self.compare(schema, result)
        on_host = (
            schema.in_place
            and isinstance(args[0], torch.Tensor)
            and not is_meta(args[0])
        )
        return args[0] if on_host else result

    def _on_host(self, result):
        """Remembers that tensors were made here."""
        if self.spares_host:
            for tensor in (
                part for made in tensors_in(result) for part in _parts(made)
            ):
                storage = storage_of(tensor)
                key = storage._cdata
                if not is_meta(tensor) and key not in self._made:
                    self._made[key] = weakref.ref(
                        storage, functools.partial(self._forget, key)
                    )
        return result

    def _forget(self, key, _):
        self._made.pop(key, None)

    def _must_spare(self, schema, args):
        """Whether an operator would change a tensor of the host that was there before."""
        if not self.spares_host or not (schema.in_place or schema.written):
            return False
        changed = next(tensors_in(args[0]), None)
        if changed is None or changed.dim() == 0:
            return False
        return any(
            part.untyped_storage()._cdata not in self._made for part in _parts(changed)
        )

    def _role_on_host(self, tensor):
        key = storage_of(tensor)._cdata
        if key in self._roles:
            return self._roles[key][0]
        return "buffer" if isinstance(tensor, torch.nn.Parameter) else "input"

    def _map(self, args):
        return [self.without_memory(a) for a in args]

    def _executed(self, op, args, kwargs):
        try:
            if op._overloadname.startswith("dtype") and op._opname in (
                "mm",
                "bmm",
                "addmm",
                "baddbmm",
            ):
                return _product_of_type(op, args, kwargs)
            if op is torch.ops.aten._pack_padded_sequence.default:
                return self._packed(*args)
            result = op(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if op._opname.startswith("_nested_"):
                self.refuse_layout()
            shaped = self._shaped(op, args, kwargs)
            if shaped is not None:
                return shaped
            reason = str(error).strip().partition("\n")[0]
            raise CaptureError(_explained(op, reason)) from error
        if any(t.layout != torch.strided for t in tensors_in(result)):
            self.refuse_layout()
        return (
            _laid_out_by_cudnn(op, args, result)
            if op._opname.startswith("convolution")
            else result
        )

    def _shaped(self, op, args, kwargs):
        """The result of an operator that has no rule, or whose shape depends on values that are known or have a bound."""
        if op.name() in _AS_ARGUMENT:
            return torch.empty_like(args[_AS_ARGUMENT[op.name()]])
        shaped = self.known.shaped(op, args, kwargs)
        if shaped is None:
            shaped = self.known.bounded(op, args)
            if op.name() == "torchvision::nms":  # keeps some of the boxes
                shaped = args[0].new_empty(len(args[0]), dtype=torch.int64)
            if shaped is not None:
                self.remark(
                    f"{user_line()}: a mask chooses by values that a capture lacks: as many rows as it could choose are "
                    "counted, which is an upper bound"
                )
        return shaped

    def _packed(self, x, lengths, batch_first):
        """Sequences of the host's lengths without their padding, and how many are in each position."""
        inside = x.transpose(0, 1) if batch_first else x
        of_all, known = self.known.lengths(lengths, inside.shape[0])
        if not known:
            self.remark(
                f"{user_line()}: sequences are packed by lengths that a capture lacks: all are counted as the longest, "
                "which is an upper bound"
            )
        rows = [int((of_all > place).sum()) for place in range(int(of_all.max()))]
        sizes = torch.tensor(rows, dtype=torch.int64)
        return x.new_empty((sum(rows), *inside.shape[2:])), sizes

    def _make(self, op, schema, args, kwargs):
        """Executes an operator that makes a tensor of nothing."""
        device = kwargs.get("device")
        on_device = device is not None and device.type != "cpu"
        kwargs = {name: v for name, v in kwargs.items() if name != "pin_memory"}
        if schema.device and on_device:
            kwargs["device"] = META
        elif schema.device and _elements(args) > (
            1 if self.recording and schema.random else _LARGEST_WITH_VALUES
        ):
            kwargs = {**kwargs, "device": META}
        result = self._on_host(op(*args, **kwargs))
        if not on_device:
            for made in tensors_in(result):
                self.places.put(made, HOST)
        if on_device:
            self.known.follow(op, args, kwargs, result)
        if self.recording and on_device and isinstance(result, torch.Tensor):
            self._record(op, schema, args, kwargs, result)
        elif (
            self.compare is not None and on_device and isinstance(result, torch.Tensor)
        ):
            self.compare(schema, result)
        return result


def _fourier_flops(name, source, axes, result):
    """5 n log2 n of each complex transform of n numbers, half as many of a real one (Cooley and Tukey 1965)."""
    whole = result if name.endswith("c2r") else source
    numbers = math.prod(whole.shape[axis] for axis in axes)
    return (
        (5 if name.endswith("c2c") else 2.5)
        * whole.numel()
        * math.log2(max(numbers, 1))
    )


def _product_of_type(op, args, kwargs):
    """A product with a result of another type: PyTorch's rule for tensors without memory takes the type for a factor."""
    place = next(i for i, value in enumerate(args) if isinstance(value, torch.dtype))
    if "out" in kwargs:
        return kwargs["out"]
    made = getattr(torch.ops.aten, op._opname).default(*args[:place])
    return torch.empty_like(made, dtype=args[place])


def _laid_out_by_cudnn(op, args, result):
    """aten/src/ATen/native/ConvUtils.h, cudnn_conv_suggest_memory_format(): channels-last if image or weight is."""
    first = 1 if op._opname == "convolution_backward" else 0
    image, weight = args[first], args[first + 1]
    formats = {
        torch._prims_common.suggest_memory_format(t) for t in (image, weight)
    } - {torch.contiguous_format}
    if not formats or torch.float64 in (image.dtype, weight.dtype):
        return result
    memory_format = formats.pop()
    if isinstance(result, torch.Tensor):
        return result.contiguous(memory_format=memory_format)
    *gradients, of_bias = result
    return (
        *(
            None if t is None else t.contiguous(memory_format=memory_format)
            for t in gradients
        ),
        of_bias,
    )


def _elements(args):
    """How many elements a tensor of this shape has; 0 where the arguments are no shape."""
    shape = args[0] if args else ()
    if isinstance(shape, (list, tuple, torch.Size)):
        elements = 1
        for size in shape:
            elements *= size if isinstance(size, int) else 1
        return elements
    return 0


def _explained(op, reason):
    name = op.name()
    place = user_line()
    lacks_shapes = (
        "meta" in reason.lower()
        or "fake" in reason.lower()
        or "data dependent" in reason.lower()
    )
    if not lacks_shapes:
        return f"{place}: {name}: {reason}"
    if name.startswith("aten::"):
        return (
            f"{place}: the shape of the result of {name} depends on values, which tensors without memory lack; "
            "execute the step instead (execute=True, --execute)"
        )
    return (
        f"{place}: operator {name} has no rule for the shapes of its results; "
        f'register one with torch.library.register_fake("{name.partition(".")[0]}")'
    )
