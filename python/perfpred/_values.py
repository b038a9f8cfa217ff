# SPDX-License-Identifier: Apache-2.0
"""What users give, as the library's JSON, and its answers, as tables."""

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import (
    Any,
    NamedTuple,
    Optional,
)

from perfpred._fields import LISTS, OTHER_WORDS, SHAPES, WORDS
from perfpred._library import InputError, encoded, shown

__all__ = [
    "Quantiles",
    "combinations",
    "duration",
    "encoded_json",
    "optimizer_name",
    "plain",
    "table",
    "word_of",
]


class Quantiles(NamedTuple):
    """A quantity with its uncertainty: it lies between p05 and p95 with a probability of 90 %."""

    p05: float
    p50: float
    p95: float


def optimizer_name(value: Any) -> Any:
    """An optimizer of torch.optim, or its class, as its name; other values as they are."""
    kind = value if isinstance(value, type) else type(value)
    if not any(base.__module__ == "torch.optim.optimizer" for base in kind.__mro__):
        return value
    defaults = getattr(value, "defaults", {})
    if kind.__name__ == "SGD" and defaults.get("momentum"):
        return "nesterov" if defaults["nesterov"] else "momentum"
    return kind.__name__


def word_of(field: str, value: Any) -> Any:
    """The word of a field that a text of PyTorch's or of a trainer stands for; other values as they are."""
    bare = re.sub("[^a-z0-9]|^torch[.](optim[.])?", "", str(plain(value)).lower())
    known = {**{word: word for word in WORDS[field]}, **OTHER_WORDS[field]}
    for text, word in known.items():
        if re.sub("[^a-z0-9]", "", text.lower()) == bare:
            return word
    return value


def plain(value: Any) -> Any:
    """A value as JSON has it: paths as texts, scalars and arrays of NumPy as Python's own, types of torch by name, and spans
    of time in seconds. Raises InputError for others."""
    if isinstance(value, os.PathLike):
        return plain(os.fspath(value))
    if isinstance(value, timedelta):
        return value.total_seconds()
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, str):
        encoded(value)
        return value
    if isinstance(value, (int, float, bool, type(None))):
        return value
    if hasattr(value, "tolist"):  # NumPy and pandas
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {plain(str(name)): plain(one) for name, one in value.items()}
    if isinstance(value, Iterable):
        return [plain(one) for one in value]
    raise InputError(
        f"{type(value).__name__} {shown(value)} is neither a text nor a number"
    )


def _plain_field(name: str, value: Any) -> Any:
    if name == "optimizer":
        several = isinstance(value, (list, tuple))
        value = [*map(optimizer_name, value)] if several else optimizer_name(value)
    try:
        return plain(value)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply") from None


def encoded_json(values: Mapping[str, Any]) -> bytes:
    """Raises InputError for a value that JSON has not, such as NaN."""
    document = {
        name: _plain_field(name, value)
        for name, value in values.items()
        if value is not None
    }
    for name, value in document.items():
        try:
            if isinstance(value, int):
                float(value)
            json.dumps(value, allow_nan=False)
        except RecursionError:
            raise InputError(f"{name} is nested too deeply") from None
        except (ValueError, OverflowError) as error:
            what = (
                "has too many digits"
                if isinstance(value, int)
                else "is not a finite number"
            )
            raise InputError(f"{name} {shown(value)} {what}") from error
    return json.dumps(document).encode()


def _choices(name: str, value: Any) -> Optional[list[Any]]:
    """The values of a list, None for a single value, such as a list of numbers as `input`, which is one shape."""
    if (
        isinstance(value, (str, bytes, os.PathLike))
        or not hasattr(value, "__iter__")
        or isinstance(value, Mapping)
    ):
        return None
    if getattr(value, "ndim", None) == 0:  # an array of one number
        return None
    choices = list(_plain_field(name, value))
    if name in LISTS:  # of one answer
        return None
    if name in SHAPES and all(isinstance(one, int) for one in choices):
        return None
    if not choices:
        raise InputError(f"{name} is an empty list")
    return choices


def combinations(
    fields: Mapping[str, Any],
) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """The names of the fields with lists of values, and every combination of values, the first field slowest."""
    swept = {
        name: choices
        for name, choices in ((n, _choices(n, v)) for n, v in fields.items())
        if choices is not None
    }
    rows = itertools.product(*swept.values())
    return list(swept), ({**fields, **dict(zip(swept, row))} for row in rows)


def duration(sec: float) -> str:
    """Seconds as people say them."""
    if sec < 120:
        return f"{sec:.4g} s"
    if sec < 7200:
        return f"{sec / 60:.1f} min"
    return f"{sec / 3600:.1f} h" if sec < 172800 else f"{sec / 86400:.1f} days"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of texts; the first is flush left."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )
