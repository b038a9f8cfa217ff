#!/bin/sh -e
# SPDX-License-Identifier: Apache-2.0
# Fails, and lists them, if a library exports functions of this project that no public header declares:
#   exports.sh INCLUDE_DIR LIBRARY
# Allowed besides are the registries that the components share (src/CMakeLists.txt).
registries='(set_)?(ann|trees)_fitter|(set_)?branch_and_cut|find_graph|batches_per_step|registered_rule|rule_changes|unused_rules'
private=$(nm -DC --defined-only "$2" |
  sed -nE 's/^[0-9a-f]+ [TWi] perfpred::([A-Za-z0-9_]+::)*~?([A-Za-z0-9_]+)(\[|\().*/\2/p' | sort -u |
  grep -vxE "$registries" |
  while read -r name; do
    grep -rqw -- "$name" "$1" || echo "$name"
  done)
[ -z "$private" ] || { printf 'exported, but not public:\n%s\n' "$private" >&2; exit 1; }
