#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs all tests.
#
#   scripts/test.sh [--preset dev|core|asan|tsan]      default: dev
set -euo pipefail
cd "$(dirname "$0")/.."

preset=dev
while [ $# -gt 0 ]; do
  case $1 in
    --preset)
      preset=${2:?"--preset wants a name"}
      shift 2
      ;;
    -h | --help)
      sed -n '3,5s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "test: unknown option $1 (there is --preset NAME)" >&2
      exit 2
      ;;
  esac
done

case $preset in
  core | asan | tsan) scripts/setup.sh --core ;;
  *) scripts/setup.sh ;;
esac
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset"
