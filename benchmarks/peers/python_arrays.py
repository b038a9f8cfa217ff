#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions a second from Python, of arrays and one a call, beside C++ on one thread, in one run.

    benchmarks/peers/python_arrays.py BUILD/benchmarks/array_rates

The package perfpred and NumPy have to be there (`pip install "./python[frames]"`). Prints, for a regressor fitted on 36
configurations of a CNN, for batch sizes of ResNet-50 by the standard model, and for the whole answer about one of them
(time, memory and what limits it, without advice), the best of three rounds.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

import perfpred

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/tests"))
from test_predict import write_table  # noqa: E402

JOBS, SIZES, CALLS, ROUNDS = 100_000, 10_000, 1000, 3
JOB = {"network": "resnet50", "device": "A100-80GB-PCIe", "train_images": 1281167}
STATED = {"layout": "nchw", "compiled": 0, "software": "pytorch", "loader": "none"}  # as a workload of C++ has it


def rate(count, call):
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return count / best


def main():
    program = sys.argv[1]
    i = numpy.arange(JOBS)
    jobs = {"depth": 2 + i % 3, "base_filters": 16 + i % 40, "batch_size": 32 + i % 900}
    sizes = {"batch_size": 1 + numpy.arange(SIZES) % 4096}
    with tempfile.TemporaryDirectory() as folder:
        model, file = perfpred.fit(write_table(os.path.join(folder, "agg.csv"))), os.path.join(folder, "model.json")
        model.save(file)
        standard = perfpred.load()
        by_runs = rate(JOBS, lambda: model.predict_many(jobs))
        by_operators = rate(SIZES, lambda: standard.predict_many(sizes, **JOB))
        asked = {**JOB, **STATED, "batch_size": 64, "fit_advice": False}
        by_calls = rate(CALLS, lambda: [standard.predict(**asked) for _ in range(CALLS)])
        rounds = [
            tuple(map(float, subprocess.check_output([program, file, str(JOBS), str(SIZES), str(CALLS)]).split()))
            for _ in range(ROUNDS)
        ]
    print(f"{'predictions a second':<28}{'Python':>12}{'C++':>12}{'ratio':>8}   on {len(os.sched_getaffinity(0))} CPUs")
    for name, python, cpp in (
        ("regressor", by_runs, max(one[0] for one in rounds)),
        ("batch sizes of ResNet-50", by_operators, max(one[1] for one in rounds)),
        ("one answer a call", by_calls, max(one[2] for one in rounds)),
    ):
        print(f"{name:<28}{python:>12.0f}{cpp:>12.0f}{python / cpp:>8.2f}")


if __name__ == "__main__":
    main()
