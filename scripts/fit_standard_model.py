#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/standard_ops.json, the op model that the library carries, from rows whose licence allows it and from this
project's own runs on a GPU.

    PERFPRED_REFERENCE_DIR=... scripts/fit_standard_model.py build/release/bin

It holds parameters, effects of devices, and the trees that devices share; trees of single devices are left out.
"""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

if len(sys.argv) != 2 or "PERFPRED_REFERENCE_DIR" not in os.environ:
    sys.exit(__doc__)
REFERENCE = os.environ["PERFPRED_REFERENCE_DIR"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
OUT = os.path.join(DATA, "standard_ops.json")
OWN = os.path.join(DATA, "nvidia_h200", "runs_agg.csv")


def rows_of(*path):
    with open(os.path.join(REFERENCE, *path), newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


with tempfile.TemporaryDirectory() as folder:
    for part in ("neusight", "modern_ops"):
        for file in os.listdir(os.path.join(REFERENCE, part)):
            if file.startswith("op_"):
                shutil.copy(os.path.join(REFERENCE, part, file), folder)
    write(os.path.join(folder, "gpus.csv"), rows_of("neusight", "gpus.csv") + rows_of("modern_ops", "gpus.csv"))
    steps = os.path.join(folder, "steps.csv")
    free = [row for row in rows_of("cnn_training", "single_gpu_training.csv") if row["licence"] in ("MIT", "Apache-2.0")]
    write(steps, free)
    model = os.path.join(folder, "model.json")
    subprocess.run([os.path.join(sys.argv[1], "perfpred-train"), "--kind", "ops", "--ops-dir", folder, "--steps-train",
                    f"{steps},{OWN}", "--out", model], check=True)
    with open(model) as file:
        document = json.load(file)
for kernel in document["kernels"].values():
    for device in kernel["devices"].values():
        device["trees"] = []


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return {key: rounded(item) for key, item in value.items()} if isinstance(value, dict) else value


with open(OUT, "w") as file:
    json.dump(rounded(document), file, indent=None, separators=(",", ":"))
    file.write("\n")
