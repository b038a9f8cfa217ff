#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs all tests.
#
#   scripts/test.sh [--preset dev|core|asan|tsan] [--core-tests]
#
# The preset is dev by default. --core-tests leaves out the tests of the programs and of installing, and does not build
# what only they need.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=dev
core_tests=no
while [ $# -gt 0 ]; do
  case $1 in
    --preset)
      preset=${2:?"--preset wants a name"}
      shift 2
      ;;
    --core-tests)
      core_tests=yes
      shift
      ;;
    -h | --help)
      sed -n '3,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "test: unknown option $1 (there are --preset NAME, --core-tests)" >&2
      exit 2
      ;;
  esac
done

case $preset in
  core | asan | tsan) scripts/setup.sh --core ;;
  *) scripts/setup.sh ;;
esac
cmake --preset "$preset"
if [ $core_tests = yes ]; then
  cmake --build --preset "$preset" --target core_tests
  ctest --preset "$preset" --label-regex '^core$'
else
  cmake --build --preset "$preset"
  ctest --preset "$preset"
fi
