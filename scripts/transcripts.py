#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of pages that are transcripts, and compares what they print with the page.

    scripts/transcripts.py [--write] [--measured] PAGE...

A line `NAME`: before a block makes a file of the block. In blocks `console` each line after a `$ ` is a command, in a
folder of the page's own that has `data`, and the lines below it are what it printed; a line `...` stands for lines that
the page leaves out. What varies stands in blocks `console measured`: there commands must succeed, and are not compared.
`--write` puts into the page what was printed, with `--measured` also what varies. PERFPRED is this checkout for the
commands; `perfpred` and a `python` that has the package must be in PATH. A page keeps the numbers of processes that
it starts in files `*.pid`.
"""
import argparse
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ELISION = "..."
LABEL = 15  # characters that name a line
COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)


def unnamed(text):
    """Without the digits of step files, which follow from the version of PyTorch."""
    return re.sub(r"\bstep:[0-9a-f]{12}\b", "step:", text)


def elided(expected, printed):
    """The lines of `printed` that `expected` shows, known by their first words."""
    shown, left = [], printed.splitlines(keepends=True)
    for line in expected.splitlines(keepends=True):
        if line.strip() == ELISION:
            shown.append(line)
            continue
        found = next((i for i, other in enumerate(left) if other == line or other.startswith(line[:LABEL])), None)
        if found is not None:
            shown.append(left[found])
            left = left[found + 1:]
    return "".join(shown)


class Transcript:
    def __init__(self, folder, writes_measured):
        self._folder, self._writes_measured = folder, writes_measured
        (folder / "data").symlink_to(ROOT / "data")
        self._kind = ""
        self.wrong = []

    def end(self):
        """Ends what a page has started and not ended: a command that failed may have been the one that ends it."""
        for file in self._folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)

    def _command(self, match):
        command, expected = match.groups()
        done = subprocess.run(["bash", "-c", command], cwd=self._folder, env={**os.environ, "PERFPRED": str(ROOT)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            self.wrong.append(f"$ {command}\nends with {done.returncode}: {done.stdout}")
        is_elided = any(line.strip() == ELISION for line in expected.splitlines())
        printed = elided(expected, done.stdout) if is_elided else done.stdout
        if "measured" not in self._kind and unnamed(printed) != unnamed(expected):
            self.wrong.append(f"$ {command}\nprints\n{printed}")
        return f"$ {command}\n{printed}" if "measured" not in self._kind or self._writes_measured else match.group()

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
    parser.add_argument("--measured", action="store_true", help="with --write: also blocks of what varies")
    parser.add_argument("page", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    wrong = []
    for page in options.page:
        with tempfile.TemporaryDirectory() as folder:
            transcript = Transcript(pathlib.Path(folder), options.measured)
            text = BLOCK.sub(transcript.block, page.read_text())
            transcript.end()
        if options.write:
            page.write_text(text)
        wrong += [f"{page}: {line}" for line in transcript.wrong if not options.write or "\nends with" in line]
    if wrong:
        sys.exit("\n".join(wrong))


main()
