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

PLACE = (
    pathlib.Path(__file__).resolve().parent.parent
    / "python"
    / "perfpred"
    / "_fields.py"
)
WIDTH = 88  # as ruff formats

TYPES = {
    "text": "str",
    "integer": "Whole",
    "number": "float",
    "flag": "Flag",
    "shape": "Shape",
    "seconds": "Span",
    "bytes": "Union[Whole, str]",
    "path": "Path",
    "numbers": "Union[float, Sequence[float]]",
    "lengths": "Union[Path, Sequence[Whole]]",
    "prices": "Prices",
}
# Objects that Python takes besides.
OBJECTS = {"optimizer": "OfTorch", "precision": "Dtype", "loss": "OfOutput"}

# measure() has arguments of its own for these, and finds those on the machine.
OWN_OF_MEASURE = ("network", "batch_size", "train_images")
FOUND_BY_MEASURE = ("cuda_graph", "device", "threads", "gpus_per_node")

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""What may be asked, by name: scripts/python_fields.py writes this file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Protocol, SupportsIndex, TypedDict, Union

from perfpred._tables import Path

Whole = SupportsIndex  # integers, those of NumPy, too
Flag = Union[bool, SupportsIndex]
Shape = Union[str, SupportsIndex, Sequence[SupportsIndex]]
Prices = Union[Path, Mapping[str, float]]
Span = Union[float, str, timedelta]  # of time
OfOutput = Callable[[Any], Any]  # a function of what a module gives


class OptimizerOfTorch(Protocol):
    """An optimizer of torch.optim."""

    param_groups: Any


class Dtype(Protocol):
    """A type of torch: torch.bfloat16."""

    @property
    def is_floating_point(self) -> bool: ...


OfTorch = Union[OptimizerOfTorch, type[OptimizerOfTorch]]

'''


def words_type(field):
    """The name of the type of a field's words: OptimizerImpl."""
    return "".join(part.capitalize() for part in field["name"].split("_"))


def type_of(field):
    if field["type"] == "word":
        return words_type(field)
    kind = TYPES[field["type"]]
    return f"Union[{words_type(field)}, {kind}]" if field["words"] else kind


def tuple_text(names):
    names = [f'"{name}"' for name in names]
    return "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"


def constant(name, kind, comment, value):
    """A tuple, on one line or with a value on each."""
    line = f"{name}: {kind} = {tuple_text(value)}"
    if len(line) > WIDTH:
        line = "\n".join(
            [f"{name}: {kind} = (", *(f'    "{one}",' for one in value), ")"]
        )
    return f"# {comment}\n{line}\n"


def words_constant(fields):
    lines = [
        "# Words of fields that have no other values.",
        "WORDS: dict[str, tuple[str, ...]] = {",
    ]
    for field in fields:
        if field["type"] != "word":
            continue
        line = f'    "{field["name"]}": {tuple_text(field["words"])},'
        if len(line) > WIDTH:
            line = "\n".join(
                [
                    f'    "{field["name"]}": (',
                    *(f'        "{one}",' for one in field["words"]),
                    "    ),",
                ]
            )
        lines.append(line)
    return "\n".join([*lines, "}"]) + "\n"


def other_words_constant(fields):
    lines = [
        "# What else a word is called; case and punctuation do not count.",
        "OTHER_WORDS: dict[str, dict[str, str]] = {",
    ]
    for field in fields:
        if field["other_words"]:
            words = [
                f'        "{other}": "{word}",'
                for other, word in field["other_words"].items()
            ]
            lines += [f'    "{field["name"]}": {{', *words, "    },"]
    return "\n".join([*lines, "}"]) + "\n"


def words_types(fields):
    """A Literal for each field that has words, so that an editor completes them."""
    made = []
    for field in fields:
        if not field["words"]:
            continue
        words = [
            f'"{word}"' for word in (*field["words"], *(field["other_words"] or {}))
        ]
        line = f"{words_type(field)} = Literal[{', '.join(words)}]"
        if len(line) > WIDTH:
            line = "\n".join(
                [
                    f"{words_type(field)} = Literal[",
                    *(f"    {word}," for word in words),
                    "]",
                ]
            )
        made.append(line)
    return "\n".join(made) + "\n"


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
    meaning = field["meaning"] + (
        f" (default {field['default']})" if field["default"] else ""
    )
    return attribute(field["name"], f"Union[{kind}, {more}]" if more else kind, meaning)


def swept(field):
    """One value or several."""
    kind, more = type_of(field), OBJECTS.get(field["name"])
    parts = f"{kind}, {more}" if more else kind.removeprefix("Union[").removesuffix("]")
    one = f"Union[{parts}]" if ", " in parts else kind
    return attribute(
        field["name"], f"Union[{parts}, Iterable[{one}]]" if field["sweeps"] else one
    )


def made(fields):
    """The text of the file."""
    workload = [field for field in fields if field["of"] == "workload"]
    asked = [field for field in workload if field["name"] != "network"]
    files = [field for field in fields if field["of"] == "network"]
    terms = [field for field in fields if field["of"] == "job"]
    theirs = (*OWN_OF_MEASURE, *FOUND_BY_MEASURE)
    measured = [f for f in workload if f["name"] not in theirs]
    numbers = [
        f["name"]
        for f in workload
        if f["type"] in ("integer", "flag") and not f["words"]
    ]
    lists = [f["name"] for f in fields if f["type"] in ("numbers", "lengths")]
    names = "tuple[str, ...]"
    parts = [
        HEAD,
        constant(
            "WORKLOAD",
            names,
            "Fields of a workload, in the order of a key.",
            [f["name"] for f in workload],
        ),
        constant("NUMBERS", names, "Those that are numbers.", numbers),
        constant(
            "SHAPES",
            names,
            "A list of numbers is one value.",
            [f["name"] for f in fields if f["type"] == "shape"],
        ),
        constant("LISTS", names, "A list is one value.", lists),
        words_constant(workload),
        other_words_constant(workload),
        words_types(workload),
        typed_dict(
            "MeasuredFields",
            "TypedDict",
            "What may be said to measure() beside its own arguments.",
            [attribute(f["name"], type_of(f)) for f in measured],
        ),
        typed_dict(
            "WorkloadFields",
            "TypedDict",
            "The fields of a workload (docs/formats.md).",
            [described(f) for f in asked],
        ),
        typed_dict(
            "SharedFields",
            "WorkloadFields",
            "Those that all jobs of predict_many() share.",
            [described(f) for f in (workload[0], *files)],
        ),
        typed_dict(
            "Job",
            "WorkloadFields",
            "A job, with its terms.",
            [described(f) for f in (*files, *terms)],
        ),
        typed_dict(
            "SweepOnAll",
            "TypedDict",
            "Jobs on all GPUs: each field has one value or several.",
            [swept(f) for f in (*asked, *files, *terms) if f["name"] != "device"],
        ),
        typed_dict(
            "Sweep",
            "SweepOnAll",
            "Jobs: each field has one value or several.",
            [swept(f) for f in asked if f["name"] == "device"],
        ),
    ]
    constants, classes = "\n".join(parts[1:8]), "\n\n".join(parts[8:])
    return f"{parts[0]}\n{constants}\n\n{classes}"


def main():
    PLACE.write_text(made(json_of("fields")["fields"]), encoding="utf-8")


if __name__ == "__main__":
    main()
