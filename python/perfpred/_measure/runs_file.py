# SPDX-License-Identifier: Apache-2.0
"""Appends rows to a runs.csv beside other writers, as RunRecorder of the C++ library does: the file itself is locked, a row
is one write, and an unfinished last line goes to `<path>.torn`.
"""

import contextlib
import csv
import fcntl
import io
import os
import platform
import stat
import tempfile
import time

from perfpred._fields import WORKLOAD
from perfpred._measure.errors import MeasureError

# In the order of runs.csv (docs/formats.md). The rarer fields of a workload are in its key only where they are stated.
MANDATORY = (
    "timestamp_utc,framework,depth,base_filters,batch_size,epochs,params,epoch_times_json,avg_time_sec,images_per_sec,test_acc"
).split(",")
_MEASURED = (
    "env,host,driver,cuda,cudnn,step_p05_ms,step_p50_ms,step_p95_ms,clock_mhz,mem_free_mb,peak_mem_mb,load,timing,outcome,"
    "note,peak_reserved_mb,cuda_graph_speedup,host_p50_ms,step_cv,epoch_rel_sem,clock_p05_mhz,clock_p95_mhz,drift,data_wait_share"
).split(",")
COLUMNS = MANDATORY + [name for name in WORKLOAD if name not in MANDATORY] + _MEASURED


def _line(fields):
    """Line breaks in texts become blanks."""
    text = io.StringIO()
    one_line = [str(f).translate({10: " ", 13: " ", 0: " "}) for f in fields]
    csv.writer(text, quoting=csv.QUOTE_MINIMAL, lineterminator="\n").writerow(one_line)
    return text.getvalue().encode()


def _open_locked(path):
    """The file under its name, opened and locked. A writer may put another file there while one waits for the lock."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            mine, named = os.fstat(fd), os.stat(path)
            if (mine.st_ino, mine.st_dev) == (named.st_ino, named.st_dev):
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _read(fd):
    parts, at = [], 0
    while part := os.pread(fd, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _write(fd, text):
    while text:
        text = text[os.write(fd, text) :]
    os.fsync(fd)


def _header(text, path):
    """Columns of a text of whole lines; None without a header."""
    end = 0
    while end < len(text):
        end = text.find(b"\n", end) + 1
        names = text[:end].decode("utf-8-sig", "replace").strip()
        if names:
            columns = next(csv.reader([names]))
            columns = [
                "framework" if c == "tf_version" and "framework" not in columns else c
                for c in columns
            ]
            if missing := [name for name in MANDATORY if name not in columns]:
                raise MeasureError(
                    f"{path}: is no runs.csv: it has no column {missing[0]}"
                )
            return columns
    return None


@contextlib.contextmanager
def _refusals_of(path):
    """What the system refuses is an error of this package."""
    try:
        yield
    except OSError as error:
        raise MeasureError(f"{path}: cannot be written: {error.strerror}") from error


def check_writable(path):
    """Raises MeasureError if no row can be appended."""
    with _refusals_of(path):
        _check_writable(path)


def _check_writable(path):
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise MeasureError(f"{path}: there is no folder {folder}")
    if os.path.isdir(path):
        if not os.access(path, os.W_OK):
            raise MeasureError(f"{path}: cannot be written")
        return
    if os.path.exists(path):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise MeasureError(f"{path}: is not a regular file")
        with open(path, "rb") as file:
            text = file.read()
        _header(text[: text.rfind(b"\n") + 1], path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise MeasureError(f"{path}: cannot be written")


def _with_missing_columns(text, columns):
    """The file with the columns that an older program did not write: empty fields behind its rows."""
    missing = [name for name in COLUMNS if name not in columns]
    if not missing:
        return None
    lines = [line.rstrip(b"\r") for line in text.split(b"\n")]
    lines = [line for line in lines if line]
    names, fields = ("," + ",".join(missing)).encode(), b"," * len(missing)
    return b"".join(
        line + (fields if i else names) + b"\n" for i, line in enumerate(lines)
    )


def _replace(path, text, mode):
    path = os.path.realpath(path)
    handle, temporary = tempfile.mkstemp(
        prefix=os.path.basename(path) + ".", suffix=".tmp", dir=os.path.dirname(path)
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def rename_network(path, former, name):
    """Gives the rows of a network another name; a file that is not there yet stays away. Raises MeasureError."""
    with _refusals_of(path):
        _rename_network(path, former, name)


def _rename_network(path, former, name):
    while os.path.isfile(path):
        fd = _open_locked(path)
        try:
            text = _read(fd)
            whole = text.rfind(b"\n") + 1
            columns = _header(text[:whole], path)
            if (
                columns is None
                or "network" not in columns
                or former.encode() not in text
            ):
                return
            at, lines, renamed = columns.index("network"), [], False
            for line in text[:whole].split(b"\n"):
                fields = next(csv.reader([line.decode("utf-8", "surrogateescape")]), [])
                if len(fields) > at and fields[at] == former:
                    fields[at], renamed = name, True
                    line = _line(fields).rstrip(b"\n")
                lines.append(line)
            if renamed:
                _replace(path, b"\n".join(lines) + text[whole:], os.fstat(fd).st_mode)
            return
        finally:
            os.close(fd)


def append(path, row):
    """Adds a row, a dictionary by column; what it lacks stays empty. A folder gets it as a file of its own. Raises
    MeasureError; the file then holds what it held before."""
    with _refusals_of(path):
        if os.path.isdir(path):
            _drop(path, row)
        else:
            _append(path, row)


def _drop(folder, row):
    """A file with one row, which appears whole: perfpred serve --spool reads *.csv there."""
    name = f"{platform.node()}-{os.getpid()}-{time.time_ns()}"
    hidden = os.path.join(folder, f".{name}.tmp")
    line = _line([row.get(name, "") for name in COLUMNS])
    fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        _write(fd, _line(COLUMNS) + line)
        os.rename(hidden, os.path.join(folder, name + ".csv"))
    except BaseException:
        os.unlink(hidden)
        raise
    finally:
        os.close(fd)


def _append(path, row):
    while True:
        fd = _open_locked(path)
        try:
            text = _read(fd)
            whole = text.rfind(b"\n") + 1
            columns = _header(text[:whole], path)
            if whole < len(text):  # a writer died in the middle of a line
                with open(path + ".torn", "ab") as torn:
                    torn.write(text[whole:] + b"\n")
                    torn.flush()
                    os.fsync(torn.fileno())
                os.ftruncate(fd, whole)
            if columns is not None and (
                wider := _with_missing_columns(text[:whole], columns)
            ):
                _replace(path, wider, os.fstat(fd).st_mode)
                continue
            line = _line([row.get(name, "") for name in columns or COLUMNS])
            try:
                _write(fd, line if columns is not None else _line(COLUMNS) + line)
            except BaseException:
                os.ftruncate(fd, whole)
                raise
            return
        finally:
            os.close(fd)
