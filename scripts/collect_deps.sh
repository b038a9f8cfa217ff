#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copies what perfpred is built with, LibTorch apart, from this Debian or Ubuntu machine into one folder, for a machine
# that has neither a package manager nor a network: headers, their CMake files, a few shared libraries and the sources of
# GoogleTest. There, PERFPRED_DEPS names the folder (see scripts/gpu_check.sh).
#
#   scripts/collect_deps.sh FOLDER
set -euo pipefail

case ${1:-} in
  '' | -*)
    sed -n '3,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
packages=(
  libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev libfccp-dev libnlopt-dev libnlopt-cxx-dev libxgboost-dev
  libmd-dev liblzma-dev libbenchmark-dev
)

# /usr/x becomes FOLDER/x; the packages' CMake files find their neighbours by relative paths. Headers of one architecture
# join the others: compilers look into a folder of theirs below /usr only.
arch=$(gcc -print-multiarch)
copy() {
  case $1 in
    "/usr/include/$arch/"*) install -D -m 644 "$1" "$folder/include/${1#"/usr/include/$arch/"}" ;;
    *) (cd /usr && cp -P --parents "${1#/usr/}" "$folder") ;;
  esac
}

for package in "${packages[@]}"; do
  dpkg-query -W "$package" >/dev/null
  while read -r path; do
    if [ -d "$path" ] && [ ! -L "$path" ]; then continue; fi
    case $path in
      */libbenchmark_main.a) copy "$path" ;; # its CMake files want it
      /usr/share/doc*/* | /usr/share/man/* | *.a) ;;
      /usr/include/* | /usr/share/* | */cmake/*) copy "$path" ;;
      *.so) # the link that the linker follows, what it points to, and what that in turn wants from such a package
        copy "$path"
        target=$(readlink -f "$path")
        name=$(objdump -p "$target" | sed -n 's/^ *SONAME *//p')
        copy "$target"
        copy "$(dirname "$path")/$name"
        ldd "$target" |
          awk '$2 == "=>" && $1 !~ /^lib(c|m|stdc\+\+|gcc_s|gomp|pthread|dl|rt)\.so/ { print $3 }' |
          while read -r needed; do
            needed=/usr${needed#/usr}
            copy "$needed"
            copy "$(readlink -f "$needed")"
          done
        ;;
    esac
  done < <(dpkg -L "$package")
done

# All of Boost is 150 MB: only the headers that the sources include.
root=$(cd "$(dirname "$0")/.." && pwd)
{ grep -rhoE '#include <boost/[^>]+>' "$root/src" | sort -u; echo '#include <boost/version.hpp>'; } |
  g++ -std=c++20 -M -x c++ - | grep -oE '/usr/include/boost/[^ ]+' |
  while read -r path; do copy "$path"; done

# Whatever the core's sources include has to come from the folder or with the compiler. CBC is left out.
headers=$(find "$root/src" "$root/examples" \( -path '*/torch' -o -name cbc.cpp \) -prune -o -name '*.[ch]*' -print |
  xargs grep -hoE '^#include <[^>]+>' | grep -v '<perfpred/' | sort -u |
  g++ -std=c++20 -M -isystem "$folder/include" -isystem "$folder/include/eigen3" -x c++ - |
  grep -oE '/usr/include/[^ ]+')
owners=$(xargs dpkg-query -S <<<"$headers")
missing=$(sed -E '/^(libc6|linux-libc|libstdc\+\+-[0-9]+)-dev:/d' <<<"$owners")
if [ -n "$missing" ]; then
  printf 'collect_deps: headers are missing in the folder, of these packages:\n%s\n' "$(cut -d: -f1 <<<"$missing" | sort -u)" >&2
  exit 1
fi

mkdir -p "$folder/src/googletest"
(cd /usr/src/googletest && find . -type f ! -path '*/test/*' ! -path '*/samples/*' ! -path '*/docs/*' -print0 |
  xargs -0 cp --parents -t "$folder/src/googletest")

echo "collect_deps: $(du -sh "$folder" | cut -f1) in $folder"
