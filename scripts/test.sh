#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs all tests.
#
#   scripts/test.sh [--preset dev|ci|core|asan|tsan] [--label core|threads]
#
# The preset is dev by default. --label builds and runs only some tests: core leaves out those of the programs and of
# installing, threads takes those in which threads share data.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=dev
label=
while [ $# -gt 0 ]; do
  case $1 in
    --preset)
      preset=${2:?"--preset wants a name"}
      shift 2
      ;;
    --label)
      label=${2:?"--label wants a name"}
      shift 2
      ;;
    -h | --help)
      sed -n '3,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "test: unknown option $1 (there are --preset NAME, --label NAME)" >&2
      exit 2
      ;;
  esac
done

case $preset in
  core) scripts/setup.sh --core ;;
  asan | tsan) scripts/setup.sh --core --lint ;;
  ci) scripts/setup.sh --lint ;;
  *) scripts/setup.sh ;;
esac
cmake --preset "$preset"
if [ -n "$label" ]; then
  cmake --build --preset "$preset" --target "${label}_tests"
  ctest --preset "$preset" --label-regex "$label"
else
  cmake --build --preset "$preset"
  ctest --preset "$preset"
fi
