#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the sources against .clang-format and .clang-tidy.
#
#   scripts/lint.sh [--fix] [--installed] [--preset NAME] [FILE...]
#
# --fix formats instead of checking the format. clang-tidy reads the compile commands of a configured preset (default:
# core); without files it looks at every source that the preset compiles, with --installed at the installed headers of
# core only. Wants clang-format and clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."

fix=no
installed=no
preset=core
files=()
while [ $# -gt 0 ]; do
  case $1 in
    --fix) fix=yes ;;
    --installed) installed=yes ;;
    --preset)
      preset=${2:?"--preset wants a name"}
      shift
      ;;
    -h | --help)
      sed -n '3,9s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "lint: unknown option $1 (there are --fix, --installed, --preset NAME)" >&2
      exit 2
      ;;
    *) files+=("$1") ;;
  esac
  shift
done
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files '*.h' '*.cpp')

if [ $fix = yes ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run --Werror "${files[@]}"
fi

[ -f "build/$preset/compile_commands.json" ] || cmake --preset "$preset" >/dev/null
if [ $installed = yes ]; then
  # This source includes the header of all headers twice, on purpose.
  exec clang-tidy --quiet --checks=-readability-duplicate-include --header-filter='include/perfpred/[a-z_]*\.h$' \
    -p "build/$preset" "build/$preset/tests/headers/perfpred_h.cpp"
fi

compiled=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "build/$preset/compile_commands.json"; then compiled+=("$file"); fi
done
[ ${#compiled[@]} -eq 0 ] ||
  printf '%s\0' "${compiled[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "build/$preset"
