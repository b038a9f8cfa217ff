# SPDX-License-Identifier: Apache-2.0
"""Steps that accumulate the gradients of several batches: the second batch stands for all."""

from typing import Any

from perfpred._capture.values import tensors_in

# How autograd keeps a first gradient, and how it adds to one.
_OF_ACCUMULATION = {
    "aten::add_",
    "aten::add",
    "aten::clone",
    "aten::copy_",
    "aten::new_empty_strided",
    "aten::empty_strided",
}


class Batches:
    """Compares the batches of a step.

    skips: from the third on they are not recorded while they are like the second one.
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.skips = False
        self.restart()

    def restart(self):
        self.count = 1
        self.differ = False  # a batch that was not recorded differs from the second
        self._begins: list[int] = [0]  # operators before each batch's forward pass
        self._ends: list[int] = []  # and before what follows it
        self._expected: Any = None  # of a batch that is not recorded
        self.recorder.compare = None

    def begin_first(self, operators):
        """The first batch's forward pass begins behind so many operators."""
        if len(self._begins) == 1:
            self._begins[0] = operators

    def begin_next(self):
        """A forward pass begins, and gradients of the batch before are kept."""
        recorder = self.recorder
        self.count += 1
        if self.count > 2 and self.skips and self._are_alike():
            del recorder.ops[self._ends[1] :]
            recorder.recording = False
            self._expected = iter(
                [self._signature(op) for op in recorder.ops[self._begins[1] :]]
            )
            recorder.compare = self._compare
        else:
            self._begins.append(len(recorder.ops))

    def end_backward(self):
        recorder = self.recorder
        if recorder.compare is not None:
            self.differ = self.differ or next(self._expected, None) is not None
            recorder.compare = None
            recorder.recording = True
        else:
            self._ends[len(self._begins) - 1 :] = [len(recorder.ops)]

    @property
    def folds(self):
        return self.count > 1 and self._are_alike()

    def folded(self, ops):
        """The operators of the second batch, then those after the last; None where one batch does not stand for all."""
        if not self.folds:
            return None
        first, second = self._ends[:2]
        return ops[first:second] + [
            {**op, "phase": "optimizer"} for op in ops[self._ends[-1] :]
        ]

    def _are_alike(self):
        """All that were recorded."""
        if len(self._ends) != len(self._begins) or len(self._ends) < 2:
            return False
        first, second, *more = (
            [self._signature(op) for op in self.recorder.ops[begin:end]]
            for begin, end in zip(self._begins, self._ends)
        )
        computed = [
            [s for s in batch if s[0] not in _OF_ACCUMULATION]
            for batch in (first, second)
        ]
        return computed[0] == computed[1] and all(batch == second for batch in more)

    def _signature(self, op):
        tensors = self.recorder.tensors
        return op["name"], tuple(tensors[i][2] for i in op["outputs"] if i is not None)

    def _compare(self, schema, result):
        name, shapes = next(self._expected, (None, ()))
        made = result if isinstance(result, (list, tuple)) else [result]
        of_result = tuple(tuple(t.shape) for t in tensors_in(made))
        self.differ = (
            self.differ
            or name != schema.name
            or (shapes != of_result and not schema.written)
        )
