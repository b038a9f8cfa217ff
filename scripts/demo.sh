#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole pipeline on this machine: installs what is missing, builds, trains and times small networks, fits a predictor,
# judges it on configurations that it has not seen, predicts one, plans a time budget, and draws plots.
#
#   scripts/demo.sh [--device auto|cpu|cuda] [OUT_DIR]      default: auto, build/demo
#
# Runs that OUT_DIR already holds are not measured again; remove it to start over.
set -euo pipefail

device=auto
out=
while [ $# -gt 0 ]; do
  case $1 in
    --device)
      device=${2:?"--device wants auto, cpu or cuda"}
      shift
      ;;
    -h | --help)
      sed -n '3,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "demo: unknown option $1 (there is --device NAME)" >&2
      exit 2
      ;;
    *) out=$(realpath -m "$1") ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
out=${out:-build/demo}

step() { printf '\n== %s\n' "$*"; }

step "Install what is missing, and build the programs"
scripts/setup.sh
cmake --preset release
cmake --build --preset release --target perfpred_programs
bin=build/release/bin
mkdir -p "$out"

# A whole epoch has 50,000 images. Fewer show the same effects within minutes on a CPU; the images are of full size.
step "Measure 24 configurations: 2,048 generated images of 3x32x32 an epoch, 4 epochs, the first not timed"
"$bin/perfpred-collect" --device "$device" --train-images 2048 --epochs 4 --seed 0 --depth 2,3 --base-filters 8,12,16 \
  --batch-size 32,64,128,256 --out "$out/runs.csv" --log-dir "$out/logs"

step "Aggregate: one row a configuration"
"$bin/perfpred-aggregate" --runs "$out/runs.csv" --out "$out/runs_agg.csv" --rejected "$out/rejected.csv"

step "What was measured"
awk -F, '
  NR == 1 { printf "%5s %12s %10s %13s %12s %8s\n", "depth", "base_filters", "batch_size", "epoch in s", "images/s", "accuracy"; next }
  { printf "%5d %12d %10d %13.3f %12.0f %8.2f\n", $1, $2, $3, $7, $9, $11 }
' "$out/runs_agg.csv"

step "Fit a predictor to 16 of them, and leave out the 8 with 12 base filters"
awk -F, 'NR == 1 || $2 != 12' "$out/runs_agg.csv" >"$out/seen_agg.csv"
awk -F, 'NR == 1 || $2 == 12' "$out/runs_agg.csv" >"$out/unseen_agg.csv"
"$bin/perfpred-train" --runs-agg "$out/seen_agg.csv" --test-fraction 0 --val-fraction 0 --out "$out/model.json"

step "Judge it on the 8 that it has not seen, beside simple rules"
"$bin/perfpred-evaluate" --model "$out/model.json" --measured "$out/unseen_agg.csv" --out "$out/predictions.csv"

step "Predict a configuration that nobody has run"
"$bin/perfpred-predict" --model "$out/model.json" --depth 3 --base-filters 14 --batch-size 96

step "Plan: which of the measured jobs to run for 50 epochs each within ten minutes"
"$bin/perfpred-plan" --runs-agg "$out/runs_agg.csv" --budget-sec 600 --epochs 50 --out "$out/plan.csv"

step "Draw"
log=$(find "$out/logs" -name '*.jsonl' | sort | head -n 1)
"$bin/perfpred-plot" --runs-agg "$out/runs_agg.csv" --predictions "$out/predictions.csv" \
  --log "$log" --out-dir "$out/plots"

step "Measure this device for 20 seconds, and predict a network that it has never run"
"$bin/perfpred-probe" --device "$device" --budget-sec 20 --out "$out/ops_here.json" | tee "$out/probe.txt"
"$bin/perfpred-predict" --model "$out/ops_here.json" --network resnet50 --batch-size 8 \
  --device "$(sed -n 's/^device  *//p' "$out/probe.txt")"

step "Everything is in $out: runs.csv, runs_agg.csv, model.json, predictions.csv, plan.csv, logs/, plots/"
