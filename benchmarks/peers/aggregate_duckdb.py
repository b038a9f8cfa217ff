#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Aggregates the same runs.csv with perfpred-aggregate and with DuckDB, by the same number of threads, turn by turn.

    benchmarks/peers/aggregate_duckdb.py --program build/release/bin/perfpred-aggregate [--rows 10000000] [--ours]

DuckDB comes from PyPI into an environment of its own under the user's cache folder. What is printed is a ratio of times
within one run; both results are compared row by row.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

DUCKDB = "duckdb>=1.4"
REFERENCE = "timestamp_utc,framework,depth,base_filters,batch_size,epochs,params,epoch_times_json,avg_time_sec,images_per_sec,test_acc"
OURS = (",network,input,classes,train_images,optimizer,precision,layout,cuda_graph,device,threads,env,host,driver,cuda,"
        "cudnn,step_p05_ms,step_p50_ms,step_p95_ms,clock_mhz,mem_free_mb,peak_mem_mb,load,timing,outcome,note")
OURS_VALUES = (",cifar_cnn,3x32x32,10,50000,adam,fp32,nchw,0,unknown,,,host,580.1,13.0,91900,1.52,1.61,1.74,1410,70000,"
               "3000,0.5,epochs,ok,")
DOUBLES = {"avg_time_sec", "images_per_sec", "test_acc", "step_p05_ms", "step_p50_ms", "step_p95_ms", "clock_mhz",
           "mem_free_mb", "peak_mem_mb", "load"}
INTEGERS = {"depth", "base_filters", "batch_size", "epochs", "params", "classes", "train_images", "cuda_graph", "threads"}


def environment():
    """The Python of an environment that has DuckDB."""
    cache = pathlib.Path(os.environ.get("PERFPRED_CACHE_DIR") or
                         pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "perfpred")
    folder = cache / "peers-duckdb"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"installing {DUCKDB} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", DUCKDB], check=True)
        (folder / "complete").touch()
    return python


def generate(path, rows, ours):
    """Distinct rows in blocks that repeat: noise of 0.65 %, one run in a hundred disturbed in one epoch."""
    rng = random.Random(5)
    configs = [(depth, base, batch, rng.randrange(10_000, 9_000_000), rng.uniform(0.3, 30))
               for depth in range(1, 6) for base in (8, 16, 32, 64, 128)
               for batch in (32, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048)]
    block = []
    for i in range(min(rows, 100_000)):
        depth, base, batch, params, sec = rng.choice(configs)
        first, second = (sec * rng.gauss(1, 0.0065) for _ in range(2))
        if rng.random() < 0.01:
            second *= 1.5
        mean = (first + second) / 2
        block.append(f'2026-01-01T{i // 3600 % 24:02d}:{i // 60 % 60:02d}:{i % 60:02d},2.20.0,{depth},{base},{batch},3,'
                     f'{params},"[{sec + 9 + rng.random()}, {first}, {second}]",{mean},{50000 / mean},{rng.random()}'
                     f'{OURS_VALUES if ours else ""}\n')
    with open(path, "w") as file:
        file.write(REFERENCE + (OURS if ours else "") + "\n")
        for begin in range(0, rows, len(block)):
            file.writelines(block[:rows - begin])


def query(path, columns, label):
    types = {name: "DOUBLE" if name in DOUBLES else "BIGINT" if name in INTEGERS else "VARCHAR" for name in columns}
    types["epoch_times_json"] = "DOUBLE[]"
    source = f"read_csv('{path}', header = true, columns = {types})"
    groups = [name for name in ("depth", "base_filters", "batch_size", "params", *OURS[1:].split(",")[:10])
              if name in columns]
    kept = "(outcome = 'ok')" if "outcome" in columns else "true"
    if label == "mean":
        labelled = f"SELECT *, {kept} AS kept, avg_time_sec AS label, images_per_sec AS thr FROM {source}"
    else:
        labelled = f"""
            SELECT *, {kept} AND list_max(timed) <= 1.10 * list_min(timed) AS kept, list_median(timed) AS label,
                   50000 / list_median(timed) AS thr
            FROM (SELECT *, epoch_times_json[2:] AS timed FROM {source})"""
    by = ", ".join(groups)
    return f"""
        SELECT {by}, count(*) FILTER (kept) AS n, avg(label) FILTER (kept) AS avg_time_mean,
               stddev_samp(label) FILTER (kept) AS avg_time_std, avg(thr) FILTER (kept) AS thr_mean,
               stddev_samp(thr) FILTER (kept) AS thr_std, avg(test_acc) FILTER (kept) AS acc_mean,
               stddev_samp(test_acc) FILTER (kept) AS acc_std, count(*) FILTER (NOT kept) AS n_rejected
        FROM ({labelled}) GROUP BY {by} ORDER BY depth, base_filters, batch_size"""


DUCKDB_PROGRAM = """
import duckdb, sys
threads, statement, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
connection = duckdb.connect(config={"threads": threads})
connection.execute("SET enable_progress_bar = false")
connection.sql(statement).write_csv(out)
"""


def timed(command):
    """Seconds, seconds of processor time and peak memory (MB) of a program."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def read(path):
    """So that neither waits for the disk."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 22):
            pass


def worst_difference(ours, theirs):
    """Largest relative difference of any figure; infinite if the rows are not the same."""
    def table(path):
        with open(path) as file:
            return {(r["depth"], r["base_filters"], r["batch_size"]): r for r in csv.DictReader(file)}
    a, b = table(ours), table(theirs)
    if a.keys() != b.keys():
        return math.inf
    worst = 0.0
    for key, row in a.items():
        for name in ("n", "n_rejected", "avg_time_mean", "avg_time_std", "thr_mean", "thr_std", "acc_mean", "acc_std"):
            x, y = float(row[name] or 0), float(b[key][name] or 0)
            worst = max(worst, abs(x - y) / max(abs(x), 1e-300) if x != y else 0)
    return worst


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="perfpred-aggregate")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help="all columns of runs.csv, not only the reference collection's")
    options = parser.parse_args()
    python = environment()
    threads = len(os.sched_getaffinity(0))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = os.path.join(folder, "runs.csv")
        generate(runs, options.rows, options.ours)
        columns = (REFERENCE + (OURS if options.ours else "")).split(",")
        for label in ("robust", "mean"):
            ours, theirs = os.path.join(folder, "ours.csv"), os.path.join(folder, "theirs.csv")
            rounds = []
            for _ in range(options.repeats):
                read(runs)
                a = timed([options.program, "--runs", runs, "--label", label, "--out", ours])
                read(runs)
                b = timed([python, "-c", DUCKDB_PROGRAM, threads, query(runs, columns, label), theirs])
                rounds.append((a, b))
            results[label] = {
                "perfpred_sec": median([a[0] for a, _ in rounds]), "duckdb_sec": median([b[0] for _, b in rounds]),
                "time_ratio": median([a[0] / b[0] for a, b in rounds]),
                "processor_time_ratio": median([a[1] / b[1] for a, b in rounds]),
                "perfpred_peak_mb": max(a[2] for a, _ in rounds), "duckdb_peak_mb": max(b[2] for _, b in rounds),
                "worst_relative_difference": worst_difference(ours, theirs)}
        print(json.dumps({"rows": options.rows, "bytes": os.path.getsize(runs), "columns": len(columns),
                          "threads": threads, **results}, indent=2))


if __name__ == "__main__":
    main()
