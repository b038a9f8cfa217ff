# SPDX-License-Identifier: Apache-2.0
"""What the columns of a workload may say (docs/formats.md): a row with anything else could not be read."""

import re

from perfpred._fields import OTHER_WORDS, WORDS
from perfpred._measure.errors import MeasureError
from perfpred._values import word_of

OPTIMIZERS = WORDS["optimizer"]
FUSED = (
    "sgd momentum nesterov adam adamw adagrad".split()
)  # of which PyTorch has a fused and a foreach form
_WORDS = {**WORDS, "compiled": ("0", "1")}
_TEXTS = {  # a pattern, and what it is
    **dict.fromkeys(
        ("batch_size", "train_images", "accumulate"),
        ("[1-9][0-9]*", "a positive integer"),
    ),
    "depth": ("[1-5]", "an integer from 1 to 5"),
    "base_filters": ("[1-9][0-9]*", "a positive integer"),
    "classes": ("[2-9]|[1-9][0-9]+", "an integer of at least 2"),
    "input": ("[1-9][0-9]*(x[1-9][0-9]*)*", "sizes as 3x224x224"),
    "checkpoint": (
        "none|all|selective|op|[1-9][0-9]*",
        "none, all, selective, op or a positive integer",
    ),
    "adapter": (
        "(lora|dora|adalora|ia3|adapter)(:[a-z0-9=,+]+)?",
        "an adapter as lora:r=16,targets=all",
    ),
    "parallel": (
        "ddp|fsdp|zero[123]",
        "one of ddp, fsdp, zero1, zero2, zero3",
    ),
    "cluster": (r"[^;\x00-\x1f]+", "a text without ; and control characters"),
    "network": (r"[^;\x00-\x1f]+", "a text without ; and control characters"),
}
NAMES = [*_WORDS, *_TEXTS]


def text_of(name, value):
    """A value as its column has it. Raises MeasureError for another name or value."""
    if name not in NAMES:
        raise MeasureError(
            f"{name}: is no field that can be said; there are {', '.join(sorted(NAMES))}"
        )
    if name in OTHER_WORDS and isinstance(value, str):
        value = word_of(name, value)
    if name == "input" and isinstance(value, (list, tuple)):
        value = "x".join(str(size) for size in value)
    text = str(int(value) if isinstance(value, bool) else value)
    if name in _WORDS:
        fits, expected = text in _WORDS[name], f"one of {', '.join(_WORDS[name])}"
    else:
        pattern, expected = _TEXTS[name]
        fits = re.fullmatch(pattern, text) is not None
    if not fits:
        raise MeasureError(f"{name} {text!r} is not {expected}")
    return text
