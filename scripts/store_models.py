#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the model files of tests/data that a test of this version and of every later one reads, and what they answer.

    scripts/store_models.py BIN_DIR

A regressor on runs and an op model, fitted on layers and on every second run of data/nvidia_h200, and stored_answers.jsonl: workloads with the
times that the models predicted when they were stored. Run it where the format of model files has changed, which is never
within a released version.
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASURED = ROOT / "data/nvidia_h200"
STORED = ROOT / "tests/data"

FAMILY = [{"network": "cifar_cnn", "depth": depth, "base_filters": width, "batch_size": batch}
          for depth, width, batch in itertools.product((2, 5), (16, 48), (32, 500))]
NETWORKS = [{"network": network, "batch_size": batch, "precision": precision, "device": device}
            for network, batch, precision, device in [
                ("resnet18", 64, "fp32", "H200-SXM-141GB"), ("resnet50", 32, "bf16", "H200-SXM-141GB"),
                ("vgg16", 16, "tf32", "H200-SXM-141GB"), ("mobilenet_v2", 128, "fp16", "H200-SXM-141GB"),
                ("bert_base", 8, "bf16", "H200-SXM-141GB"), ("resnet50", 32, "fp32", "T4"),
                ("gpt2", 4, "bf16", "A100-SXM4-80GB"), ("swin_t", 64, "default", "RTX 4090")]]


def run(*command, lines=None):
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


TEXTS = {"train_images": 50_000}  # an epoch, which a language model does not have by itself
STATED = {"layout": "nchw", "compiled": 0, "software": "pytorch", "loader": "none"}  # else intervals hold other values


def answers(folder, model, requests):
    texts = [TEXTS if request["network"] in ("bert_base", "gpt2") else {} for request in requests]
    lines = "".join(json.dumps({**STATED, **more, **request}) + "\n" for more, request in zip(texts, requests))
    for line in run(f"{folder}/perfpred-predict", "--model", str(STORED / model), "--jsonl", lines=lines).splitlines():
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(f"{model}: {answer['error']}")
        yield {"model": model, "key": answer["key"], "time_sec": answer["time_sec"]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    train, ops = f"{folder}/perfpred-train", str(STORED / "stored_ops.json")
    run(train, "--kind", "ops", "--layers", str(MEASURED / "layers.csv"), "--out", ops)
    with tempfile.TemporaryDirectory() as scratch:
        rows = (MEASURED / "runs_agg.csv").read_text().splitlines(keepends=True)
        few = pathlib.Path(scratch, "runs_agg.csv")
        few.write_text("".join(rows[:1] + rows[1::2]))
        run(train, "--runs-agg", str(few), "--prior", ops, "--test-fraction", "0", "--val-fraction", "0", "--out",
            str(STORED / "stored_regressor.json"))
    with open(STORED / "stored_answers.jsonl", "w") as file:
        for answer in [*answers(folder, "stored_regressor.json", FAMILY + NETWORKS),
                       *answers(folder, "stored_ops.json", NETWORKS)]:
            file.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
