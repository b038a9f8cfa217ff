#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs the tests.
#
#   scripts/test.sh [--preset release|core|asan|tsan] [--label core|memory|threads] [--slow]
#
# The preset is release by default: all that scripts/demo.sh has built is taken over. --label builds and runs only some
# tests: core leaves out those of the programs and of installing, memory takes readers and code with computed indices,
# threads those in which threads share data. --slow also runs the few tests that take minutes each, as
# scripts/full_check.sh slow does.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
label=
slow=
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
    --slow)
      slow=yes
      shift
      ;;
    -h | --help)
      sed -n '3,10s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "test: unknown option $1 (there are --preset NAME, --label NAME, --slow)" >&2
      exit 2
      ;;
  esac
done

case $preset in
  core) scripts/setup.sh --core ;;
  asan | tsan) scripts/setup.sh --core --lint ;;
  *) scripts/setup.sh ;;
esac
cmake --preset "$preset"
which=()
[ -n "$slow" ] || which+=(--label-exclude slow)
if [ -n "$label" ]; then
  cmake --build --preset "$preset" --target "${label}_tests"
  which+=(--label-regex "$label")
else
  cmake --build --preset "$preset"
fi
built=build/${preset/#core/release}
status=0
ctest --preset "$preset" "${which[@]}" || status=$?
if [ $status != 0 ]; then # once more at the end, as the places lie far apart in what all tests print
  echo "test: what failed, as $built/Testing/Temporary/LastTest.log has it:"
  grep -E -A 16 '^(FAIL|ERROR): |: Failure$' "$built/Testing/Temporary/LastTest.log" | tail -n 100 || true
  exit $status
fi
[ -n "$slow" ] || echo "test: those that take minutes were left out (scripts/test.sh --slow)"
