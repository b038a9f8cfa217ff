#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks Debian packages of perfpred: lintian, what they hold, and a Debian of their own, in which each is installed, used
# and purged.
#
#   scripts/package_check.sh FOLDER
#
# FOLDER has the packages (cmake --workflow --preset packages). Wants root, lintian and debootstrap (scripts/setup.sh
# --packages), 2 GB in TMPDIR, and the mirror from which apt installs on this machine, whose release the packages are for.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '' | -*)
    sed -n '3,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
root=$work/root
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

say() { printf 'package_check: %s\n' "$*"; }
die() {
  printf 'package_check: %s\n' "$*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || die "wants root: it makes a Debian of its own (debootstrap, chroot)"
compgen -G "$folder/*.deb" >/dev/null || die "there are no packages in $folder"

packages=() # their names
for file in "$folder"/*.deb; do packages+=("$(dpkg-deb -f "$file" Package)"); done

# No error, no warning. CPack's own scripts call ldconfig beside the trigger, and no bug report asks for these packages.
check_lintian() {
  lintian --allow-root --fail-on error,warning \
    --suppress-tags initial-upload-closes-no-bugs,maintscript-calls-ldconfig "$folder"/*.deb
}

# $1 the package, $2 the folder of its files: those of a library belong to one version of it.
check_library() {
  local version=${1##*[a-z]} other
  other=$(cd "$2" && find . -type f -o -type l |
    grep -vE "^\./usr/lib/[^/]+/libperfpred(_core)?\.so\.${version//./\\.}(\.[0-9.]+)?$|^\./usr/share/doc/$1/") ||
    return 0
  die "$1 would be in the way of another version, by $other"
}

check_files() {
  local package file name heading
  for package in "${packages[@]}"; do
    file=$(echo "$folder/${package}"_*.deb)
    name=$work/files/$package
    mkdir -p "$name"
    dpkg-deb -x "$file" "$name"
    (cd "$name" && dpkg-deb -I "$file" md5sums | md5sum --quiet --check -)
    find "$name" -type f -exec readelf -d {} + 2>/dev/null | grep -E 'RPATH|RUNPATH' && die "$package has an rpath"
    while read -r heading; do
      grep -qxF -- "$heading" "$name/usr/share/doc/$package/copyright" || die "$package lacks the notice $heading"
    done < <(grep '^## ' THIRD_PARTY.md)
    case $package in libperfpred*[0-9]) check_library "$package" "$name" ;; esac
  done
  name=$(cd "$work/files" && find . -mindepth 2 ! -type d -printf '/%P\n' | sed 's|^/[^/]*||' | sort | uniq -d)
  [ -z "$name" ] || die "in several packages: $name"
}

in_root() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/check LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
apt() { in_root apt-get -qq -y --no-install-recommends "$@" >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2 && die "apt-get $*"; }; }

make_root() {
  local suite mirror
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite { print $2; exit }')
  [ -n "$mirror" ] || die "apt has no mirror of $suite"
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/debootstrap.log" ||
    { tail -5 "$work/debootstrap.log" >&2 && die "debootstrap $suite"; }
  mount -t proc proc "$root/proc"
  apt install bash-completion cmake fish g++ make man-db pkg-config python3 zsh
  mkdir -p "$root/check/packages" "$root/check/tests/cmake" "$root/check/examples"
  cp "$folder"/*.deb "$root/check/packages"
  cp -r tests/cmake/core_consumer.cpp tests/cmake/find_package_{c,core,static} "$root/check/tests/cmake"
  cp examples/pipeline.cpp "$root/check/examples"
}

# Every name in the Debian but those of what runs it: caches, logs, dpkg's copies of its own lists.
names() {
  find "$root" -xdev \( -path "$root/proc" -o -path "$root/check" -o -path "$root/tmp" -o -path "$root/var/cache" -o \
    -path "$root/var/log" -o -path "$root/var/lib/apt" \) -prune -o ! -name '*-old' -printf '/%P\n' | sort
}

# Installs packages of FOLDER by name; apt takes from the mirror what they depend on.
install() {
  local package files=()
  for package in "$@"; do files+=("/check/packages/$(basename "$folder/${package}"_*.deb)"); done
  apt install "${files[@]}"
  say "installed: $*"
}

use_library() {
  in_root python3 -c '
import ctypes
library = ctypes.CDLL("libperfpred.so.0")
library.perfpred_version.restype = ctypes.c_char_p
print("libperfpred.so.0:", library.perfpred_version().decode())'
}

use_development() {
  in_root sh -ec '
    cd /check
    cc -std=c99 tests/cmake/find_package_c/main.c $(pkg-config --cflags --libs perfpred) -o by_pkg_config
    ./by_pkg_config
    c++ -std=c++20 tests/cmake/core_consumer.cpp $(pkg-config --cflags --libs perfpred-core) -o by_pkg_config
    ./by_pkg_config
    for project in find_package_c find_package_core find_package_static; do
      cmake -S tests/cmake/$project -B $project >/dev/null
      cmake --build $project --target consumer >/dev/null
      $project/consumer
    done'
}

use_programs() {
  in_root bash -ec '
    for program in /usr/bin/perfpred-*; do
      case $program in *-learn) ;; *) $program --version ;; esac
      man --warnings "${program##*/}" >/dev/null
    done
    for network in resnet18 t5_base; do
      perfpred predict --network $network --batch-size 8 --device T4 | grep -E "^ *(step|memory) "
    done
    man perfpred-predict | grep -q -- --network
    source /usr/share/bash-completion/bash_completion
    _completion_loader perfpred || [ $? = 124 ]
    COMP_WORDS=(perfpred predict --preci) COMP_CWORD=2
    _perfpred
    [ "${COMPREPLY[*]}" = --precision ]
    [ "$(fish -c "complete -C \"perfpred predict --preci\"" | cut -f1)" = --precision ]
    [ "$(zsh -fc "autoload -U compinit && compinit -D && echo \$_comps[perfpred]")" = _perfpred ]
    if perfpred collect; then exit 1; else [ $? = 2 ]; fi'
}

use_python() {
  in_root python3 -c '
import importlib.metadata, perfpred
assert importlib.metadata.version("perfpred") == perfpred.__version__
print("python3-perfpred:", perfpred.predict("t5_base", device="T4", batch_size=8))'
  in_root python3 -m perfpred --version
}

# Purges packages: nothing of theirs is left but folders that are also others'.
purge() {
  local package path
  for package in "$@"; do
    in_root dpkg -L "$package" >"$work/list"
    apt purge "$package"
    while read -r path; do
      if [ -e "$root$path" ] || [ -L "$root$path" ]; then
        in_root dpkg -S "$path" >/dev/null 2>&1 || die "$package left $path"
      fi
    done <"$work/list"
    say "purged: $package"
  done
}

check_lintian
check_files
say "lintian and files: ${#packages[@]} packages"
make_root
names >"$work/before"
libraries=()
for package in "${packages[@]}"; do
  case $package in libperfpred*[0-9]) libraries+=("$package") ;; esac
done
install "${libraries[@]}"
use_library
install libperfpred-dev
use_development
install perfpred-data perfpred
use_programs
install python3-perfpred
use_python
purge python3-perfpred perfpred perfpred-data libperfpred-dev "${libraries[@]}"
apt autoremove --purge
names >"$work/after"
diff "$work/before" "$work/after" || die "the Debian is not what it was (<: gone, >: left)"
say "installed, used and purged: ${packages[*]}"
