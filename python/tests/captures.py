# SPDX-License-Identifier: Apache-2.0
"""A captured step, and what is in it. With the program perfpred-inspect in PERFPRED_INSPECT counts are compared, too."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import textwrap
import unittest

import perfpred
from perfpred._capture.command import main


class Captures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "step.json")
        self.addCleanup(self.folder.cleanup)

    def captured(self, step, **options):
        with perfpred.capture(self.path, **options):
            step()
        with open(self.path) as file:
            return json.load(file)

    def inspected(self, *arguments):
        program = os.environ.get("PERFPRED_INSPECT")
        if not program:
            self.skipTest("PERFPRED_INSPECT does not name the program")
        done = subprocess.run(
            [program, *arguments, "--json"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


class Scripts(Captures):
    """Runs SCRIPT, or another text."""

    def write_script(self, text=None):
        script = os.path.join(self.folder.name, "train.py")
        with open(script, "w") as file:
            file.write(textwrap.dedent(text or self.SCRIPT).lstrip())
        return script

    def run_script(self, text=None, arguments=(), options=(), out=None):
        """In this process, as that is quicker. Returns the exit code and what was said."""
        said, printed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            code = main(
                [
                    "--out",
                    out or self.path,
                    *options,
                    self.write_script(text),
                    *arguments,
                ]
            )
        return code, said.getvalue()


def shapes(document, op, key="inputs"):
    return [None if i is None else document["tensors"][i]["sizes"] for i in op[key]]


def types(document, op, key="inputs"):
    return [None if i is None else document["tensors"][i]["dtype"] for i in op[key]]


def operators(document, phase=None):
    """Names, shapes and types, without what depends on addresses and on the program around."""
    return [
        (
            op["name"],
            shapes(document, op),
            types(document, op),
            shapes(document, op, "outputs"),
        )
        for op in document["ops"]
        if phase in (None, op["phase"])
    ]


def of_role(document, role):
    """Bytes of the storages of a role."""
    storages = {t["storage"] for t in document["tensors"] if t["role"] == role}
    return sum(document["storages"][s]["bytes"] for s in storages)
