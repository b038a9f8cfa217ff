#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md as they stand there: its blocks marked sh, in their order, each in a shell of its own
that stops at the first failure, in the folder of the checkout. A block marked python is run by the environment that an
earlier block made in .venv.

    scripts/readme_commands.py [--list]

--list prints the blocks instead. The exit code is that of the first block that fails.
"""
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHELLS = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [".venv/bin/python", "-c"]}


def blocks():
    return re.findall(r"^```(sh|python)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)


def main():
    if sys.argv[1:] not in ([], ["--list"]):
        sys.exit(__doc__)
    started = time.monotonic()
    for language, text in blocks():
        print(f"== README.md, {language}:\n{text}", end="", flush=True)
        if sys.argv[1:] == ["--list"]:
            continue
        result = subprocess.run([*SHELLS[language], text], cwd=ROOT, stdin=subprocess.DEVNULL)
        print(f"== {time.monotonic() - started:.0f} s", flush=True)
        if result.returncode != 0:
            sys.exit(result.returncode if result.returncode > 0 else 1)


main()
