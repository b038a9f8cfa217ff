#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/standard_ops.json, the op model that the library carries, from rows whose licence allows it and from this
project's own runs on a GPU.

    PERFPRED_REFERENCE_DIR=... scripts/fit_standard_model.py build/release/bin

It holds parameters, effects of devices, and the trees that devices share; trees of single devices are left out.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from step_tables import csv_rows, free, measured_steps, published_steps, timm_passes, write

if len(sys.argv) != 2 or "PERFPRED_REFERENCE_DIR" not in os.environ:
    sys.exit(__doc__)
REFERENCE = os.environ["PERFPRED_REFERENCE_DIR"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
OUT = os.path.join(DATA, "standard_ops.json")
OWN = os.path.join(DATA, "nvidia_h200", "runs_agg.csv")
NOT_OF_STEPS = ("op_conv.csv", "op_elementwise.csv")  # classes that no prediction of a step asks for

with tempfile.TemporaryDirectory() as folder:
    for part in ("neusight", "modern_ops"):
        for file in os.listdir(os.path.join(REFERENCE, part)):
            if file.startswith("op_") and file not in NOT_OF_STEPS:
                shutil.copy(os.path.join(REFERENCE, part, file), folder)
    write(os.path.join(folder, "gpus.csv"),
          csv_rows(REFERENCE, "neusight", "gpus.csv") + csv_rows(REFERENCE, "modern_ops", "gpus.csv"))
    rows = free(measured_steps(REFERENCE)) + published_steps(REFERENCE) + timm_passes(REFERENCE)
    steps = write(os.path.join(folder, "steps.csv"), rows)
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
