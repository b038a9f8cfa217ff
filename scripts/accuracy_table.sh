#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the tables of docs/results/accuracy.md between its markers, from perfpred-evaluate.
#   scripts/accuracy_table.sh [BIN_DIR]      default: build/release/bin
# The tables of the reference collection need PERFPRED_REFERENCE_DIR and are left as they are without it; those of our own
# measurements come from data/*/runs_agg.csv, and so do the plots in docs/plots (by gnuplot). kfold is repeated 20 times for
# hybrid and linear, 2 times for the kinds that take long to fit.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python3 - "${1:-$root/build/release/bin}" "$root" "${PERFPRED_REFERENCE_DIR:-}" <<'PY'
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

binary, root, reference = sys.argv[1:]
page = f"{root}/docs/results/accuracy.md"
kinds = ["hybrid", "linear", "ann", "forest", "boosting"]


def evaluate(rows, kind, protocol, *more):
    command = [f"{binary}/perfpred-evaluate", "--runs-agg", rows, "--kind", kind, "--protocol", protocol, "--json", *more]
    one_core_a_fit = {**os.environ, "OMP_NUM_THREADS": "1"}  # the folds are what runs side by side
    done = subprocess.run(command, capture_output=True, text=True, env=one_core_a_fit)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "this build cannot fit kind" in done.stderr:
        return None
    sys.exit(done.stderr)


def protocols(rows):
    lines = ["| kind | protocol | MAPE % | MAE s | MAE images/s | covered % | width % |", "|---|---|---|---|---|---|---|"]
    baselines = {}
    for kind in kinds:
        for protocol in ["kfold", "loao", "lodo", "lowo"]:
            repeats = ["--repeats", "2"] if kind in ("ann", "forest", "boosting") and protocol == "kfold" else []
            result = evaluate(rows, kind, protocol, *repeats)
            if result is None:
                lines.append(f"| {kind} | {protocol} | not in this build | | | | |")
                continue
            if not repeats:
                baselines[protocol] = result["baselines"]
            lines.append(f"| {kind} | {protocol} | {100 * result['time']['mape']:.2f} | {result['time']['mae']:.4f} | "
                         f"{result['throughput']['mae']:.0f} | {100 * result['coverage90']:.1f} | "
                         f"{100 * result['width90_median']:.1f} |")
    for name in ["mean", "nearest_batch", "throughput_linear"]:
        for protocol, named in baselines.items():
            lines.append(f"| baseline {name} | {protocol} | {100 * named[name]['time']['mape']:.2f} | "
                         f"{named[name]['time']['mae']:.4f} | {named[name]['throughput']['mae']:.0f} | | |")
    return lines


def seeds(rows):
    lines = ["| seed | MAPE % | MAE s | MAE images/s | covered % | width % |", "|---|---|---|---|---|---|"]
    for seed in ["0", "1", "2", "3", "4"]:
        result = evaluate(rows, "hybrid", "kfold", "--seed", seed)
        lines.append(f"| {seed} | {100 * result['time']['mape']:.3f} | {result['time']['mae']:.4f} | "
                     f"{result['throughput']['mae']:.0f} | {100 * result['coverage90']:.1f} | {100 * result['width90_median']:.1f} |")
    return lines


def curve(rows):
    lines = ["| rows | chosen | median MAPE % | 90th percentile % | covered % |", "|---|---|---|---|---|"]
    for point in evaluate(rows, "hybrid", "curve")["curve"]:
        lines.append(f"| {point['rows']} | {point['selection']} | {100 * point['mape_median']:.2f} | "
                     f"{100 * point['mape_p90']:.2f} | {100 * point['coverage90']:.1f} |")
    return lines


def put(name, lines):
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    text = open(page).read()
    head, rest = text.split(begin)
    open(page, "w").write(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


if reference:
    rows = f"{reference}/a100_cifar10/runs_agg.csv"
    put("protocols", protocols(rows))
    put("seeds", seeds(rows))
    put("curve", curve(rows))
else:
    print("PERFPRED_REFERENCE_DIR is not set: the tables of the reference collection stay as they are")
for rows in sorted(glob.glob(f"{root}/data/*/runs_agg.csv")):
    name = os.path.basename(os.path.dirname(rows))
    put(f"protocols {name}", protocols(rows))
    put(f"curve {name}", curve(rows))
    os.makedirs(f"{root}/docs/plots/{name}", exist_ok=True)
    for kind in kinds:
        with tempfile.TemporaryDirectory() as scratch:
            if evaluate(rows, kind, "loao", "--out", f"{scratch}/predictions.csv") is None:
                continue
            subprocess.run([f"{binary}/perfpred-plot", "--predictions", f"{scratch}/predictions.csv", "--out-dir", scratch],
                           check=True, stdout=subprocess.DEVNULL)
            for what in ["time", "throughput"] if kind == "hybrid" else ["time"]:
                ending = "" if kind == "hybrid" else f"_{kind}"
                shutil.copy(f"{scratch}/predicted_{what}.png", f"{root}/docs/plots/{name}/predicted_{what}{ending}.png")
PY
