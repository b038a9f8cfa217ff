#!/usr/bin/env bash
# Builds perfpred on a machine with a CUDA GPU, runs the tests that need one, and measures a sweep. Wants the CUDA
# toolkit, CMake, Ninja, a C++ compiler and a python3 with torch; neither a package manager nor a network.
#
#   scripts/gpu_check.sh OUT_DIR [SECONDS]
#
# SECONDS limits the sweep (default 240). OUT_DIR gets runs.csv, logs/, system_specifications.{json,txt}, ctest.log and
# build.log. From the environment:
#   PERFPRED_DEPS               the folder that scripts/collect_deps.sh filled; without it the machine's own packages
#   PERFPRED_GPU_CHECK_DEVICE   cuda (default), cuda:1, ...; cpu tries the script where there is no GPU
#   PYTHON                      python3 (default)
set -euo pipefail

case ${1:-} in
  '' | -*)
    sed -n '2,11s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
seconds=${2:-240}
device=${PERFPRED_GPU_CHECK_DEVICE:-cuda}
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."
build=$PWD/build/gpu_check
mkdir -p "$build"

step() { printf '\ngpu_check: %s\n' "$*"; }
configure=(
  -DCMAKE_BUILD_TYPE=Release
  -DPERFPRED_WITH_TORCH=ON
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

step "tests that need a GPU"
ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error 2>&1 | tee "$out/ctest.log" || result=1

step "a sweep of at most $seconds s on $device"
"$bin/perfpred-collect" --device "$device" --depth 2,3 --base-filters 16,32,64 --batch-size 32,128,512 --epochs 3 \
  --seed 0 --time-limit-sec "$seconds" --out "$out/runs.csv" --log-dir "$out/logs" || result=1

step "measured"
"$python" - "$out/runs.csv" <<'END'
import csv, sys
rows = [dict(row) for row in csv.DictReader(open(sys.argv[1], newline=""))]
line = "{:>5} {:>12} {:>10} {:>9} {:>12} {:>14} {:>8}"
print(line.format("depth", "base_filters", "batch_size", "precision", "avg_time_sec", "images_per_sec", "outcome"))
for row in sorted(rows, key=lambda r: tuple(int(r[c]) for c in ("depth", "base_filters", "batch_size"))):
    figures = [f"{float(row[c]):.4g}" if row[c] else "" for c in ("avg_time_sec", "images_per_sec")]
    print(line.format(row["depth"], row["base_filters"], row["batch_size"], row["precision"], *figures, row["outcome"]))
print(f"{len(rows)} runs on {', '.join(sorted({row['device'] for row in rows}))}")
END
[ $result -eq 0 ] || echo "gpu_check: something failed, see above"
exit $result
