#!/bin/sh -e
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh PACKAGE LIBDIR COMPILER SOURCE PROGRAM [FLAG...]: builds and runs a consumer with pkg-config's flags alone.
package=$1 libdir=$2 compiler=$3 source=$4 program=$5
shift 5
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046  # flags are words
"$compiler" "$@" $(pkg-config --cflags "$package") "$source" -o "$program" \
  $(pkg-config --libs "$package") -Wl,-rpath,"$libdir"
"$program"
