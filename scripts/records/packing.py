# SPDX-License-Identifier: Apache-2.0
"""Packs captured steps of one network into a record; docs/formats.md says what is in one."""

import json
import lzma

_NEAR = 32  # references that count back from the newest; others from the last such one
_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int32": 4, "int16": 2, "bool": 1,
               "uint8": 1, "int8": 1, "complex64": 8, "complex128": 16}


class NotRecorded(Exception):
    """A step that a record cannot hold; says why."""


class _Table:
    """Descriptions without repetition: each is told by its number."""

    def __init__(self):
        self.rows, self._numbers = [], {}

    def number(self, row):
        key = json.dumps(row, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            self.rows.append(row)
        return self._numbers[key]


class _References:
    """Numbers that layers of one kind have in common, whatever the layer: how far back something is."""

    def __init__(self):
        self.count, self._last_far = 0, 0

    def back(self, number):
        """1 to _NEAR: so far back from the newest; larger: from the last one that was far, to and fro."""
        distance = self.count - number
        if distance <= _NEAR:
            return distance
        apart, self._last_far = number - self._last_far, number
        return _NEAR + 1 + (2 * apart if apart >= 0 else -2 * apart - 1)


def _extent(tensor):
    if 0 in tensor["sizes"]:
        return 0
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor["sizes"], tensor["strides"]))
    return elements * _ITEM_BYTES[tensor["dtype"]]


def _updates(document):
    """Pairs of a parameter and its gradient, as torch.optim.SGD without momentum and foreach updates them."""
    pairs = []
    for op in document["ops"]:
        if op["phase"] != "optimizer":
            continue
        if op["name"] != "aten::add_" or len(op["inputs"]) != 2:
            raise NotRecorded(f"the update has {op['name']}")
        pairs.append(op["inputs"])
    return pairs


class Packer:
    """Joins captures of one network: of other precisions, other inputs."""

    def __init__(self):
        self._layers, self._kinds, self._calls, self._steps = _Table(), _Table(), _Table(), []

    def add(self, document, is_hidden, **what):
        """document: of captures at two batch sizes, with an update by plain SGD. is_hidden: of a layer's name, whether
        its weight is a matrix between other layers. what: by which the step is found among the others."""
        if document.get("accumulate", 1) != 1 or document.get("batches", 1) != 1 or document.get("compiled"):
            raise NotRecorded("the step has several batches, or is compiled")
        pairs = _updates(document)
        order, step = _Order(document, self), {}
        ops = [op for op in document["ops"] if op["phase"] != "optimizer"]
        late = [s for op in document["ops"] if op["phase"] == "optimizer" for s in op.get("frees", ())]
        stream, layer = [], -1
        for i, op in enumerate(ops):
            frees = op.get("frees", ()) if i + 1 < len(ops) else [*op.get("frees", ()), *late]
            described = {k: op[k] for k in ("name", "phase", "args", "flops", "flops_growth", "bytes", "bytes_growth") if k in op}
            described["operands"] = [len(op["inputs"]), len(op["outputs"])]
            own = -1 if op.get("layer", -1) < 0 else self._layers.number(document["layers"][op["layer"]])
            stream += [self._calls.number(described), own - layer]
            layer = own
            stream += [order.tensor(t) for t in (*op["inputs"], *op["outputs"])]
            stream += [len(frees), *(order.freed(s) for s in frees)]
        order.add_rest(pairs)
        first_user = {}
        for op in ops:
            for tensor in op["inputs"]:
                first_user.setdefault(tensor, op)
        step["updates"] = [n for p, g in pairs for n in (order.id(p), order.id(g), int(self._hides(document, first_user, p, is_hidden)))]
        step.update(tensors=order.tensors, bytes=order.other_bytes(), ops=stream)
        copied = {key: document[key] for key in ("precision", "batch_size", "other_batch_size") if key in document}
        self._steps.append(({**what, **copied}, step))

    @staticmethod
    def _hides(document, first_user, parameter, is_hidden):
        op = first_user.get(parameter)
        layer = -1 if op is None else op.get("layer", -1)
        return len(document["tensors"][parameter]["sizes"]) == 2 and layer >= 0 and is_hidden(document["layers"][layer])

    def lines(self):
        head = {"format": 2, "layers": self._layers.rows, "kinds": self._kinds.rows, "calls": self._calls.rows,
                "steps": [what for what, _ in self._steps]}
        return [json.dumps(part, separators=(",", ":")) for part in (head, *(step for _, step in self._steps))]

    def packed(self):
        text = "".join(line + "\n" for line in self.lines()).encode()
        return lzma.compress(text, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME)

    def kind(self, tensor):
        return self._kinds.number({k: v for k, v in tensor.items() if k != "storage"})


class _Order:
    """Tensors and storages of a step, numbered as operators first use them."""

    def __init__(self, document, packer):
        self._document, self._packer = document, packer
        self._ids, self._storages = {}, {}
        self._tensor_refs, self._storage_refs, self._freed = _References(), _References(), _References()
        self.tensors = []  # of each its kind, and 0 for memory of its own or how far back its storage is

    def id(self, tensor):
        return self._ids[tensor]

    def tensor(self, tensor):
        """0: none; 1: the next new one; else one more than how far back it is."""
        if tensor is None:
            return 0
        if tensor in self._ids:
            return 1 + self._tensor_refs.back(self._ids[tensor])
        self._ids[tensor] = self._tensor_refs.count
        self._tensor_refs.count += 1
        described = self._document["tensors"][tensor]
        storage = described["storage"]
        self.tensors.append(self._packer.kind(described))
        if storage in self._storages:
            self.tensors.append(self._storage_refs.back(self._storages[storage]))
        else:
            self.tensors.append(0)
            self._storages[storage] = self._storage_refs.count
            self._storage_refs.count += 1
            self._freed.count += 1
        return 1

    def freed(self, storage):
        return self._freed.back(self._storages[storage])

    def add_rest(self, pairs):
        """Gradients that are views for the optimizer alone; parameters and buffers that no operator uses."""
        for tensor in (tensor for pair in pairs for tensor in pair):
            if tensor not in self._ids:
                self.tensor(tensor)
        for tensor, described in enumerate(self._document["tensors"]):
            if tensor not in self._ids and described["role"] in ("parameter", "buffer"):
                self.tensor(tensor)

    def other_bytes(self):
        """Of storages that are larger than what their tensors reach: number and bytes."""
        reach = dict.fromkeys(self._storages, 0)
        for tensor in self._ids:
            described = self._document["tensors"][tensor]
            reach[described["storage"]] = max(reach[described["storage"]], _extent(described))
        return [n for s, number in self._storages.items() if self._document["storages"][s]["bytes"] != reach[s]
                for n in (number, self._document["storages"][s]["bytes"])]
