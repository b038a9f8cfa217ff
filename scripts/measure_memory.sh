#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the peak memory of training jobs: CNNs by whole epochs and by steps, networks of the zoo by steps. Only
# peak_mem_mb is meant; the times may be disturbed.
#
#   scripts/measure_memory.sh BIN_DIR MEMORY.csv [options of perfpred-collect, as --device cuda]
#
# The same command again measures only what is missing.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '3,8s/^# \{0,1\}//p' "$0"
  exit 2
fi
collect=$1/perfpred-collect
out=$2
shift 2
logs=$(mktemp -d)
trap 'rm -r "$logs"' EXIT
measure() { "$collect" --out "$out" --log-dir "$logs" --train-images 256 "$@"; }

cnn=(--base-filters 8,32 --batch-size 32,128)
measure "$@" --depth 1,3,5 "${cnn[@]}" --epochs 2
measure "$@" --depth 2,4 "${cnn[@]}" --timing steps
measure "$@" --batch-size 4,16 --timing steps \
  --network resnet18,resnet50,mobilenet_v2,vgg16,shufflenet_v2_x0_5,densenet121,efficientnet_b0,squeezenet1_1,googlenet,vit_b_16
