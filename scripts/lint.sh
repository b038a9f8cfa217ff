#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the sources against .clang-format and .clang-tidy and, unless files are named, the length and complexity of
# functions (scripts/check_functions.py), and python/ by ruff and mypy (python/pyproject.toml).
#
#   scripts/lint.sh [--fix] [--installed] [--changed] [FILE...]
#
# --fix formats instead of checking the format. clang-tidy reads the compile commands of build/lint, where this script
# configures the preset core with each source on its own. Without files it looks at every source, with --installed at the
# installed headers of core only, with --changed at those and at the first 12 sources that differ from origin/main, or
# where there is nothing else, from the commit before. Wants clang-format, clang-tidy, lizard for the functions, ruff and
# mypy (scripts/setup.sh --lint).
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${PERFPRED_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/perfpred}

# By the python3 that has lizard: the machine's, or the environment of scripts/setup.sh.
check_functions() {
  local python
  for python in python3 "$cache"/lizard-*/bin/python; do
    if "$python" -c 'import lizard' 2>/dev/null; then
      "$python" scripts/check_functions.py
      return
    fi
  done
  echo "lint: no Python here has lizard; scripts/setup.sh --lint installs it" >&2
  exit 1
}

# By the ruff and mypy of scripts/setup.sh, else of the machine.
check_python() {
  local bin
  for bin in "$cache"/python-checkers-*/bin; do
    if [ -x "$bin/mypy" ]; then PATH=$bin:$PATH; fi
  done
  if ! command -v ruff >/dev/null || ! command -v mypy >/dev/null; then
    echo "lint: there is no ruff, or no mypy; scripts/setup.sh --lint installs them" >&2
    exit 1
  fi
  cd python
  if [ $fix = yes ]; then ruff format --quiet .; else ruff format --quiet --check .; fi
  ruff check --quiet .
  mypy --no-error-summary
}

# The sources that differ from where this branch left origin/main, else from the commit before.
changed_sources() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse --quiet --verify HEAD~1 || true)
  fi
  [ -z "$base" ] || git diff --name-only --diff-filter=d "$base" -- '*.cpp'
}

fix=no
installed=no
changed=no
build=build/lint
files=()
while [ $# -gt 0 ]; do
  case $1 in
    --fix) fix=yes ;;
    --installed) installed=yes ;;
    --changed) changed=yes ;;
    -h | --help)
      sed -n '3,13s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "lint: unknown option $1 (there are --fix, --installed, --changed)" >&2
      exit 2
      ;;
    *) files+=("$1") ;;
  esac
  shift
done
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files '*.h' '*.cpp')
  check_functions
  (check_python)
fi

if [ $fix = yes ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run --Werror "${files[@]}"
fi

cmake --preset core -B $build -DCMAKE_UNITY_BUILD=OFF >/dev/null
cmake --build $build --target perfpred_generated >/dev/null
if [ $installed = yes ] || [ $changed = yes ]; then
  # This source includes the header of all headers twice, on purpose.
  clang-tidy --quiet --checks=-readability-duplicate-include --header-filter='include/perfpred/[a-z_]*\.h$' \
    -p $build "$build/tests/headers/perfpred_h.cpp"
  [ $changed = yes ] || exit 0
  mapfile -t files < <(changed_sources)
fi

most_changed=12 # a source takes some 15 s
compiled=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "$build/compile_commands.json"; then compiled+=("$file"); fi
done
if [ $changed = yes ]; then
  looks_at=$((${#compiled[@]} < most_changed ? ${#compiled[@]} : most_changed))
  echo "lint: clang-tidy looks at $looks_at of ${#files[@]} changed sources: $((${#compiled[@]} - looks_at)) are too many," \
    "$((${#files[@]} - ${#compiled[@]})) are not compiled without LibTorch" >&2
  compiled=("${compiled[@]:0:$looks_at}")
fi
[ ${#compiled[@]} -eq 0 ] ||
  printf '%s\0' "${compiled[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p $build
