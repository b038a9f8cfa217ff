#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bounds functions of src, include and examples: at most 60 lines (a command: 80), cyclomatic complexity at most 15.

    scripts/check_functions.py [--list]

scripts/function_exceptions.txt names the functions that may be above, one a line, `file: function: reason`. An exception
that no function needs is an error, too. --list prints the line of each function that is above, for that file. Wants
lizard, which scripts/setup.sh --lint installs.
"""

import pathlib
import subprocess
import sys

import lizard

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "scripts/function_exceptions.txt"
MOST_LINES, MOST_LINES_OF_COMMAND, MOST_COMPLEXITY = 60, 80, 15


def functions_above():
    """What is said of each function above a bound, by (file, function)."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "src", "include", "examples"],
                            cwd=ROOT, check=True, capture_output=True, text=True)
    files = [name for name in listed.stdout.split() if name.endswith((".h", ".cpp")) and (ROOT / name).exists()]
    above = {}
    for name in sorted(files):
        for function in lizard.analyze_file(str(ROOT / name)).function_list:
            most = MOST_LINES_OF_COMMAND if function.name.endswith("_command") else MOST_LINES
            said = []
            if function.length > most:
                said.append(f"{function.length} lines")
            if function.cyclomatic_complexity > MOST_COMPLEXITY:
                said.append(f"complexity {function.cyclomatic_complexity}")
            if said:
                short = function.name.removeprefix("perfpred::")
                above[name, short] = f"{name}:{function.start_line}: {short} has " + " and ".join(said)
    return above


def exceptions():
    """Reasons by (file, function)."""
    reasons = {}
    for number, line in enumerate(EXCEPTIONS.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        file, _, rest = line.partition(": ")
        function, _, reason = rest.partition(": ")
        if not reason.strip():
            sys.exit(f"{EXCEPTIONS.name}:{number}: is not `file: function: reason`")
        reasons[file, function] = reason
    return reasons


def main():
    above = functions_above()
    if sys.argv[1:] == ["--list"]:
        for file, function in above:
            print(f"{file}: {function}: ")
        return
    reasons = exceptions()
    wrong = [text for place, text in above.items() if place not in reasons]
    wrong += [f"{EXCEPTIONS.name}: {file}: {function} is within the bounds: take its line out"
              for file, function in reasons if (file, function) not in above]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
