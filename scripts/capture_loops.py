# SPDX-License-Identifier: Apache-2.0
"""Captures the training loops in scripts/loops, which are written after the documentation of others' packages.

    scripts/capture_zoo.py --loops --inspect build/release/bin/perfpred-inspect --out data/tables/capture_loops.csv [NAME...]

Needs scripts/loops/requirements.txt. Loops whose name ends in an underscore and a version, and those that are `also for`
it in their first lines, run where that version is installed, too. Nothing is downloaded. Each loop runs in a process of its
own, forked after the packages were imported: seconds are those of the capture.
"""

import contextlib
import csv
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).parent / "loops"
PACKAGES = ("torch", "torchvision", "transformers", "peft", "accelerate", "trl", "diffusers", "bitsandbytes", "timm", "datasets")
LIMIT_SEC = 300


def _captured(script, out, log):
    """In a process of its own: its exit code, and the seconds that it took."""
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(LIMIT_SEC)
            with open(log, "w") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            code = importlib.import_module("perfpred._capture.command").main(["--out", out, str(script)])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), time.perf_counter() - began


def row(script, inspect, folder):
    out, log = os.path.join(folder, "step.json"), os.path.join(folder, "log")
    first = script.read_text().partition("\n")[0].removeprefix("# ")
    code, seconds = _captured(script, out, log)
    result = {"name": script.stem, "what": first, "seconds": seconds}
    if code != 0:
        lines = [line for line in open(log, errors="replace") if line.startswith("perfpred.capture:")]
        said = lines[-1].strip() if lines else f"exit code {code}"
        return {**result, "failed": said.replace(str(FOLDER) + os.sep, "")}
    answer = subprocess.run([inspect, "--step", out, "--json"], capture_output=True, text=True)
    if answer.returncode != 0:
        return {**result, "failed": answer.stderr.strip()}
    ours, document = json.loads(answer.stdout), json.load(open(out))
    os.remove(out)
    return {
        **result,
        "ops": len(document["ops"]),
        "batches": document.get("accumulate", document.get("batches", 1)),
        "gflop": ours["flops"] / 1e9,
        "peak": ours["memory"]["peak_bytes"] / 1e6,
        "unknown": " ".join(f"{u['name']} ({u['count']})" for u in ours["unknown_ops"]),
    }


def _fits_here(script):
    """Whether the packages that a loop needs are installed in the versions that it is for."""
    text = script.read_text()
    needed = [p for p in (*PACKAGES, "keras") if f"import {p}" in text or f"from {p}" in text or f" {p}." in text]
    if any(importlib.util.find_spec(p) is None for p in needed):
        return False
    old = importlib.util.find_spec("transformers") and importlib.metadata.version("transformers").startswith("4.")
    return not old or "also for transformers 4" in text


def main(inspect, out, names):
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    sys.path.insert(0, str(FOLDER))
    importlib.import_module("perfpred")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for package in PACKAGES:
            if importlib.util.find_spec(package) is not None:
                importlib.import_module(package)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for script in sorted(FOLDER.glob("*.py")):
            chosen = not names or any(name in script.stem for name in names)
            if chosen and script.stem != "loops_common" and _fits_here(script):
                rows.append(row(script, inspect, folder))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(", ".join(_versions()))
    with open(out, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *map(_cells, rows)])
    return 1 if any("failed" in r for r in rows) else 0


COLUMNS = ("transformers", "loop", "after", "operators", "unknown_ops", "batches", "gflop", "peak_mb", "capture_sec", "failed")


def _versions():
    return [f"{p} {importlib.metadata.version(p)}" for p in (*PACKAGES, "keras") if importlib.util.find_spec(p) is not None]


def _cells(r):
    transformers = importlib.metadata.version("transformers") if importlib.util.find_spec("transformers") else ""
    named = (transformers, r["name"], r["what"].removesuffix(" (also for transformers 4)"))
    if "failed" in r:
        return (*named, *[""] * 6, r["failed"])
    return (*named, r["ops"], r["unknown"], r["batches"], f"{r['gflop']:.3g}", f"{r['peak']:.1f}", f"{r['seconds']:.1f}", "")
