#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the ABI of libperfpred.so with tests/c/libperfpred.abi; fails where a program that was linked with that one
# would break, or where a function is missing there.
#
#   scripts/c_abi.sh LIBRARY [--write]
#
# --write replaces the file, after functions were added. Wants abidw and abidiff, which scripts/setup.sh --lint installs;
# skips itself, and says so, where they are missing. The library has to have debug information: where it has none, the
# names of the functions are compared alone.
set -euo pipefail
cd "$(dirname "$0")/.."
stored=tests/c/libperfpred.abi

case ${1:-} in
  '' | -h | --help)
    sed -n '3,11s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
for tool in abidw abidiff; do
  if ! command -v $tool >/dev/null; then
    echo "c_abi: skipped: there is no $tool (scripts/setup.sh --lint installs it)"
    exit 0
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dump() { abidw --exported-interfaces-only --headers-dir include/perfpred --drop-private-types --no-comp-dir-path --no-corpus-path --no-show-locs --no-parameter-names "$1"; }
if [ "${2:-}" = --write ]; then
  dump "$1" >"$work/abi"
  sed "s|path='$PWD/|path='|" "$work/abi" >$stored
  exit 0
fi
abidiff --headers-dir2 include/perfpred --drop-private-types $stored "$1" && exit 0
status=$?
echo "c_abi: the functions of the library are not those of $stored (scripts/c_abi.sh LIBRARY --write, after additions)" >&2
exit $status
