#!/bin/bash -e
# SPDX-License-Identifier: Apache-2.0
# release.sh SCRIPT: what scripts/release.sh refuses, makes and tags, in a repository with stand-ins for what builds.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/repository/scripts" "$folder/repository/python" "$folder/bin"
cd "$folder/repository"
export HOME=$folder GIT_CONFIG_NOSYSTEM=1
git init --quiet .
git config user.name Somebody
git config user.email somebody@localhost
cp "$1" scripts/release.sh
printf '#!/bin/sh\n' >scripts/setup.sh
printf '#!/bin/sh\necho wheel >"$1/perfpred-1.2.3-py3-none-any.whl"\n' >scripts/build_wheel.sh
printf '#!/bin/sh\nmkdir -p build/packages/debian\necho "$SOURCE_DATE_EPOCH" >build/packages/debian/perfpred.deb\n' >"$folder/bin/cmake"
chmod +x scripts/* "$folder/bin/cmake"
PATH=$folder/bin:$PATH
echo 'project(perfpred VERSION 1.2.3 LANGUAGES CXX)' >CMakeLists.txt
echo 'version = "1.2.3"' >python/pyproject.toml
echo /build/ >.gitignore
printf '# Changelog\n\n## 1.2.3 (unreleased)\n\n* Faster.\n\n## 1.2.0\n\n* Older.\n' >CHANGELOG.md
git add . && git commit --quiet --message First

refused() { # with what its one line says; then the arguments
  local says=$1 code=0
  shift
  said=$(scripts/release.sh "$@" 2>&1 >/dev/null) || code=$?
  [ $code = 2 ] && [[ $said == "release: "*"$says"* && $said != *$'\n'* ]] || { echo "$* should be refused by \"$says\", not $code: $said" && exit 1; }
  [ -z "$(git tag)" ] && [ ! -e build ]
}
refused 'wants a version'
refused 'wants a version' 1.2
refused 'unknown option' --publish 1.2.3
refused 'one version' 1.2.3 1.2.4
refused 'CMakeLists.txt has the version 1.2.3' 1.2.4
refused 'unreleased' 1.2.3
sed -i 's/ (unreleased)/ (2026-01-02)/' CHANGELOG.md
refused 'uncommitted: ' 1.2.3
git commit --quiet --all --message Second
echo 'version = "1.2.4"' >python/pyproject.toml
refused 'pyproject.toml has the version 1.2.4' 1.2.3
git checkout --quiet python
mv CHANGELOG.md all && grep -v Faster all >CHANGELOG.md
refused 'nothing below' 1.2.3
mv all CHANGELOG.md

scripts/release.sh --dry-run 1.2.3 >/dev/null
[ -z "$(git tag)" ]
cp -r build/release-1.2.3 "$folder/rehearsed"
scripts/release.sh 1.2.3 >/dev/null
diff -r "$folder/rehearsed" build/release-1.2.3 # the same again
[ "$(git for-each-ref --format='%(contents)' refs/tags/v1.2.3)" = $'perfpred 1.2.3\n\n* Faster.' ]
[ "$(git rev-parse 'v1.2.3^{commit}')" = "$(git rev-parse HEAD)" ]
[ -z "$(git status --porcelain)" ]
cd build/release-1.2.3
[ "$(echo *)" = 'SHA256SUMS perfpred-1.2.3-py3-none-any.whl perfpred-1.2.3.tar.gz perfpred.deb' ]
sha256sum --quiet --check SHA256SUMS
[ "$(wc -l <SHA256SUMS)" = 3 ]
tar -tzf perfpred-1.2.3.tar.gz | grep -qx perfpred-1.2.3/CHANGELOG.md
[ "$(cat perfpred.deb)" = "$(git log -1 --format=%ct)" ]
rm -r ../../build
cd ../..
git tag --delete v1.2.3 >/dev/null && git tag v1.2.3
code=0
said=$(scripts/release.sh 1.2.3 2>&1) || code=$?
[ $code = 2 ] && [ "$said" = 'release: the tag v1.2.3 is there' ]
