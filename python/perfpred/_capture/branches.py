# SPDX-License-Identifier: Apache-2.0
"""Which answer to a question lets a program go on: a program that trains does not raise."""

import dis
import os
import sys
import types
from typing import Optional

import torch

# What PyTorch runs between a program's question and a capture.
_TORCH = torch.__path__[0]
_BELOW = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ""),
    *(
        os.path.join(_TORCH, name)
        for name in ("_dynamo", "_compile.py", "utils", "overrides.py", "_tensor.py")
    ),
)
_BETWEEN = ("TO_BOOL", "CACHE", "COPY", "NOT_TAKEN", "EXTENDED_ARG")


def _raises(instructions, index):
    """Whether the code from here on, without a branch, ends by an exception."""
    for instruction in instructions[index:]:
        if instruction.opname in ("RAISE_VARARGS", "RERAISE"):
            return True
        if any(kind in instruction.opname for kind in ("JUMP", "RETURN", "FOR_ITER")):
            return False
    return False


def answer_without_exception() -> Optional[bool]:
    """The answer that an `assert` or an `if` of the caller, one of whose branches raises, needs; None where both go on."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BELOW):
        frame = frame.f_back
    if frame is None or frame.f_lasti < 0:
        return None
    instructions = list(dis.get_instructions(frame.f_code))
    places = {one.offset: i for i, one in enumerate(instructions)}
    index = places.get(frame.f_lasti)
    if index is None:
        return None
    index += instructions[index].opname.startswith("CALL")  # of item() or bool()
    while instructions[index].opname in _BETWEEN:
        index += 1
    if "JUMP" not in (name := instructions[index].opname):
        return None
    if "IF_TRUE" not in name and "IF_FALSE" not in name:
        return None
    jumps_if = "IF_TRUE" in name
    if _raises(instructions, index + 1):
        return jumps_if
    if _raises(instructions, places[instructions[index].argval]):
        return not jumps_if
    return None
