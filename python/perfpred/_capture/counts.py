# SPDX-License-Identifier: Apache-2.0
"""How many elements of a mask without memory are true at most: samplers of detectors mark so many of all boxes."""

import math
import weakref
from typing import Any

import torch

from perfpred._capture.place import storage_of

_SUM = ("bitwise_or", "logical_or", "__or__", "add", "maximum")
_LEAST = ("bitwise_and", "logical_and", "__and__", "mul", "minimum")
_SAME = ("_to_copy", "clone")


def _is_mask(value):
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


class TrueCounts:
    """Upper bounds, by the storage of the mask.

    value: the values of a mask on the host; None if they are not known.
    """

    def __init__(self, value):
        self._value = value
        self._counts: dict[Any, Any] = {}

    def of(self, mask):
        """True elements of a mask at most."""
        known = self._value(mask)
        if known is not None:
            return int(known.count_nonzero())
        found = self._counts.get(storage_of(mask)._cdata)
        repeated = any(s == 0 and n > 1 for n, s in zip(mask.shape, mask.stride()))
        return (
            mask.numel() if found is None or repeated else min(found[0], mask.numel())
        )

    def forget(self, tensor):
        self._counts.pop(storage_of(tensor)._cdata, None)

    def learn(self, mask, count):
        if _is_mask(mask) and count is not None and count < mask.numel():
            storage = storage_of(mask)
            key = storage._cdata
            gone = weakref.ref(storage, lambda _: self._counts.pop(key, None))
            self._counts[key] = (count, gone)

    def after(self, op, args) -> Any:
        """Of the result of an operator; None where nothing is known of it. Asked before values are forgotten."""
        name = op._opname
        operands = args[0] if name == "cat" else args[:2]
        if name in ("index_put_", "_index_put_impl_", "index_put"):
            return self._of_marked(args[0], args[1])
        if name in _SAME and _is_mask(args[0]):
            return self.of(args[0])
        if not all(map(_is_mask, operands)) or name not in (*_SUM, *_LEAST, "cat"):
            return None
        counts = [self.of(mask) for mask in operands]
        return min(counts) if name in _LEAST else sum(counts)

    def _of_marked(self, mask, indices):
        whole = mask.numel() * mask.element_size() == storage_of(mask).nbytes()
        given = [index for index in indices if index is not None]
        if not _is_mask(mask) or not whole or any(map(_is_mask, given)):
            return None
        marked = math.prod(torch.broadcast_shapes(*(index.shape for index in given)))
        rest = [
            n for n, i in zip(mask.shape, [*indices, *[None] * mask.dim()]) if i is None
        ]
        return self.of(mask) + marked * math.prod(rest)
