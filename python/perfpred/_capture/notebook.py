# SPDX-License-Identifier: Apache-2.0
"""Runs the cells of a notebook of Jupyter as a script."""

import ast
import json
import linecache
import re
import sys
import types

from perfpred._library import InputError

_COMMAND = re.compile(r"(\s*)(?:\w+\s*=\s*)?[%!].*|(\s*)[\w.]*\?{1,2}\s*$")
_TIMES = ("%%time", "%%timeit", "%%capture", "%%prun")  # magics whose cell is Python


def _without_commands(source):
    """Python of a cell: commands of IPython and of the shell do nothing here."""
    lines = source.splitlines()
    if lines and lines[0].startswith("%%"):
        if lines[0].split()[0] not in _TIMES:
            return ""
        lines[0] = ""
    try:
        ast.parse("\n".join(lines))
    except SyntaxError:
        found = [(_COMMAND.fullmatch(line), line) for line in lines]
        lines = [
            line if match is None else (match[1] or match[2] or "") + "pass"
            for match, line in found
        ]
    return "\n".join(lines) + "\n"


def _cells(path):
    """The number and the text of each cell of code, counted from 1 among all cells. Raises InputError."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        cells = content["cells"]
        return [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: is not a notebook of format 4") from None


class _Shell:
    """What get_ipython() gives: its commands do nothing."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def run(path):
    """Runs a notebook as the program `__main__`. Lines are named `path[cell]:line`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=path, display=lambda *args, **kwargs: None, get_ipython=_Shell
    )
    before, sys.modules["__main__"] = sys.modules["__main__"], module
    try:
        for number, source in _cells(path):
            text, name = _without_commands(source), f"{path}[{number}]"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            exec(compile(text, name, "exec"), module.__dict__)
    finally:
        sys.modules["__main__"] = before
