#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a release of what is committed: the source, the wheel and the Debian packages, all built from that source, their
# checksums, and last the tag vVERSION. Publishes nothing, changes no file of the checkout.
#
#   scripts/release.sh [--dry-run] VERSION
#
# Refuses unless nothing is uncommitted, CMakeLists.txt and python/pyproject.toml have this version, CHANGELOG.md has a
# section `## VERSION` that is not marked unreleased, and there is no such tag. --dry-run does all of it, but sets no tag.
# What it makes goes to build/release-VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
  printf 'release: %s\n' "$*" >&2
  exit 2
}
usage() { sed -n '3,11s/^# \{0,1\}//p' "$0"; }

dry_run=no
version=
for argument in "$@"; do
  case $argument in
    --dry-run) dry_run=yes ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) refuse "unknown option $argument (there is --dry-run)" ;;
    *)
      [ -z "$version" ] || refuse "one version, not $version and $argument"
      version=$argument
      ;;
  esac
done
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "wants a version such as 1.2.3, got \"$version\" (--help)"

has_version() { # in the file $1, the one that the sed expression $2 finds
  local found
  found=$(sed -nE "$2" "$1" | head -1)
  [ "$found" = "$version" ] || refuse "$1 has the version ${found:-none}, not $version"
}
has_version CMakeLists.txt 's/^project\(perfpred VERSION ([0-9.]+).*/\1/p'
has_version python/pyproject.toml 's/^version = "([0-9.]+)"$/\1/p'
heading=$(grep -E "^## ${version//./\\.}( |$)" CHANGELOG.md) || refuse "CHANGELOG.md has no section \"## $version\""
[[ $heading != *unreleased* ]] || refuse "CHANGELOG.md says \"$heading\": write the day of the release"
notes=$(awk -v heading="$heading" '$0 == heading { found = 1; next } /^## / { found = 0 } found && NF' CHANGELOG.md)
[ -n "$notes" ] || refuse "CHANGELOG.md: nothing below \"$heading\""
changed=$(git status --porcelain)
[ -z "$changed" ] || refuse "uncommitted: $(head -3 <<<"$changed" | tr '\n' ';')"
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then refuse "the tag v$version is there"; fi

out=build/release-$version
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=perfpred-$version
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) # of what is built: the same again gives the same
export SOURCE_DATE_EPOCH
git archive --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"

# What everyone else will have: the source alone.
tar -xzf "$out/$name.tar.gz" -C "$work"
(cd "$work/$name" && scripts/setup.sh --core --packages && scripts/build_wheel.sh "$out" &&
  cmake --workflow --preset packages && cp build/packages/debian/*.deb "$out")
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)

if [ $dry_run = yes ]; then
  echo "release: $out is complete; no tag was set (--dry-run)"
else
  git tag --annotate --cleanup=whitespace "v$version" --message "perfpred $version"$'\n\n'"$notes"
  echo "release: $out is complete; the tag v$version is set here. git push origin v$version publishes it"
fi
