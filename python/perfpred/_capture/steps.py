# SPDX-License-Identifier: Apache-2.0
"""Where the training step of a program begins and ends."""

from perfpred._capture.hooks import optimizers, parameters_of
from perfpred._capture.passes import feeding, first_read


class StepIsWhole(BaseException):
    """Ends the program; no `except Exception` of it catches this."""


class Steps:
    """Follows the updates of a program, and lets one of its steps be recorded.

    A step begins with the forward passes that its backward passes read, and ends where those of the next step begin. A
    pass that nobody differentiates belongs to it if the step uses its results, as a teacher's, and each step makes it
    anew; others, as evaluations, belong to no step. Those of the next step stand for the step's own.

    wanted: the step to record, counted from 1. updates: those of optimizers that make a step.
    """

    def __init__(self, session, wanted, updates):
        self._recorder, self._hooks = session.recorder, session.hooks
        self._wanted, self._updates = wanted * updates, updates
        self._done = 0
        self._early = None  # passes that feed the step, when it is whole
        self._recurs = False  # and a pass of theirs behind it
        self.left_out = 0  # optimizers of its networks that have no part in it
        session.hooks.before_forward = self._before_forward

    def updates(self):
        """How many the program has made."""
        return self._done + self._hooks.stepped

    def is_whole(self):
        return self.updates() >= self._wanted

    def _before_forward(self, network, trains):
        """A forward pass begins."""
        recorder, hooks = self._recorder, self._hooks
        ends = hooks.stepped and self.updates() % self._updates == 0
        self._done += hooks.stepped
        hooks.stepped = False
        if self._done >= self._wanted:
            self._end(network, trains)
            return
        begun = recorder.holds_activations() or any(
            op["phase"] == "backward" for op in recorder.ops
        )
        if ends or not recorder.recording or not begun:
            recorder.clear()
            hooks.restart()
            recorder.recording = True
            recorder.phase = "forward"

    def _end(self, network, trains):
        """A pass behind the step: the next step's, or one of no step."""
        if self._early is None:
            self._early = feeding(self._recorder, self._hooks.passes)
        again = [
            one
            for one in self._early
            if one.network is network and one.trains == trains
        ]
        if trains or not self._early:
            self._cut(again or [one for one in self._early if self._is_updated(one)])
            self.left_out = self._hooks.left_out()
            raise StepIsWhole
        self._recorder.recording = bool(again)
        self._recurs = self._recurs or bool(again)

    def _is_updated(self, early):
        """Whether the program also trains the network of a pass, as a GAN's generator."""
        own = {id(p) for p in early.network.parameters()}
        return early.trains and any(
            id(p) in own for one in optimizers() for p in parameters_of(one)
        )

    def _cut(self, early):
        """The step begins with the first of these passes; if there are none, with the first that is read."""
        first = early[0] if early else first_read(self._hooks.passes)
        self._hooks.begin = 0 if first is None else first.begin

    def close(self):
        """The program has ended behind the step."""
        passes = self._hooks.passes
        self._cut([] if self._recurs else feeding(self._recorder, passes))
