# SPDX-License-Identifier: Apache-2.0
"""The C library of perfpred (perfpred/c_api.h), by ctypes."""

import contextlib
import ctypes
import functools
import json
import logging
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Callable, NoReturn, Optional

__all__ = "Error Handle InputError ModelError call encoded encoded_path json_of library notes_shown shown text_of".split()

_PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libperfpred.so")
_SYSTEM = "libperfpred.so.0"
_TEXT_BYTES = 1 << 16  # of nearly all answers
_SHOWN = 60  # letters of a value in a message

_log = logging.getLogger("perfpred")


class Error(Exception):
    """Something failed at run time: a full disk, no plan within the budget."""


class InputError(Error, ValueError):
    """What was given is wrong: a file, a name, a value. The message is one line and says what."""


class ModelError(Error):
    """A file is no model, or one of another version of perfpred."""


for _error in (Error, InputError, ModelError):
    _error.__module__ = "perfpred"  # as users name them

_ERRORS = {"InputError": InputError, "ModelError": ModelError}

_pointer, _text, _size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_doubles, _ints = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)
_out = ctypes.POINTER(ctypes.c_void_p)
_as_text: tuple[Any, ...] = (ctypes.c_char_p, _size, ctypes.POINTER(_size))

# The arguments of the functions that return a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "last_text": _as_text,
    "catalogue_create": (_text, _out),
    "catalogue_create_with_links": (_text, _text, _out),
    "catalogue_devices": (_pointer, _text, *_as_text),
    "add_graphs": (_text,),
    "add_op_rules": (_text,),
    "model_load": (_text, _pointer, _out),
    "model_load_text": (_text, _size, _pointer, _out),
    "model_text": (_pointer, *_as_text),
    "model_fit": (_text, _text, _pointer, _out),
    "model_reload": (_pointer, _text),
    "model_save": (_pointer, _text),
    "model_info": (_pointer, *_as_text),
    "model_gpus": (_pointer, _text, *_as_text),
    "model_observe": (_pointer, _text, *_as_text),
    "observe_file": (_text, _text, _text, _pointer, *_as_text),
    "model_measure_cpu": (_pointer,),
    "workload_create": (_pointer, _text, _out),
    "workload_params": (_pointer, ctypes.POINTER(ctypes.c_int64)),
    "predict_variants": (
        _pointer,
        _pointer,
        ctypes.POINTER(_text),
        ctypes.POINTER(_doubles),
        _size,
        _size,
    )
    + (_doubles, _size, ctypes.POINTER(_doubles), _ints),
    "job_error": (_size, *_as_text),
    "fields": _as_text,
    "forecast": (_pointer, _text, *_as_text),
    "inspect": (_pointer, _text, *_as_text),
    "networks": (_text, *_as_text),
    "layouts": (_pointer, _text, *_as_text),
    "answer_text": (_text, *_as_text),
    "explain": (_pointer, _text, *_as_text),
    "explanation_text": (_text, *_as_text),
    "samples_create": (ctypes.c_double, _out),
    "samples_add": (_pointer, _doubles, _ints, _size, _ints),
    "samples_label": (_pointer, ctypes.c_int, *_as_text),
    "aggregate": (_text, *_as_text),
    "plan_create": (_text, _pointer, _out),
    "plan_text": (_pointer, *_as_text),
}

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_of_thread = threading.local()  # `shown`: how its notes are shown; the library gives them on the thread that calls it


@contextlib.contextmanager
def notes_shown(as_text: Callable[[str], str]) -> Iterator[None]:
    """What the library notes meanwhile is logged as as_text(note)."""
    _of_thread.shown = as_text
    try:
        yield
    finally:
        del _of_thread.shown


def _note(line: bytes) -> None:
    text = line.decode(errors="replace")
    _log.warning("%s", getattr(_of_thread, "shown", str)(text))


_note_callback = _CALLBACK(_note)  # lives as long as the library may call it


@functools.cache
def library() -> ctypes.CDLL:
    """The library that PERFPRED_LIBRARY names, else the one of this package, else the system's.

    Raises ImportError where there is none.
    """
    named = os.environ.get("PERFPRED_LIBRARY")
    path = named or (_PLACE if os.path.exists(_PLACE) else _SYSTEM)
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"the library of perfpred is not there: {error}. `pip install ./python` builds it; PERFPRED_LIBRARY may name "
            "a libperfpred.so"
        ) from error
    for name, arguments in _FUNCTIONS.items():
        function = getattr(loaded, "perfpred_" + name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    for name in ("version", "last_error", "last_error_type"):
        function = getattr(loaded, "perfpred_" + name)
        function.argtypes, function.restype = (), ctypes.c_char_p
    for kind in ("catalogue", "model", "workload", "plan", "samples"):
        function = getattr(loaded, f"perfpred_{kind}_free")
        function.argtypes, function.restype = (_pointer,), None
    (
        loaded.perfpred_set_note_callback.argtypes,
        loaded.perfpred_set_note_callback.restype,
    ) = (_CALLBACK,), None
    loaded.perfpred_set_note_callback(_note_callback)
    return loaded


def _raise_last() -> NoReturn:
    kind = library().perfpred_last_error_type().decode()
    raise _ERRORS.get(kind, Error)(
        library().perfpred_last_error().decode(errors="replace")
    )


def call(name: str, *arguments: Any) -> None:
    """Calls perfpred_<name>. Raises InputError, ModelError or Error."""
    if getattr(library(), "perfpred_" + name)(*arguments) != 0:
        _raise_last()


def text_of(name: str, *arguments: Any) -> str:
    """The text that perfpred_<name> gives."""
    buffer, needed = ctypes.create_string_buffer(_TEXT_BYTES), _size()
    call(name, *arguments, buffer, _TEXT_BYTES, ctypes.byref(needed))
    if needed.value > _TEXT_BYTES:
        buffer = ctypes.create_string_buffer(needed.value)
        call("last_text", buffer, needed.value, ctypes.byref(needed))
    return buffer.value.decode()


def json_of(name: str, *arguments: Any) -> Any:
    """The document that perfpred_<name> gives."""
    return json.loads(text_of(name, *arguments))


def shown(value: Any) -> str:
    """A value in a message: short, also where it cannot be written out, as an integer of 5,000 digits."""
    try:
        text = repr(value)
    except Exception as error:  # of whoever made the value
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def encoded(value: Optional[str]) -> Optional[bytes]:
    """A text for the library. Raises InputError for one that would not arrive whole."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{type(value).__name__} {shown(value)} is not a text")
    try:
        made = value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{shown(value)} is not a text of Unicode") from None
    if b"\0" in made:
        raise InputError(f"{shown(value)} has a zero byte")
    return made


def encoded_path(path: Any) -> Optional[bytes]:
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"{type(path).__name__} {shown(path)} is not a path")
    try:
        made = os.fsencode(path)
    except UnicodeEncodeError:
        raise InputError(f"{shown(path)} is not a path") from None
    if b"\0" in made:
        raise InputError(f"{shown(path)} has a zero byte")
    return made


class Handle:
    """A handle of the library, freed with this object at the latest."""

    def __init__(self, kind: str, made_by: str, *arguments: Any) -> None:
        out = ctypes.c_void_p()
        call(made_by, *arguments, ctypes.byref(out))
        free: Callable[[Any], None] = getattr(library(), f"perfpred_{kind}_free")
        self.value = out.value
        self.close = weakref.finalize(self, free, out.value)
