#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the labels of `perfpred-collect --timing steps` took, beside three epochs of the same configurations.

    scripts/label_seconds.py LOG_DIR

Reads the logs of the runs. The seconds of a label are wall time, from building the network to the overhead of an epoch. A
label is known to 1 % if the 95 % interval of its median is no wider than that either way.
"""

import json
import math
import pathlib
import sys


def labels(folder):
    """Per run: seconds of the whole measurement and of sampling, whether the median is known to 1 %, seconds that three
    epochs would take."""
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        steps = next((line["steps"] for line in lines if "steps" in line), None)
        if steps and lines[-1].get("avg_time_sec"):
            known = (steps["high_ms"] - steps["low_ms"]) / (2 * steps["median_ms"]) <= 0.01
            yield steps["wall_sec"], steps["sampling_sec"], known, 3 * lines[-1]["avg_time_sec"]


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 2
    runs = list(labels(pathlib.Path(sys.argv[1])))
    if not runs:
        print(f"label_seconds: {sys.argv[1]}: no log of a run by steps", file=sys.stderr)
        return 2
    print(f"{len(runs)} labels, {sum(known for _, _, known, _ in runs)} of them known to 1 %")
    print(f"{'':30}{'median':>10}{'90 % within':>13}{'longest':>10}")
    for what, values in (("seconds to a label", [wall for wall, _, _, _ in runs]),
                         ("to one known to 1 %", [wall for wall, _, known, _ in runs if known]),
                         ("of these, sampling", [sampling for _, sampling, _, _ in runs]),
                         ("seconds of three epochs", [epochs for _, _, _, epochs in runs]),
                         ("label / three epochs", [wall / epochs for wall, _, _, epochs in runs])):
        values.sort()
        if values:
            at = (values[(len(values) - 1) // 2], values[math.ceil(0.9 * len(values)) - 1], values[-1])
            print(f"{what:30}{at[0]:10.3f}{at[1]:13.3f}{at[2]:10.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
