# SPDX-License-Identifier: Apache-2.0
"""The program `perfpred` of this package: `perfpred COMMAND ...`, `python -m perfpred COMMAND ...`."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _program() -> str:
    """The one beside the library that PERFPRED_LIBRARY names, else that of the package. Raises SystemExit where there is
    none."""
    named = os.environ.get("PERFPRED_LIBRARY")
    folder = os.path.join(os.path.dirname(named), "..") if named else _HERE
    path = os.path.normpath(os.path.join(folder, "bin", "perfpred"))
    if os.access(path, os.X_OK):
        return path
    print(
        f"perfpred: {path} is not there; `pip install ./python` builds it, and Debian's package perfpred has it",
        file=sys.stderr,
    )
    raise SystemExit(1)


def main() -> None:
    """Becomes the program, with the arguments of this process."""
    path = _program()
    sys.stdout.flush()
    os.execv(path, ["perfpred", *sys.argv[1:]])


if __name__ == "__main__":
    main()
