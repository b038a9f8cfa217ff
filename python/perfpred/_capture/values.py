# SPDX-License-Identifier: Apache-2.0
"""Values of tensors without memory, as far as they are known: masks, lengths and positions that the host made.

A program asks of them how to go on: whether a mask hides anything, how many labels count.
"""

import math
import weakref

import torch

from perfpred._capture.counts import TrueCounts
from perfpred._capture.place import is_meta

_LARGEST = 2**20  # elements
_LIKE = (
    "ones_like",
    "zeros_like",
    "full_like",
    "new_ones",
    "new_zeros",
    "new_full",
)  # of a tensor's shape alone
_HOST = torch.device("cpu")


def tensors_in(value):
    """The tensors of an argument: itself, or those of a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            if isinstance(element, torch.Tensor):
                yield element


def _of_finite_numbers(name, args):
    """What a question for NaN and infinities (isfinite() asks twice) is told: numbers that nobody knows are finite."""
    if name in ("isnan", "isinf"):
        return False
    infinite = len(args) == 2 and (
        args[1] is args[0] or (isinstance(args[1], float) and math.isinf(args[1]))
    )
    if name not in ("eq", "ne") or not infinite:
        return None
    return (name == "eq") == (args[1] is args[0])


class KnownValues:
    """Values of integers and truth values, by the storage of the tensor without memory."""

    def __init__(self):
        self._hosts = {}  # functions that give a storage of the host, laid out as that without memory
        self._counts = TrueCounts(self.value)

    def learn_storage(self, tensor, host):
        """A tensor of the host, whose whole storage a tensor without memory stands for. Does not keep it alive."""
        if self._may_be_known(host):
            self._set(tensor, weakref.ref(host.untyped_storage()))

    def learn(self, tensor, host):
        """The values of a new tensor without memory."""
        if (
            tensor.is_contiguous()
            and tensor.storage_offset() == 0
            and self._may_be_known(host)
        ):
            storage = host.contiguous().untyped_storage()
            self._set(tensor, lambda: storage)

    def _set(self, tensor, host):
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._hosts[key] = (
            host,
            weakref.ref(storage, lambda _: self._hosts.pop(key, None)),
        )

    @staticmethod
    def _may_be_known(host):
        real = host.dtype.is_floating_point or host.dtype.is_complex
        return (
            host.device.type == "cpu"
            and not real
            and host.untyped_storage().nbytes() <= 8 * _LARGEST
        )

    def forget(self, value):
        for tensor in tensors_in(value):
            self._hosts.pop(tensor.untyped_storage()._cdata, None)
            self._counts.forget(tensor)

    def value(self, tensor):
        """A tensor of the host with the same values; None if they are not known."""
        if not is_meta(tensor):
            return tensor
        known = self._hosts.get(tensor.untyped_storage()._cdata)
        host = None if known is None else known[0]()
        if host is None:
            return None
        return torch.empty(0, dtype=tensor.dtype).set_(
            host, tensor.storage_offset(), tensor.size(), tensor.stride()
        )

    def follow(self, op, args, kwargs, result, changed=None):
        """Computes the result of an operator on the host, too, if all that it depends on is known.

        changed: what the operator wrote to, and is not known any more.
        """
        count = self._counts.after(op, args)
        if changed is not None:
            for value in changed:
                self.forget(value)
        self._counts.learn(result, count)
        if changed is not None:
            return
        if (
            not isinstance(result, torch.Tensor)
            or result.dtype.is_floating_point
            or result.dtype.is_complex
        ):
            return
        if result.numel() > _LARGEST or torch.Tag.nondeterministic_seeded in op.tags:
            return
        truth = _of_finite_numbers(op._opname, args)
        if truth is not None and result.dtype == torch.bool:
            self.learn(result, torch.full(result.shape, truth))
            return
        computed = self._computed(op, args, kwargs)
        if computed is not None:
            self.learn(result, computed)

    def _computed(self, op, args, kwargs):
        """The result of an operator on the host; None if not all that it depends on is known."""
        by_shape = op._opname in _LIKE
        mapped = [self._on_host(v, by_shape) for v in args]
        mapped_kwargs = {name: self._on_host(v, by_shape) for name, v in kwargs.items()}
        if any(v is _unknown for v in (*mapped, *mapped_kwargs.values())):
            return None
        try:
            return op(*mapped, **mapped_kwargs)
        except (RuntimeError, NotImplementedError):
            return (
                None  # the host has no kernel for these types: the value stays unknown
            )

    def shaped(self, op, args, kwargs):
        """The result of an operator whose shape depends on values; None if they are not known."""
        if op is torch.ops.aten.index.Tensor:
            indices = [
                index for given in args[1] for index in self._without_masks(given)
            ]
            return None if any(i is _unknown for i in indices) else op(args[0], indices)
        computed = self._computed(op, args, kwargs)
        if computed is None:
            return None
        one = isinstance(computed, torch.Tensor)
        made = [self._as_meta(t) for t in ([computed] if one else computed)]
        return made[0] if one else tuple(made)

    def bounded(self, op, args):
        """The largest result of an operator that chooses by a mask; None for other operators."""
        if op is torch.ops.aten.index.Tensor:
            return op(args[0], [i for given in args[1] for i in self._all_of(given)])
        if op is torch.ops.aten.masked_select.default:
            shape = torch.broadcast_shapes(*(t.shape for t in args))
            return args[0].new_empty(min(shape.numel(), self._most(args[1], shape)))
        if op is torch.ops.aten.nonzero.default:
            count = self._counts.of(args[0])
            return args[0].new_empty((count, args[0].dim()), dtype=torch.int64)
        return None

    def _most(self, mask, shape):
        return self._counts.of(mask) * (shape.numel() // max(mask.numel(), 1))

    def _all_of(self, index):
        known = self._without_masks(index)
        if not any(i is _unknown for i in known):
            return known
        count = self._counts.of(index)
        return [
            torch.empty(count, dtype=torch.int64, device="meta") for _ in index.shape
        ]

    def lengths(self, tensor, longest):
        """The lengths of sequences on the host, and whether they are known; unknown ones are all the longest."""
        known = self.value(tensor)
        return (
            (torch.full(tensor.shape, longest), False)
            if known is None
            else (known, True)
        )

    def _without_masks(self, index):
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            return [index]
        mask = self.value(index)
        return (
            [_unknown]
            if mask is None
            else [self._as_meta(t) for t in mask.nonzero(as_tuple=True)]
        )

    def _as_meta(self, host):
        made = torch.empty(host.shape, dtype=host.dtype, device="meta")
        self.learn(made, host)
        return made

    def _on_host(self, value, by_shape):
        if isinstance(value, torch.Tensor):
            known = self.value(value)
            if known is None and by_shape:
                return torch.empty_like(value, device=_HOST)
            return _unknown if known is None else known
        if isinstance(value, (list, tuple)) and any(
            isinstance(v, torch.Tensor) for v in value
        ):
            mapped = [self._on_host(v, by_shape) for v in value]
            return _unknown if any(v is _unknown for v in mapped) else mapped
        return _HOST if isinstance(value, torch.device) else value


_unknown = object()
