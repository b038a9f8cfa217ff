# SPDX-License-Identifier: Apache-2.0
"""What a training step holds, as an object that prints well."""

import dataclasses
from typing import Any, Optional

from perfpred._values import table

__all__ = ["Inspection", "Layer"]

_SHOWN_DEPTH = 2  # levels of layers that print() shows


@dataclasses.dataclass
class Layer:
    """A layer of a network with those inside it, whose parameters, FLOPs and bytes it has, too."""

    name: str
    """Of the module: `layer1.0.conv1`; of what belongs to no layer, such as the optimizer, empty."""
    output: str
    """Shape of what it gives in the forward pass, as 32x64x7x7; empty where it gives nothing."""
    params: int = 0
    """That it is the first to use, trained or not."""
    forward_flops: float = 0
    flops: float = 0
    """Of the whole step: forward, backward and update."""
    bytes: int = 0
    """That the step reads and writes."""
    children: "list[Layer]" = dataclasses.field(default_factory=list)

    def __getitem__(self, name: str) -> "Layer":
        """The layer of a name below this one: `conv1`, or `0.conv1`. Raises KeyError."""
        for child in self.children:
            end = child.name[len(self.name) + bool(self.name) :]
            if name == end:
                return child
            if name.startswith(end + "."):
                return child[name[len(end) + 1 :]]
        raise KeyError(name)

    def _add(self, document: dict[str, Any]) -> None:
        forward, whole = document["forward"], document["all"]
        self.params += document["params"]
        self.forward_flops += forward["flops"]
        self.flops += whole["flops"]
        self.bytes += whole["bytes_read"] + whole["bytes_written"]


def _tree(layers: list[dict[str, Any]]) -> Layer:
    """The layers by the dots in their names; a layer's output is its own, else that of the last one inside it."""
    root = Layer("", "")
    known: dict[tuple[str, ...], Layer] = {(): root}
    for document in layers:
        parts = tuple(document["name"].split("."))
        root._add(document)
        for depth in range(1, len(parts) + 1):
            path = parts[:depth]
            if path not in known:
                known[path] = Layer(".".join(path), "")
                known[path[:-1]].children.append(known[path])
            known[path]._add(document)
            known[path].output = document["output"] or known[path].output
    return root


def _lines(layer: Layer, depth: Optional[int], indent: str = "") -> list[list[str]]:
    """depth: levels; None: all."""
    rows = []
    for child in layer.children:
        label = child.name[len(layer.name) + bool(layer.name) :]
        numbers = [
            f"{child.params:,}",
            f"{child.forward_flops / 1e9:.4g}",
            f"{child.flops / 1e9:.4g}",
            f"{child.bytes / 1e6:.4g}",
        ]
        rows.append([indent + (label or "-"), child.output, *numbers])
        if depth is None or depth > 1:
            rows += _lines(child, depth and depth - 1, indent + "  ")
    return rows


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """Work and memory of one training step: the keys of `perfpred-inspect --json` (docs/formats.md), and its layers. Of a
    job on several devices the memory of their ranks is known alone, and the rest is None."""

    network: str
    batch_size: int
    params: Optional[int]
    """That are trained."""
    flops: Optional[float]
    """Of the step: forward, backward and update. A multiplication and an addition are two."""
    forward_flops: Optional[float]
    bytes: Optional[int]
    """Read and written."""
    memory: Optional[dict[str, Any]]
    """Bytes: peak_bytes, parameters, gradients, optimizer, activations, ..."""
    layers: Layer
    """The network; those inside it are its `children`, and `layers["layer1.0"]` is one by name."""
    _document: dict[str, Any]

    @classmethod
    def _of(cls, document: dict[str, Any]) -> "Inspection":
        phases = document.get("phases")
        return cls(
            document["network"],
            document["batch_size"],
            document.get("params"),
            document.get("flops"),
            phases and phases["forward"]["flops"],
            document.get("bytes"),
            document["memory"],
            _tree(document.get("layers", [])),
            document,
        )

    def to_dict(self) -> dict[str, Any]:
        """The document of `perfpred-inspect --json --layers`."""
        return self._document

    def tree(self, depth: Optional[int] = None) -> str:
        """A table of the layers. depth: levels that are shown; None: all."""
        head = ["layer", "output", "parameters", "forward GFLOP", "step GFLOP", "MB"]
        return table(head, _lines(self.layers, depth))

    def __repr__(self) -> str:
        head = f"{self.network} batch_size={self.batch_size}"
        if self.flops is None or self.params is None or self.forward_flops is None:
            ranks = len(self._document["ranks"])
            return f"{head} parallel={self._document['parallel']}: memory of {ranks} kinds of ranks"
        head += f": {self.params:,} parameters, {self.flops / 1e9:.4g} GFLOP a step, {self.forward_flops / 1e9:.4g} forward"
        if self.memory is not None:
            head += f", {self.memory['peak_bytes'] / 1e9:.4g} GB at the peak"
        return f"{head}\n{self.tree(_SHOWN_DEPTH)}"
