#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copies what scripts/gpu_check.sh runs, programs and tests of a build with LibTorch and benchmarks, and the shared
# libraries they load, LibTorch apart, into one folder of some 40 MB, for a GPU machine with the same LibTorch in its
# python3. There, PERFPRED_PROGRAMS names the folder, and nothing is built.
#
#   scripts/collect_programs.sh BUILD FOLDER
set -euo pipefail

if [ $# -ne 2 ]; then
  sed -n '3,7s/^# \{0,1\}//p' "$0"
  exit 2
fi
build=$1
torch=$(sed -n 's/^Torch_DIR:[A-Z]*=\(.*\)\/share\/cmake\/Torch$/\1/p' "$build/CMakeCache.txt")
if [ -z "$torch" ]; then
  echo "collect_programs: $build was not built with LibTorch" >&2
  exit 2
fi

if [ ! -e "$build/bin/timing_core_bench" ] || [ ! -e "$build/tests/gpu_training_impl_test" ]; then
  echo "collect_programs: $build was not built with tests and -DPERFPRED_BUILD_BENCHMARKS=ON" >&2
  exit 2
fi
mkdir -p "$2/bin" "$2/lib"
folder=$(cd "$2" && pwd)
programs=("$build"/bin/timing_core_bench "$build"/tests/gpu_*_test)
programs+=("$build/bin/perfpred" "$build/bin/perfpred-torch")
for program in "${programs[@]}"; do
  strip -o "$folder/bin/$(basename "$program")" "$program"
done
for name in sysinfo collect aggregate bench-layers probe train-net ncu; do
  cp -P --remove-destination "$build/bin/perfpred-$name" "$folder/bin"  # a link to one of them
done
# Neither LibTorch's libraries nor those that every Linux system has.
ldd "${programs[@]}" | awk -v torch="$torch" '$2 == "=>" && index($3, torch) != 1 { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libgomp)[.-]' | xargs -r cp -L -t "$folder/lib"
echo "collect_programs: ${#programs[@]} programs, $(du -sh "$folder" | cut -f1) in $folder"
