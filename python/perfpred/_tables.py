# SPDX-License-Identifier: Apache-2.0
"""Tables that users have: a file, a DataFrame of pandas, or dictionaries; and the files and columns that the library takes."""

import contextlib
import csv
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Optional,
    Union,
)

from perfpred._library import Error, InputError, notes_shown, shown

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Path",
    "Table",
    "columns_of",
    "is_path",
    "is_table",
    "numbers_of",
    "table_file",
    "texts_of",
    "with_rows",
]

Path = Union[str, "os.PathLike[str]"]
Table = Union[Path, "pandas.DataFrame", Sequence[Mapping[str, Any]]]


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_frame(table: Any) -> bool:
    return hasattr(table, "columns") and hasattr(table, "to_dict")


def _are_rows(table: Any) -> bool:
    return isinstance(table, (list, tuple)) and all(
        isinstance(row, Mapping) for row in table
    )


def is_table(table: Any) -> bool:
    """Whether it is a DataFrame or a list of dictionaries, rows of which there may be none."""
    return _is_frame(table) or _are_rows(table)


def _is_missing(value: Any) -> bool:
    """None, NaN, pandas.NA and an empty text: what a table has where nothing is given."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # of an array, say
        return type(value).__name__ == "NAType"


def _cell(value: Any) -> Any:
    """Whole numbers as files have them: a column with gaps is one of floating-point numbers in a DataFrame."""
    if _is_missing(value):
        return None
    return (
        int(value)
        if isinstance(value, (bool, float)) and value == value // 1
        else value
    )


def temporary_folder(
    within: Optional[str] = None,
) -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="perfpred-", dir=within)
    except OSError as error:
        raise Error(f"{error.filename}: cannot be made: {error.strerror}") from error


def _write_table(path: str, table: Sequence[Mapping[str, Any]]) -> None:
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(
                file, list(dict.fromkeys(name for row in table for name in row))
            )
            rows.writeheader()
            rows.writerows(
                {name: _cell(value) for name, value in row.items()} for row in table
            )
    except OSError as error:
        raise Error(f"{path}: cannot be written: {error.strerror}") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise InputError(
            f"the table has a value that no file holds: {error}"
        ) from error


@contextlib.contextmanager
def table_file(table: Any) -> Iterator[Path]:
    """The path of a table. An InputError about a file that the caller has not seen names the row of the table."""
    if is_path(table):
        yield table
        return
    if not is_table(table):
        raise InputError(
            f"{type(table).__name__} is neither a path, nor a DataFrame, nor a list of dictionaries"
        )
    if _is_frame(table):
        table = table.astype(object).where(table.notna(), None).to_dict("records")
    if not table:
        raise InputError("the table has no row")
    with temporary_folder() as folder:
        path = os.path.join(folder, "table.csv")
        _write_table(path, table)
        try:
            with notes_shown(lambda note: with_rows(path, note)):
                yield path
        except InputError as error:
            raise InputError(with_rows(path, str(error))) from None


def with_rows(path: Path, text: str) -> str:
    """A text with the places of a file as those of the table that it was made of: its rows, from 0."""
    places = re.escape(os.fspath(path)) + r"(?::(\d+))?"
    return re.sub(
        places,
        lambda m: f"[{int(m[1]) - 2}]" if m[1] and int(m[1]) > 1 else "the table",
        text,
    )


def _columns_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def columns_of(jobs: Any) -> tuple[dict[str, Any], int]:
    """The columns of a DataFrame, of a dictionary of them, or of dictionaries as arrays of NumPy; and their length."""
    import numpy

    if not (isinstance(jobs, Mapping) or is_table(jobs)):
        kind = type(jobs).__name__
        raise InputError(
            f"{kind} is neither a DataFrame, nor a dictionary of columns, nor a list of dictionaries"
        )
    given = (
        _columns_of_rows(jobs)
        if _are_rows(jobs)
        else {name: jobs[name] for name in jobs}
    )
    columns = {}
    for name, values in given.items():
        try:
            columns[str(name)] = numpy.asarray(values)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{name}: its values have different shapes") from None
    sizes = {column.shape for column in columns.values()}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        raise InputError("the jobs are not columns of one length")
    return columns, int(next(iter(sizes))[0])


def numbers_of(name: str, column: Any, refused: dict[int, tuple[str, str]]) -> Any:
    """Values of a column as numbers, NaN where none is given; the places of those that are none are refused."""
    import numpy

    if column.dtype.kind in "biuf":
        return numpy.ascontiguousarray(column, float)
    numbers = numpy.full(len(column), numpy.nan)
    for place, value in enumerate(column.tolist()):
        try:
            numbers[place] = float("nan") if _is_missing(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            refused[place] = ("wrong_input", f"{name} {shown(value)} is not a number")
    return numbers


def texts_of(column: Any) -> list[Any]:
    """Values of a column that is no number's, None where none is given."""
    return [_cell(value) for value in column.tolist()]
