#!/bin/sh -e
# SPDX-License-Identifier: Apache-2.0
# exports.sh LIBRARY: fails if it exports anything but the functions of c_api.h, or needs LibTorch.
others=$(nm -D --defined-only "$1" | sed -nE 's/^[0-9a-f]+ [^A] (.*)/\1/p' | grep -vE '^perfpred_[a-z_0-9]+(@@.*)?$' || true)
[ -z "$others" ] || { printf 'exported besides the C functions:\n%s\n' "$others" >&2; exit 1; }
nm -D --defined-only "$1" | grep -q ' T perfpred_predict' || { echo 'perfpred_predict is not exported' >&2; exit 1; }
if ldd "$1" | grep -E 'torch|cuda|xgboost|Cbc'; then exit 1; fi
