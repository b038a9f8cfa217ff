#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the planner with OR-Tools and CBC: benchmarks/peers/knapsack.sh BUILD_DIR [options of knapsack.py]
# Installs ortools (PyPI) into a private environment in the user's cache folder the first time.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="${1:?usage: knapsack.sh BUILD_DIR [options of knapsack.py]}"
shift
program="$(find "$build" -type f -name knapsack_file -perm -u+x | head -n 1)"
[[ -n "$program" ]] || { echo "knapsack.sh: $build has no knapsack_file; configure with -DPERFPRED_BUILD_BENCHMARKS=ON" >&2; exit 2; }

environment="${PERFPRED_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/perfpred}/peers-knapsack"
if [[ ! -e "$environment/.complete" ]]; then
  echo "knapsack.sh: installing ortools into $environment" >&2
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet ortools==9.15.6755
  touch "$environment/.complete"
fi
exec "$environment/bin/python" "$here/knapsack.py" --program "$program" "$@"
