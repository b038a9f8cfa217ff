#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the peaks of jobs that perfpred-collect measured on a GPU with their estimates.

    scripts/gpu_memory_table.py build/release/bin [data/nvidia_h200/runs.csv [data/tables/gpu_memory.csv]]

Upper bounds are judged with each network left out: the distance from the expected value to the bound is scaled so that
95 % of the other networks' jobs lie below. The last file gets a row for each job.
"""
import csv
import os
import statistics
import sys

from published_table import Programs, calibrate_without, table_rows

if len(sys.argv) not in (2, 3, 4):
    sys.exit(__doc__)
HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "..", "data", "nvidia_h200", "runs.csv")
FIELDS = ("network", "depth", "base_filters", "batch_size", "input", "classes", "optimizer", "precision", "layout",
          "cuda_graph", "device", "attention", "optimizer_impl")

runs = table_rows(TABLE)
answers = Programs(sys.argv[1]).answers([{name: run[name] for name in FIELDS if run.get(name)} for run in runs])
kinds = {"tensors": "peak_mem_mb", "reserved": "peak_reserved_mb"}
rows = {kind: [] for kind in kinds}
for run, answer in zip(runs, answers):
    if "error" in answer:
        sys.exit(f"{run['network']}: {answer['error']}")
    for kind, column in kinds.items():
        rows[kind].append({"network": run["network"], "run": run, "measured_gb": float(run[column]) / 1e3,
                           "predicted_gb": answer["memory"][kind]["p50"] / 1e9,
                           "upper_gb": answer["memory"][kind]["upper"] / 1e9})

COLUMNS = ("network", "batch_size", "precision", "layout", "cuda_graph", "tensors_mb", "tensors_expected_mb", "reserved_mb",
           "reserved_expected_mb", "reserved_upper_mb")
if len(sys.argv) > 3:
    with open(sys.argv[3], "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for tensors, reserved in zip(rows["tensors"], rows["reserved"]):
            run = tensors["run"]
            sizes = f":depth={run['depth']},base_filters={run['base_filters']}" if run["depth"] else ""
            writer.writerow([run["network"] + sizes, run["batch_size"], run["precision"], run["layout"],
                             run["cuda_graph"] or "0",
                             *(f"{1e3 * value:.0f}" for value in (
                                 tensors["measured_gb"], tensors["predicted_gb"], reserved["measured_gb"],
                                 reserved["predicted_gb"], reserved["upper_gb"]))])
for kind, of_kind in rows.items():
    errors = [abs(row["predicted_gb"] / row["measured_gb"] - 1) for row in of_kind]
    held = statistics.fmean(row["measured_gb"] <= row["upper_gb"] for row in of_kind)
    scales = calibrate_without(of_kind, "network")
    left_out = statistics.fmean(row["measured_gb"] <= row["upper_gb"] for row in of_kind)
    width = statistics.median(row["upper_gb"] / row["measured_gb"] for row in of_kind)
    print(f"{kind}: {len(errors)} jobs, median error {statistics.median(errors):.3f}, "
          f"within 20 % {statistics.fmean(error <= 0.2 for error in errors):.3f}; the upper bound holds {held:.3f}, "
          f"with each network left out {left_out:.3f} (scaled by {min(scales.values()):.2f} to "
          f"{max(scales.values()):.2f}), median upper / measured {width:.2f}")
