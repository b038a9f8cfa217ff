# SPDX-License-Identifier: Apache-2.0
"""Forward passes: which of them a training step consists of, and how many samples it has."""

from typing import Any, Optional

import torch

_OF_PROGRAM = ("parameter", "buffer", "gradient", "optimizer_state")
_SEQUENCES = (torch.nn.RNNBase, torch.nn.MultiheadAttention)


class ForwardPass:
    """A call of a network from outside of all modules.

    begin, end: its operators. loaded: samples of the batch that a DataLoader made before it; None where none was made.
    """

    def __init__(self, network, trains, begin, loaded):
        self.network, self.trains, self.loaded = network, trains, loaded
        self.begin = self.end = begin
        self.is_read = False  # by a backward pass
        self._first_node = self._end_node = torch.autograd._get_sequence_nr()
        self._sizes: Any = ()  # of the first tensor that it was given
        self._lengths: list[int] = []  # of lists of tensors
        self._joined: Optional[int] = None
        self._sequences: set[Any] = set()

    def enter(self, module, args):
        """A module inside of it is called."""
        batch_last = isinstance(module, _SEQUENCES) and not module.batch_first
        if (
            batch_last
            and args
            and isinstance(args[0], torch.Tensor)
            and args[0].dim() == 3
        ):
            self._sequences.add(tuple(args[0].shape[:2]))

    def leave(self, end, args, tensors, joined):
        """It ends: with so many operators before, and was given these tensors. joined: see `Recorder.joined`."""
        self.end, self._end_node = end, torch.autograd._get_sequence_nr()
        self._lengths = [len(a) for a in args if isinstance(a, (list, tuple))]
        for tensor in tensors:
            if tensor.dim() > 0:
                first = tensor.size(0)  # a nested one has no shape
                self._sizes = (first,) if tensor.is_nested else tuple(tensor.shape[:2])
                self._joined = joined(tensor)
                break

    def has_nodes(self):
        return self._first_node < self._end_node

    def made(self, node):
        """Whether it made a node of autograd, by its number."""
        return self._first_node <= node < self._end_node

    def samples(self):
        """Samples of its batch, and what to say of them: of the batch of the DataLoader; else of what was joined; else the
        first size of what it was given, or the second where positions are in front. None where nothing is known.
        """
        given = self._sizes[0] if self._sizes else None
        loaded = self.loaded
        if loaded is not None and given != loaded:
            if loaded in self._lengths:
                return loaded, ""
            if given is None or given > loaded or loaded in self._sizes:
                return (
                    loaded,
                    f"the network is given {given} rows for {loaded} samples of the DataLoader",
                )
        elif self._sizes in self._sequences:
            return (
                self._sizes[1],
                f"the network is given {given} positions of {self._sizes[1]} sequences: the batch size is "
                f"{self._sizes[1]}",
            )
        elif self._joined is not None and loaded is None:
            return (
                self._joined,
                f"the network is given {given} rows, which the program joins of {self._joined} each: the batch size is "
                f"{self._joined}",
            )
        return given, ""


def find_read(passes, roots):
    """Marks the passes whose nodes a backward pass from these tensors reaches."""
    waiting = [t.grad_fn for t in roots if t is not None and t.grad_fn is not None]
    seen = set(waiting)
    unread = [one for one in passes if one.has_nodes() and not one.is_read]
    while waiting and unread:
        node = waiting.pop()
        number = node._sequence_nr()
        for one in unread:
            one.is_read = one.is_read or one.made(number)
        unread = [one for one in unread if not one.is_read]
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def first_read(passes):
    """The first pass that a backward pass reads; None where there is none."""
    return next((one for one in passes if one.is_read), None)


def feeding(recorder, passes):
    """Passes before the first that is read whose results the step uses, as a teacher's."""
    first = first_read(passes)
    if first is None:
        return []

    def storages(op, key):
        found = {recorder.tensors[i][0] for i in op[key] if i is not None}
        return {s for s in found if recorder.storages[s]["role"] not in _OF_PROGRAM}

    needed: set[int] = set()
    for op in recorder.ops[first.begin :]:
        needed |= storages(op, "inputs")
    used = []
    for index in reversed(range(first.begin)):
        op = recorder.ops[index]
        if storages(op, "outputs") & needed:
            needed |= storages(op, "inputs")
            used.append(index)
    early = [one for one in passes if one.begin < first.begin]
    return [one for one in early if any(one.begin <= i < one.end for i in used)]
