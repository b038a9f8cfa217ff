# SPDX-License-Identifier: Apache-2.0
"""Where tensors without memory say that they are: where the program put them, though PyTorch has them on `meta`."""

import functools
import weakref

import torch
from torch._C import _functorch

_base = torch._C.TensorBase
META, HOST, CUDA = torch.device("meta"), torch.device("cpu"), torch.device("cuda", 0)


def is_meta(tensor):
    """Whether a tensor has no memory, whatever it says."""
    return _base.is_meta.__get__(tensor)


def storage_of(tensor):
    """The storage of a tensor, also of one that torch.func wraps."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()


def swap(tensor, other):
    """Exchanges what two names of tensors stand for. torch.utils.swap_tensors() does the same, but refuses tensors to which
    there are weak references, as nn.LSTM has them: they are to follow the name here.
    """
    tensor.__class__, other.__class__ = other.__class__, tensor.__class__
    tensor.__dict__, other.__dict__ = other.__dict__, tensor.__dict__
    torch._C._swap_tensor_impl(tensor, other)


class Places:
    """The devices that tensors without memory say, by their storage: CUDA unless something else is known.

    truthful: above 0 while PyTorch's own rules for the meta device run, which are told where tensors are.
    """

    def __init__(self):
        self.truthful = 0
        self._elsewhere = {}

    def truth(self, function):
        """The same function, which is told where tensors are."""

        def told(*args, **kwargs):
            self.truthful += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.truthful -= 1

        return told

    def of(self, tensor):
        device = _base.device.__get__(tensor)
        return (
            device if self.truthful or device.type != "meta" else self._of_meta(tensor)
        )

    def _of_meta(self, tensor):
        known = self._elsewhere.get(storage_of(tensor)._cdata)
        return CUDA if known is None else known[0]

    def put(self, tensor, device):
        """Lets a tensor without memory, and all that share its storage, say that they are on a device."""
        if not is_meta(tensor):
            return
        storage = storage_of(tensor)
        key = storage._cdata
        if device.type == "cuda":
            self._elsewhere.pop(key, None)
        elif key not in self._elsewhere or self._elsewhere[key][0] != device:
            self._elsewhere[key] = (
                device,
                weakref.ref(storage, lambda _: self._elsewhere.pop(key, None)),
            )

    def follow(self, operands, results):
        """Puts results where all operands are; numbers may be anywhere."""
        places = {
            self._of_meta(t) if is_meta(t) else HOST
            for t in operands
            if t.dim() > 0 or is_meta(t)
        }
        if len(places) == 1 and CUDA not in places:
            place = places.pop()
            for result in results:
                self.put(result, place)

    def _says_meta(self, device):
        named = isinstance(device, (str, torch.device)) and not self.truthful
        return named and torch.device(device).type == "meta"

    def made_on_meta(self, make):
        """The same function, whose results are on the meta device if it is asked for."""

        def made(*args, **kwargs):
            result = make(*args, **kwargs)
            if "device" in kwargs and self._says_meta(kwargs["device"]):
                self.put(result, META)
            return result

        return made

    def in_context(self, function):
        """The same `DeviceContext.__torch_function__`: of `with torch.device("meta")`."""

        def made(context, called, *rest):
            result = function(context, called, *rest)
            if (
                self._says_meta(context.device)
                and called in torch.utils._device._device_constructors()
            ):
                self.put(result, META)
            return result

        return made

    def _to(self, to):
        def made(tensor, *args, **kwargs):
            device = args[0] if args else kwargs.get("device")
            if is_meta(tensor) and self._says_meta(device):
                return torch.empty_like(tensor, device=META)
            result = to(tensor, *args, **kwargs)
            if self._says_meta(device):
                self.put(result, META)
            return result

        return made

    def _is_of(self, kind, tensor):
        return self.of(tensor).type == kind

    def properties(self):
        """What replaces attributes of torch.Tensor."""
        yield "device", property(self.of)
        yield (
            "get_device",
            lambda tensor: (
                -1 if self.of(tensor).index is None else self.of(tensor).index
            ),
        )
        for kind in ("cuda", "cpu", "meta"):
            yield f"is_{kind}", property(functools.partial(self._is_of, kind))
        yield "to", self._to(torch.Tensor.to)
        for name in ("__deepcopy__", "__reduce_ex__", "__repr__"):
            yield name, self.truth(getattr(torch.Tensor, name))
