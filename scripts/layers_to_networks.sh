#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How well do layers that were measured alone say what a step of a whole network takes? Measures layers, none with a shape
# of the networks that are asked for, then 16 networks with four batch sizes each, three times, then the layers again: the
# speed of a machine wanders for hours. Fits an op model on the layers and scores it; then with runs of the other networks,
# and with one run of the network itself.
#
#   scripts/layers_to_networks.sh BIN_DIR OUT_DIR [DEVICE]
#
# DEVICE is cpu (default), cuda, cuda:1, ... A CPU takes about 100 minutes and has to be quiet. The same command again
# measures only what is missing.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '3,11s/^# \{0,1\}//p' "$0"
  exit 2
fi
bin=$1
out=$2
device=${3:-cpu}
mkdir -p "$out"

cnns=alexnet,vgg11,resnet18,resnet50,densenet121,googlenet,squeezenet1_1,mobilenet_v2,mobilenet_v3_small
cnns+=,shufflenet_v2_x1_0,mnasnet0_5,efficientnet_b0,convnext_tiny
others=resnet34,resnext50_32x4d,wide_resnet50_2,densenet169,mobilenet_v3_large,mnasnet1_3,shufflenet_v2_x1_5
others+=,efficientnet_b2,regnet_y_800mf,regnet_x_1_6gf,vgg13_bn,squeezenet1_0,convnext_small,vit_b_16,vit_l_32
transformers=bert_base,gpt2
batches=1,2,4,8
words=64
images=8
if [ "$device" != cpu ]; then
  batches=8,16,32,64
  words=512
  images=64
fi

layers() { # table, shapes, layers of a type, types, further options
  local ranges=()
  for type in ${4//,/ }; do ranges+=(--range "$type.batch_size=1:$images"); done
  "$bin/perfpred-bench-layers" --device "$device" --shapes "$2" --num "$3" --layer "$4" "${ranges[@]}" "${@:5}" \
    --leave-out "$cnns,vit_b_32,$transformers" --optimizer adam --out "$1"
}
all_layers() {
  layers "$1" log 160 conv2d
  layers "$1" log 80 linear,attention --range linear.seq_len=1:512
  layers "$1" log 30 embedding,layernorm,softmax,batchnorm
  layers "$1" log 90 elementwise
  layers "$1" log 60 pooling --range pooling.image_size=4:128 --range pooling.in_channels=16:512 \
    --range pooling.kernel_size=2:5
  layers "$1" zoo 160 conv2d --network "$others"
  layers "$1" zoo 40 linear,layernorm,pooling --network "$others"
  layers "$1" zoo 100 batchnorm,elementwise --network "$others"
}
networks() {
  "$bin/perfpred-collect" --device "$device" --timing steps --batch-size "$batches" --train-images 512 --optimizer adam \
    --repeats 3 --out "$out/runs.csv" --log-dir "$out/logs" "$@"
}
all_layers "$out/layers_before.csv"
networks --network "$cnns,vit_b_32"
networks --network "$transformers" --input "$words"
all_layers "$out/layers_after.csv"
"$bin/perfpred-aggregate" --runs "$out/runs.csv" --out "$out/runs_agg.csv" --rejected "$out/rejected.csv"
{ cat "$out/layers_before.csv"; tail -n +2 "$out/layers_after.csv"; } > "$out/layers.csv"

"$bin/perfpred-train" --kind ops --layers "$out/layers.csv" --out "$out/ops.json"
echo "From layers alone:"
"$bin/perfpred-evaluate" --model "$out/ops.json" --measured "$out/runs_agg.csv" --out "$out/predictions.csv"
echo "From the standard model:"
"$bin/perfpred-evaluate" --model "$(dirname "$0")/../data/standard_ops.json" --measured "$out/runs_agg.csv" --out "$out/baseline.csv"
"$bin/perfpred-plot" --predictions "$out/predictions.csv" --baseline "$out/baseline.csv" --network vgg11,bert_base --out-dir "$out/plots"
echo "With runs of the other networks:"
"$bin/perfpred-evaluate" --runs-agg "$out/runs_agg.csv" --prior "$out/ops.json" --protocol lono
echo "And with one run of the network:"
"$bin/perfpred-evaluate" --runs-agg "$out/runs_agg.csv" --prior "$out/ops.json" --protocol lono --own-rows 1
