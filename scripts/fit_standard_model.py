#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/standard_ops.json, the op model that the library carries, from rows whose licence allows it and from this
project's own runs on a GPU.

    PERFPRED_REFERENCE_DIR=... scripts/fit_standard_model.py build/release/bin

It holds parameters, effects of devices, and the trees that devices share; trees of single devices are left out.
"""
import json
import os
import subprocess
import sys
import tempfile

from step_tables import csv_rows, free, measured_steps, published_steps, timm_passes, write

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
OWN = os.path.join(DATA, "nvidia_h200", "runs_agg.csv")
OWN_SOURCE = "runs"  # as the programs call it
NOT_OF_STEPS = ("op_conv.csv", "op_elementwise.csv")  # classes that no prediction of a step asks for


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return {key: rounded(item) for key, item in value.items()} if isinstance(value, dict) else value


def fit(programs, reference, out, keeps=lambda row: True):
    """Fits on the rows, dicts of a table's columns, that `keeps` says; all have `gpu`, those of steps also `source` and
    `model`."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("neusight", "modern_ops"):
            for file in os.listdir(os.path.join(reference, part)):
                if file.startswith("op_") and file not in NOT_OF_STEPS:
                    write(os.path.join(folder, file), filter(keeps, csv_rows(reference, part, file)))
        write(os.path.join(folder, "gpus.csv"),
              csv_rows(reference, "neusight", "gpus.csv") + csv_rows(reference, "modern_ops", "gpus.csv"))
        rows = free(measured_steps(reference)) + published_steps(reference) + timm_passes(reference)
        tables = [write(os.path.join(folder, "steps.csv"), filter(keeps, rows))]
        own = [row for row in csv_rows(OWN)
               if keeps({**row, "source": OWN_SOURCE, "gpu": row["device"], "model": row["network"]})]
        if own:
            tables.append(write(os.path.join(folder, "runs_agg.csv"), own))
        model = os.path.join(folder, "model.json")
        subprocess.run([os.path.join(programs, "perfpred-train"), "--kind", "ops", "--ops-dir", folder, "--steps-train",
                        ",".join(tables), "--out", model], check=True, stdout=subprocess.DEVNULL)
        with open(model) as file:
            document = json.load(file)
    for kernel in document["kernels"].values():
        for device in kernel["devices"].values():
            device["trees"] = []
    with open(out, "w") as file:
        json.dump(rounded(document), file, indent=None, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or "PERFPRED_REFERENCE_DIR" not in os.environ:
        sys.exit(__doc__)
    fit(sys.argv[1], os.environ["PERFPRED_REFERENCE_DIR"], os.path.join(DATA, "standard_ops.json"))
