#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a CUDA GPU: runs the tests that need one, and measures networks of the zoo in several precisions, a
# grid of the CIFAR-10 CNN and part of it again, single layers, the probe of the op model, three steps under Nsight Compute,
# steps beside PyTorch's and by the benchmark, and peaks of memory. Wants a python3 with torch (and torchvision, for
# PyTorch's side of the zoo); to build perfpred, which it does first, the CUDA toolkit, CMake, Ninja and a C++ compiler;
# neither a package manager nor a network.
#
#   scripts/gpu_check.sh OUT_DIR [SECONDS]
#
# SECONDS limits the sweeps and the layers together (default 300; on an H200 a label takes 5 s, a layer 0.4); what does
# not fit is left out, and the same command goes on where it ended. The other parts take some 5 minutes, ncu a second
# for each kernel of three steps more. OUT_DIR gets
# runs.csv, runs_agg.csv, logs/, label_seconds.txt, layers.csv, ops_<precision>.json, probe_layers.csv, resnet18_*_ncu.csv,
# peers.json, timing_core.json, memory.csv, system_specifications.{json,txt}, arguments.txt, tests.log and build.log.
# From the environment:
#   PERFPRED_PROGRAMS           the folder that scripts/collect_programs.sh filled: nothing is built
#   PERFPRED_DEPS               the folder that scripts/collect_deps.sh filled; without it the machine's own packages
#   PERFPRED_GPU_CHECK_DEVICE   cuda (default), cuda:1, ...; cpu tries the script where there is no GPU
#   PERFPRED_GPU_CHECK_PARTS    what to do, in this order (default: all):
#                               tests,sweeps,layers,probe,ncu,peers,benchmark,memory
#   PYTHON                      python3 (default)
set -euo pipefail

case ${1:-} in
  '' | -*)
    sed -n '3,24s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
seconds=${2:-300}
if ! [[ $seconds =~ ^[0-9]+$ && $seconds -ge 20 ]]; then
  echo "gpu_check: SECONDS is $seconds, not a whole number from 20 on" >&2
  exit 2
