#!/bin/sh
# Writes the tables of docs/accuracy.md between its markers, from the commands that stand beside them.
#   scripts/accuracy_table.sh [BIN_DIR]      needs PERFPRED_REFERENCE_DIR; default BIN_DIR: build/release/bin
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin=${1:-$root/build/release/bin}
rows=${PERFPRED_REFERENCE_DIR:?set it to the folder with the reference collection}/a100_cifar10/runs_agg.csv
python3 - "$bin" "$rows" "$root/docs/accuracy.md" <<'PY'
import json
import subprocess
import sys

binary, rows, page = sys.argv[1:]


def evaluate(kind, protocol):
    command = [f"{binary}/perfpred-evaluate", "--runs-agg", rows, "--kind", kind, "--protocol", protocol, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


protocols = ["kfold", "loao", "lodo", "lowo"]
lines = ["| kind | protocol | MAPE % | MAE s | throughput MAE images/s | covered % | median width % |",
         "|---|---|---|---|---|---|---|"]
baselines = {}
for kind in ["hybrid", "linear", "ann", "forest", "boosting"]:
    for protocol in protocols:
        result = evaluate(kind, protocol)
        if result is None:
            lines.append(f"| {kind} | {protocol} | not built here | | | | |")
            continue
        baselines[protocol] = result["baselines"]
        lines.append(f"| {kind} | {protocol} | {100 * result['time']['mape']:.2f} | {result['time']['mae']:.4f} | "
                     f"{result['throughput']['mae']:.0f} | {100 * result['coverage90']:.1f} | "
                     f"{100 * result['width90_median']:.1f} |")
for name in ["mean", "nearest_batch", "throughput_linear"]:
    for protocol in protocols:
        metrics = baselines[protocol][name]
        lines.append(f"| baseline {name} | {protocol} | {100 * metrics['time']['mape']:.2f} | {metrics['time']['mae']:.4f} | "
                     f"{metrics['throughput']['mae']:.0f} | | |")
curve = ["| rows | chosen | median MAPE % | 90th percentile % | covered % |", "|---|---|---|---|---|"]
for point in evaluate("hybrid", "curve")["curve"]:
    curve.append(f"| {point['rows']} | {point['selection']} | {100 * point['mape_median']:.2f} | "
                 f"{100 * point['mape_p90']:.2f} | {100 * point['coverage90']:.1f} |")

text = open(page).read()
for name, table in [("protocols", lines), ("curve", curve)]:
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    head, rest = text.split(begin)
    text = head + begin + "\n".join(table) + "\n" + end + rest.split(end)[1]
open(page, "w").write(text)
PY
