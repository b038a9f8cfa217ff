#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds perfpred on a machine with a CUDA GPU, runs the tests that need one, and measures: peaks of memory, the probe of
# the op model, a grid of the CIFAR-10 CNN and part of it again, networks of the zoo in several precisions, single layers,
# steps by the benchmark and beside PyTorch's, and one step under Nsight Compute. Wants the CUDA toolkit, CMake, Ninja, a
# C++ compiler and a python3 with torch (and torchvision, for PyTorch's side of the zoo); neither a package manager nor a
# network.
#
#   scripts/gpu_check.sh OUT_DIR [SECONDS]
#
# SECONDS limits the sweeps together (default 240); what does not fit is left out, and the same command goes on where it
# ended. OUT_DIR gets runs.csv, runs_agg.csv, logs/, label_seconds.txt, memory.csv, ops_here.json, layers.csv,
# timing_core.json, peers.json, resnet18_ncu.csv, system_specifications.{json,txt}, arguments.txt, ctest.log and
# build.log. From the environment:
#   PERFPRED_DEPS               the folder that scripts/collect_deps.sh filled; without it the machine's own packages
#   PERFPRED_GPU_CHECK_DEVICE   cuda (default), cuda:1, ...; cpu tries the script where there is no GPU
#   PERFPRED_GPU_CHECK_PARTS    what to do after the build (default: all):
#                               tests,memory,probe,sweeps,layers,benchmark,ncu,peers
#   PYTHON                      python3 (default)
set -euo pipefail

case ${1:-} in
  '' | -*)
    sed -n '3,20s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
seconds=${2:-240}
device=${PERFPRED_GPU_CHECK_DEVICE:-cuda}
all_parts=tests,memory,probe,sweeps,layers,benchmark,ncu,peers
parts=${PERFPRED_GPU_CHECK_PARTS:-$all_parts}
for part in ${parts//,/ }; do
  if [[ ,$all_parts, != *,$part,* ]]; then
    echo "gpu_check: \"$part\" is not one of $all_parts" >&2
    exit 2
  fi
done
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."
build=$PWD/build/gpu_check
mkdir -p "$build"

step() { printf '\ngpu_check: %s\n' "$*"; }
configure=(
  -DCMAKE_BUILD_TYPE=Release
  -DPERFPRED_WITH_TORCH=ON
  -DPERFPRED_BUILD_BENCHMARKS=ON
  -DPERFPRED_WERROR=OFF # for the one compiler that is there
)

torch=$("$python" -c 'import torch; print(torch.__version__, torch.utils.cmake_prefix_path)')
step "torch ${torch%% *} of $python"
configure+=("-DTorch_DIR=${torch#* }/Torch")

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
bin=$build/bin

result=0
step "the machine"
"$bin/perfpred-sysinfo" --out "$out/system_specifications"

finish() {
  [ $result -eq 0 ] || echo "gpu_check: something failed, see above"
  exit $result
}
wanted() { [[ ,$parts, == *,$1,* ]]; }

if wanted tests; then
  step "tests that need a GPU"
  ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error 2>&1 | tee "$out/ctest.log" || result=1
  if [ "$device" != cpu ] && grep -q 'Skipped' "$out/ctest.log"; then
    echo "gpu_check: tests were skipped although $device is a GPU"
    result=1
  fi
fi

if wanted memory; then
  step "peaks of memory"
  scripts/measure_memory.sh "$bin" "$out/memory.csv" --device "$device" || result=1
fi

if wanted probe; then
  step "the op model, probed on $device"
  "$bin/perfpred-probe" --device "$device" --out "$out/ops_here.json" || result=1
fi

if wanted sweeps; then
  printf '%s %s\n' "$out" "$seconds" >"$out/arguments.txt"
  sweep() { # share of the seconds in percent, then options
    local share=$(($1 * seconds / 100))
    shift
    "$bin/perfpred-collect" --device "$device" --seed 0 --timing steps --time-limit-sec "$share" \
      --out "$out/runs.csv" --log-dir "$out/logs" "$@" || result=1
  }
  step "the CIFAR-10 CNN on a grid, on $device"
  sweep 50 --depth 2,3,4,5 --base-filters 16,32,64,128 --batch-size 32,64,96,128,192,256,512,1024,2048
  step "some of it again"
  sweep 15 --repeats 2 --depth 2,4 --base-filters 32,128 --batch-size 32,128,256,512,2048
  step "networks of the zoo"
  precisions=fp32,tf32,default,bf16,fp16
  [ "$device" != cpu ] || precisions=fp32
  sweep 25 --network resnet18,resnet50,mobilenet_v2,vgg16,shufflenet_v2_x0_5,densenet121,efficientnet_b0,vit_b_16 \
    --batch-size 8,16,32,64 --precision "$precisions"
  sweep 10 --network bert_base,gpt2 --batch-size 4,16 --precision "$precisions"
  "$bin/perfpred-aggregate" --runs "$out/runs.csv" --out "$out/runs_agg.csv" --rejected "$out/rejected.csv" || result=1

  step "how long the labels took"
  "$python" scripts/label_seconds.py "$out/logs" | tee "$out/label_seconds.txt" || result=1
fi

if wanted layers; then
  step "single layers with the shapes of the zoo"
  timeout "$seconds" "$bin/perfpred-bench-layers" --device "$device" --shapes zoo --num 1000 \
    --out "$out/layers.csv" || [ $? -eq 124 ] || result=1 # resumes where it ended
fi

if wanted benchmark; then
  step "training steps by the benchmark"
  rows='step/cifar_cnn/depth:[24]/base:(32|128)/|step/(resnet18|mobilenet_v2)/'
  [ "$device" != cpu ] || rows='step/cifar_cnn/depth:2/base:16/'
  PERFPRED_BENCH_DEVICE=$device "$bin/timing_core_bench" --benchmark_filter="$rows" \
    --benchmark_out="$out/timing_core.json" --benchmark_out_format=json || result=1
  sed -i '/^ *"executable":/d' "$out/timing_core.json" || result=1 # a path of this machine
fi

if wanted ncu; then
  step "one training step under Nsight Compute"
  if command -v ncu >/dev/null && [ "$device" != cpu ]; then
    op=sm__sass_thread_inst_executed_op
    metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
    for kind in f h; do
      for what in add mul fma; do metrics+=,${op}_$kind${what}_pred_on.sum; done
    done
    # The names of these differ between GPUs, and ncu refuses one that is not there (docs/profiling.md).
    tensor=$(ncu --query-metrics | awk '{ print $1 }' |
      grep -E '^sm__ops_path_tensor_src_(fp16|bf16|tf32|fp16_bf16_tf32)(_dst_fp(16|32))?$') || tensor=
    for metric in $tensor; do metrics+=,$metric.sum; done
    metrics+=,sm__throughput.avg.pct_of_peak_sustained_elapsed,dram__throughput.avg.pct_of_peak_sustained_elapsed
    # With the variable set the program does not start itself again.
    GOMP_SPINCOUNT=1000 LC_ALL=C ncu --nvtx --nvtx-include "train_step/" --clock-control none --csv --page raw \
      --metrics "$metrics" --log-file "$out/resnet18_ncu.csv" "$bin/perfpred-train-net" --network resnet18 \
      --data dummy --batch-size 64 --device "$device" --profile-one-step &&
      "$bin/perfpred-ncu" "$out/resnet18_ncu.csv" --label resnet18 --out "$out/resnet18_ncu.txt" || result=1
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
