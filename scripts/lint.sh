#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the sources against .clang-format and .clang-tidy.
#
#   scripts/lint.sh [--fix] [--preset NAME] [FILE...]
#
# --fix formats instead of checking the format. clang-tidy reads the compile commands of a configured preset (default:
# core); without files it looks at every source that the preset compiles. Wants clang-format and clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."

fix=no
preset=core
files=()
while [ $# -gt 0 ]; do
  case $1 in
    --fix) fix=yes ;;
    --preset)
      preset=${2:?"--preset wants a name"}
      shift
      ;;
    -h | --help)
      sed -n '3,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "lint: unknown option $1 (there are --fix, --preset NAME)" >&2
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
compiled=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "build/$preset/compile_commands.json"; then compiled+=("$file"); fi
done
[ ${#compiled[@]} -eq 0 ] ||
  printf '%s\0' "${compiled[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "build/$preset"
