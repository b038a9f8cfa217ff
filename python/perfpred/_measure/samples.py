# SPDX-License-Identifier: Apache-2.0
"""Samples of a training step's time, which the library makes a label of by the rules of docs/guides/measuring.md."""

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Optional

from perfpred._library import Handle, call, json_of

MIN_SAMPLES = 3  # that make a label


class StepSamples:
    """Collects times of steps, in seconds, until they make a label. The last one waits here until the next one comes:
    it may turn out to be of another step.
    """

    def __init__(self, limit_sec: float) -> None:
        self._handle = Handle("samples", "samples_create", ctypes.c_double(limit_sec))
        self._limit_sec = limit_sec
        self._waiting: Optional[tuple[float, bool]] = None
        self._given, self._sec = 0, 0.0

    def add(self, seconds: Sequence[float], disturbed: bool = False) -> None:
        for sec in seconds:
            if sec > 0:
                self._give_waiting()
                self._waiting = sec, disturbed

    def drop_last(self) -> None:
        """The last sample was of another step."""
        self._waiting = None

    def finished(self) -> bool:
        """Whether no more samples are needed."""
        finished = ctypes.c_int()
        call("samples_add", self._handle.value, None, None, 0, ctypes.byref(finished))
        return bool(finished.value)

    def label(self, ended: bool = False) -> dict[str, Any]:
        """What the samples say, as StepLabel of the C++ library has it. ended: they make the label as at the limit, though
        more would be needed; there have to be MIN_SAMPLES.
        """
        if ended:
            self._give_waiting()
        label: dict[str, Any] = json_of("samples_label", self._handle.value, int(ended))
        return {
            name: math.inf if value is None else value for name, value in label.items()
        }

    def __len__(self) -> int:
        return self._given + (self._waiting is not None)

    def __str__(self) -> str:
        """For people who watch."""
        return f"{len(self)} steps timed, at most {max(self._limit_sec - self._sec, 0):.0f} s of steps left"

    def _give_waiting(self) -> None:
        if self._waiting is None:
            return
        sec, disturbed = self._waiting
        call(
            "samples_add",
            self._handle.value,
            ctypes.c_double(sec),
            ctypes.c_int(disturbed),
            1,
            None,
        )
        self._waiting = None
        self._given, self._sec = self._given + 1, self._sec + sec
