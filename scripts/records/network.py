# SPDX-License-Identifier: Apache-2.0
"""A network that is to be recorded, and what its batches are."""

import dataclasses
from typing import Any, Callable

import torch
import torch.nn.functional as F


def real(*sizes):
    return torch.zeros(*sizes, device="meta")


def whole(*sizes):
    return torch.zeros(*sizes, dtype=torch.long, device="meta")


def image_text(size):
    return f"3x{size}x{size}"


def own_loss(output, _batch):
    return output.loss


def cross_entropy(output, batch):
    return F.cross_entropy(output, batch["labels"])


@dataclasses.dataclass
class Network:
    name: str
    make: Callable[[], torch.nn.Module]
    batches: "dict[str, Callable[[int], dict[str, Any]]]"
    """By the input of a workload, the usual one first: what a batch of so many samples is. `labels` and `target` are for
    the loss where the network does not take them itself."""
    source: str
    """Package, its version, class."""
    licence: str
    sample: str = ""
    """What one is, beside the input."""
    aliases: "tuple[str, ...]" = ()
    published: str = ""
    """Parameters that its authors state, and where."""
    classes: int = 0
    samples: int = 0
    """Of an epoch of the data that it is usually trained on."""
    call: Callable[[torch.nn.Module, "dict[str, Any]"], Any] = lambda model, batch: model(**batch)
    loss: Callable[[Any, "dict[str, Any]"], torch.Tensor] = own_loss
    forms: "tuple[str, ...]" = ("fp32", "autocast")
    batch_sizes: "tuple[int, ...]" = ()
    """All that are recorded, where the operators differ from one to the next; else any follows from one capture."""
    prime: int = 10_007
    """Samples of the one capture: what it divides is in proportion to the batch; no size of the network may be so."""
    heads: "tuple[str, ...]" = ()
    """Names of linear layers that are no hidden ones, beside those that the network itself names."""