fi
device=${PERFPRED_GPU_CHECK_DEVICE:-cuda}
all_parts=tests,sweeps,layers,probe,ncu,peers,benchmark,memory
parts=${PERFPRED_GPU_CHECK_PARTS:-$all_parts}
for part in ${parts//,/ }; do
  if [[ ,$all_parts, != *,$part,* ]]; then
    echo "gpu_check: \"$part\" is not one of $all_parts" >&2
    exit 2
  fi
done
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."
step() { printf '\ngpu_check: %s: %s\n' "$(date -u +%H:%M:%S)" "$*"; }

torch=$("$python" -c 'import os, torch; print(torch.__version__, os.path.dirname(torch.__file__))')
step "torch ${torch%% *} of $python"
torch=${torch#* }
if [ -n "${PERFPRED_PROGRAMS:-}" ]; then
  programs=$(cd "$PERFPRED_PROGRAMS" && pwd)
  bin=$programs/bin tests=$programs/bin
  export LD_LIBRARY_PATH=$programs/lib:$torch/lib
else
  build=$PWD/build/gpu_check
  bin=$build/bin tests=$build/tests
  mkdir -p "$build"
  configure=(
    -DCMAKE_BUILD_TYPE=Release
    -DPERFPRED_WITH_TORCH=ON
    -DPERFPRED_BUILD_BENCHMARKS=ON
    -DPERFPRED_WERROR=OFF # for the one compiler that is there
    "-DTorch_DIR=$torch/share/cmake/Torch"
  )
  if [ -n "${PERFPRED_DEPS:-}" ]; then
    deps=$(cd "$PERFPRED_DEPS" && pwd)
    libraries=$(dirname "$(find "$deps/lib" -name 'libnlopt.so' -print -quit)")
    # What these libraries need in turn lies beside them, where neither the linker nor the loader would look.
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    step "GoogleTest"
    {
      cmake -S "$deps/src/googletest" -B "$build/googletest" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$build/prefix"
      cmake --build "$build/googletest" --target install
    } >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log" && exit 1; }
    configure+=("-DCMAKE_PREFIX_PATH=$build/prefix;$deps")
  fi
  step "perfpred"
  {
    cmake -S . -B "$build" -G Ninja "${configure[@]}"
    cmake --build "$build"
  } >>"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log" && exit 1; }
fi

result=0
step "the machine"
"$bin/perfpred-sysinfo" --out "$out/system_specifications"

finish() {
  [ $result -eq 0 ] || echo "gpu_check: something failed, see above"
  exit $result
}
precisions_of_layers=(fp32 bf16)
[ "$device" != cpu ] || precisions_of_layers=(fp32)
wanted() { [[ ,$parts, == *,$1,* ]]; }

if wanted tests; then
  step "tests that need a GPU"
  (
    failed=0
    for test in "$tests"/gpu_*_test; do "$test" || [ $? -eq 77 ] || failed=1; done # 77: all were skipped
    exit $failed
  ) 2>&1 | tee "$out/tests.log" || result=1
  if [ "$device" != cpu ] && grep -q 'there is no CUDA device' "$out/tests.log"; then
    echo "gpu_check: tests were skipped although $device is a GPU"
    result=1
  fi
fi

if wanted sweeps; then
  printf '%s %s\n' "$out" "$seconds" >"$out/arguments.txt"
  sweep() { # share of the seconds in percent, then options
    local share=$(($1 * seconds / 100))
    shift
    "$bin/perfpred-collect" --device "$device" --seed 0 --timing steps --time-limit-sec "$share" \
      --out "$out/runs.csv" --log-dir "$out/logs" "$@" || result=1
  }
  networks=resnet18,resnet50,mobilenet_v2,vgg16,shufflenet_v2_x0_5,densenet121,efficientnet_b0,vit_b_16,convnext_tiny
  precisions=fp32,tf32,default,bf16,fp16 half=bf16
  [ "$device" != cpu ] || precisions=fp32 half=fp32
  step "networks of the zoo, on $device"
  sweep 30 --network "$networks" --batch-size 16,64,128 --precision "$precisions"
  sweep 10 --network bert_base,gpt2,lstm:layers=2,hidden=650,vocab=10000 --batch-size 4,16 --precision "$precisions"
  sweep 10 --network "$networks" --batch-size 64 --precision "$half" --layout nhwc
  step "the CIFAR-10 CNN on a grid"
  sweep 25 --depth 2,3,4,5 --base-filters 16,32,64,128 --batch-size 32,64,96,128,192,256,512,1024,2048
  step "some of it again"
  sweep 5 --repeats 2 --depth 2,4 --base-filters 32,128 --batch-size 32,128,256,512,2048
  "$bin/perfpred-aggregate" --runs "$out/runs.csv" --out "$out/runs_agg.csv" --rejected "$out/rejected.csv" || result=1

  step "how long the labels took"
  "$python" scripts/label_seconds.py "$out/logs" | tee "$out/label_seconds.txt" || result=1
fi

if wanted layers; then
  step "single layers with the shapes of the zoo"
  for precision in "${precisions_of_layers[@]}"; do
    timeout $((seconds / 10)) "$bin/perfpred-bench-layers" --device "$device" --shapes zoo --num 1000 --optimizer adam \
      --precision "$precision" --out "$out/layers.csv" || [ $? -eq 124 ] || result=1 # resumes where it ended
  done
fi

if wanted probe; then
  rm -f "$out/probe_layers.csv" # rows are appended
  for precision in "${precisions_of_layers[@]}"; do
    step "the op model, probed on $device in $precision"
    "$bin/perfpred-probe" --device "$device" --precision "$precision" --out "$out/ops_$precision.json" \
      --layers-out "$out/probe_layers.csv" || result=1
  done
fi

if wanted ncu; then
  step "training steps under Nsight Compute"
  if command -v ncu >/dev/null && [ "$device" != cpu ]; then
    op=sm__sass_thread_inst_executed_op
    metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
    for kind in f h; do
      for what in add mul fma; do metrics+=,${op}_$kind${what}_pred_on.sum; done
    done
    # The names of these differ between GPUs, and ncu refuses one that is not there (docs/guides/profiling.md).
    tensor=$(ncu --query-metrics | awk '{ print $1 }' |
      grep -E '^sm__ops_path_tensor_src_(fp16|bf16|tf32|fp16_bf16_tf32)(_dst_fp(16|32))?$') || tensor=
    for metric in $tensor; do metrics+=,$metric.sum; done
    metrics+=,sm__throughput.avg.pct_of_peak_sustained_elapsed,dram__throughput.avg.pct_of_peak_sustained_elapsed
    for kind in fp32:nchw bf16:nchw bf16:nhwc; do
      report=$out/resnet18_${kind/:/_}_ncu
      # With the variable set the program does not start itself again.
      GOMP_SPINCOUNT=1000 LC_ALL=C ncu --nvtx --nvtx-include "train_step/" --clock-control none --csv --page raw \
        --metrics "$metrics" --log-file "$report.csv" "$bin/perfpred-train-net" --network resnet18 --data dummy \
        --batch-size 128 --precision "${kind%:*}" --layout "${kind#*:}" --device "$device" --profile-one-step &&
        "$bin/perfpred-ncu" "$report.csv" --label "resnet18 ${kind/:/ }" --out "$report.txt" || result=1
    done
  else
    echo "ncu is not here, or $device is no GPU: left out"
  fi
fi

if wanted peers; then
  step "training steps beside PyTorch's"
  networks=cifar_cnn,resnet18,mobilenet_v2
  [ "$device" != cpu ] || networks=cifar_cnn
  "$python" benchmarks/peers/training_step.py --collect "$bin/perfpred-collect" \
    --network "$networks" --batch-size 32 --device "$device" --rounds 1 --seconds 1 --json "$out/peers.json" || result=1
fi

if wanted benchmark; then
  step "training steps by the benchmark"
  rows='step/cifar_cnn/depth:[24]/base:(32|128)/|step/(resnet18|mobilenet_v2)/'
  [ "$device" != cpu ] || rows='step/cifar_cnn/depth:2/base:16/'
  PERFPRED_BENCH_DEVICE=$device "$bin/timing_core_bench" --benchmark_filter="$rows" \
    --benchmark_out="$out/timing_core.json" --benchmark_out_format=json || result=1
  sed -i '/^ *"executable":/d' "$out/timing_core.json" || result=1 # a path of this machine
fi

if wanted memory; then
  step "peaks of memory"
  scripts/measure_memory.sh "$bin" "$out/memory.csv" --device "$device" || result=1
fi

wanted sweeps || finish
step "measured"
"$python" - "$out/runs.csv" <<'END'
import csv, sys
rows = [dict(row) for row in csv.DictReader(open(sys.argv[1], newline=""))]
line = "{:<20} {:>5} {:>12} {:>10} {:>9} {:>12} {:>14} {:>11} {:>9}"
print(line.format("network", "depth", "base_filters", "batch_size", "precision", "step_p50_ms", "images_per_sec", "peak_mem_mb", "outcome"))
numbers = ("depth", "base_filters", "batch_size")
for row in sorted(rows, key=lambda r: (r["network"], r["precision"], *(int(r[c] or 0) for c in numbers))):
    figures = [f"{float(row[c]):.4g}" if row[c] else "" for c in ("step_p50_ms", "images_per_sec", "peak_mem_mb")]
    print(line.format(row["network"], *(row[c] for c in numbers), row["precision"], *figures, row["outcome"]))
print(f"{len(rows)} runs on {', '.join(sorted({row['device'] for row in rows}))}")
END
finish
