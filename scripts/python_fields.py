#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python/perfpred/_fields.py: what may be asked, by name and type, from the library's own table
(perfpred_fields() of c_api.h).

    PYTHONPATH=python PERFPRED_LIBRARY=build/release/lib/libperfpred.so scripts/python_fields.py

Run it after a field of a workload or of a request was added or changed; python/tests/test_declarations.py fails where
the file is another one.
"""

import pathlib
import textwrap

from perfpred._library import json_of

PLACE = pathlib.Path(__file__).resolve().parent.parent / "python" / "perfpred" / "_fields.py"
WIDTH = 88  # as ruff formats

TYPES = {
    "text": "str",
    "word": "str",
    "integer": "Whole",
    "number": "float",
    "flag": "Flag",
    "shape": "Shape",
    "seconds": "Union[float, str]",
    "path": "Path",
    "numbers": "Union[float, Sequence[float]]",
    "lengths": "Union[Path, Sequence[Whole]]",
    "prices": "Prices",
}
# Objects that Python takes besides.
OBJECTS = {"optimizer": "OfTorch", "loss": "Callable[[Any], Any]"}

# measure() has arguments of its own for these, and finds those on the machine.
OWN_OF_MEASURE = ("network", "batch_size", "train_images")
FOUND_BY_MEASURE = ("cuda_graph", "device", "threads")
OF_SEVERAL_DEVICES = ("parallel", "gpus_per_node", "cluster")  # which measure() refuses

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""What may be asked, by name: scripts/python_fields.py writes this file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex, TypedDict, Union

from perfpred._tables import Path

Whole = SupportsIndex  # integers, those of NumPy, too
Flag = Union[bool, SupportsIndex]
Shape = Union[str, SupportsIndex, Sequence[SupportsIndex]]
Prices = Union[Path, Mapping[str, float]]


class OfTorch(Protocol):
    """An optimizer of torch.optim."""

    param_groups: Any

'''


def type_of(field):
    kind = TYPES[field["type"]]
    return f"Union[str, {kind}]" if field["words"] and field["type"] != "word" else kind


def tuple_text(names):
    names = [f'"{name}"' for name in names]
    return "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"


def constant(name, kind, comment, value):
    """A tuple, on one line or with a value on each."""
    line = f"{name}: {kind} = {tuple_text(value)}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}: {kind} = (", *(f'    "{one}",' for one in value), ")"])
    return f"# {comment}\n{line}\n"


def words_constant(fields):
    lines = ["# Words of fields that have no other values.", "WORDS: dict[str, tuple[str, ...]] = {"]
    for field in fields:
        if field["type"] != "word":
            continue
        line = f'    "{field["name"]}": {tuple_text(field["words"])},'
        if len(line) > WIDTH:
            line = "\n".join([f'    "{field["name"]}": (', *(f'        "{one}",' for one in field["words"]), "    ),"])
        lines.append(line)
    return "\n".join([*lines, "}"]) + "\n"


def attribute(name, kind, meaning=None):
    line = f"    {name}: {kind}"
    if meaning is None:
        return [line]
    text = textwrap.wrap(meaning[0].upper() + meaning[1:] + ".", WIDTH - 10)
    return [line, '    """' + "\n    ".join(text) + '"""']


def typed_dict(name, base, doc, attributes):
    lines = [f"class {name}({base}, total=False):", f'    """{doc}"""', ""]
    return "\n".join([*lines, *(line for one in attributes for line in one)]) + "\n"


def described(field):
    kind, more = type_of(field), OBJECTS.get(field["name"])
    meaning = field["meaning"] + (f" (default {field['default']})" if field["default"] else "")
    return attribute(field["name"], f"Union[{kind}, {more}]" if more else kind, meaning)


def swept(field):
    """One value or several."""
    kind, more = type_of(field), OBJECTS.get(field["name"])
    one = f"{kind}, {more}" if more else kind.removeprefix("Union[").removesuffix("]") if "Union" in kind else kind
    if not field["sweeps"]:
        return attribute(field["name"], kind)
    return attribute(field["name"], f"Union[{one}, Iterable[{kind}]]")


def made(fields):
    """The text of the file."""
    workload = [field for field in fields if field["of"] == "workload"]
    asked = [field for field in workload if field["name"] != "network"]
    files = [field for field in fields if field["of"] == "network"]
    terms = [field for field in fields if field["of"] == "job"]
    theirs = (*OWN_OF_MEASURE, *FOUND_BY_MEASURE, *OF_SEVERAL_DEVICES)
    measured = [f for f in workload if f["name"] not in theirs]
    numbers = [f["name"] for f in workload if f["type"] in ("integer", "flag") and not f["words"]]
    lists = [f["name"] for f in fields if f["type"] in ("numbers", "lengths")]
    names = "tuple[str, ...]"
    parts = [
        HEAD,
        constant("WORKLOAD", names, "Fields of a workload, in the order of a key.", [f["name"] for f in workload]),
        constant("NUMBERS", names, "Those that are numbers.", numbers),
        constant("SHAPES", names, "A list of numbers is one value.", [f["name"] for f in fields if f["type"] == "shape"]),
        constant("LISTS", names, "A list is one value.", lists),
        words_constant(workload),
        typed_dict(
            "MeasuredFields",
            "TypedDict",
            "What may be said to measure() beside its own arguments.",
            [attribute(f["name"], type_of(f)) for f in measured],
        ),
        typed_dict(
            "WorkloadFields", "TypedDict", "The fields of a workload (docs/formats.md).", [described(f) for f in asked]
        ),
        typed_dict(
            "SharedFields",
            "WorkloadFields",
            "Those that all jobs of predict_many() share.",
            [described(f) for f in (workload[0], *files)],
        ),
        typed_dict("Job", "WorkloadFields", "A job, with its terms.", [described(f) for f in (*files, *terms)]),
        typed_dict(
            "Sweep",
            "TypedDict",
            "Jobs: each field has one value or several.",
            [swept(f) for f in (*asked, *files, *terms)],
        ),
    ]
    constants, classes = "\n".join(parts[1:6]), "\n\n".join(parts[6:])
    return f"{parts[0]}\n{constants}\n\n{classes}"


def main():
    PLACE.write_text(made(json_of("fields")["fields"]), encoding="utf-8")


if __name__ == "__main__":
    main()
