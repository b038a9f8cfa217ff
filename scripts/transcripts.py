#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of pages that are transcripts, and compares what they print with the page.

    scripts/transcripts.py [--write] PAGE...

A line `NAME`: before a block makes a file of the block. In blocks `console` each line after a `$ ` is a command, in a
folder of the page's own, and the lines below it are what it printed. Numbers are not compared in blocks `console measured`.
`--write` puts into the page what was printed. PERFPRED is this checkout for the commands; `perfpred` and a `python` that
has the package must be in PATH.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)


def masked(text):
    """Without numbers, and without the blanks that depend on their width."""
    return re.sub(r"[ ]+", " ", re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "#", text))


class Transcript:
    def __init__(self, folder):
        self._folder = folder
        self._kind = ""
        self.wrong = []

    def _command(self, match):
        command, expected = match.groups()
        done = subprocess.run(["bash", "-c", command], cwd=self._folder, env={**os.environ, "PERFPRED": str(ROOT)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            self.wrong.append(f"$ {command}\nends with {done.returncode}: {done.stdout}")
        same = masked if "measured" in self._kind else str
        if same(done.stdout) == same(expected):
            return match.group()
        self.wrong.append(f"$ {command}\nprints\n{done.stdout}")
        return f"$ {command}\n{done.stdout}"

    def block(self, match):
        name, self._kind, body = match.groups()
        if name:
            (self._folder / name).write_text(body)
        if not self._kind.startswith("console"):
            return match.group()
        start, end = match.start(3) - match.start(), match.end(3) - match.start()
        return match.group()[:start] + COMMAND.sub(self._command, body) + match.group()[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put into the page what was printed")
    parser.add_argument("page", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    wrong = []
    for page in options.page:
        with tempfile.TemporaryDirectory() as folder:
            transcript = Transcript(pathlib.Path(folder))
            text = BLOCK.sub(transcript.block, page.read_text())
        if options.write:
            page.write_text(text)
        wrong += [f"{page}: {line}" for line in transcript.wrong if not options.write or "\nends with" in line]
    if wrong:
        sys.exit("\n".join(wrong))


main()
