#!/bin/sh -e
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh LIBDIR COMPILER SOURCE PROGRAM [FLAG...]: builds and runs a consumer with pkg-config's flags alone.
libdir=$1 compiler=$2 source=$3 program=$4
shift 4
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046  # flags are words
"$compiler" -std=c++20 "$@" $(pkg-config --cflags perfpred-core) "$source" -o "$program" \
  $(pkg-config --libs perfpred-core) -Wl,-rpath,"$libdir"
"$program"
