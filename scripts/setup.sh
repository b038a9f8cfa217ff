#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what perfpred is built with and is missing here. Run it as often as you like: what is there is left alone, and
# nothing is exported, since CMake looks where this script puts things.
#
#   scripts/setup.sh          everything
#   scripts/setup.sh --core   without LibTorch: the core library, its programs and tests
#   scripts/setup.sh --lint   everything, and what checks sources and makes the API reference; with --core, without LibTorch
#   scripts/setup.sh --slurm  everything, and a cluster of Slurm with its database, for scripts/slurm_check.py; with --core as above
#   scripts/setup.sh --page   everything, and what checks the service and its page: Chromium, nginx; with --core as above
#   scripts/setup.sh --packages  everything, and what makes and checks Debian packages: lintian, debootstrap; with --core as above
#
# LibTorch, lizard, ruff and mypy go to ${PERFPRED_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/perfpred} (4.5 GB), unless Torch_DIR or
# CMAKE_PREFIX_PATH names one of your own.
set -euo pipefail

core_packages=(
  g++ cmake ninja-build pkg-config lld
  libboost-dev libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev libfccp-dev libnlopt-dev libnlopt-cxx-dev libmd-dev
  liblzma-dev
  libxgboost-dev coinor-libcbc-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  gnuplot-nox
  lua5.3 # tests of the plugin in integrations/slurm
)
lint_packages=(clang libclang-rt-dev clang-format clang-tidy doxygen abigail-tools) # Clang: for the sanitizers, too
deb_packages=(debootstrap dpkg-dev file lintian)
slurm_packages=(slurm-wlm slurm-wlm-basic-plugins slurmdbd munge mariadb-server)
page_packages=(chromium fonts-dejavu-core nginx-light)
torch_packages=(libturbojpeg0-dev libpng-dev libwebp-dev libarchive-dev  # pictures, and archives of CIFAR-10
  libgloo-dev) # headers that LibTorch leaves out
torch_version=2.11.0
lizard_version=1.24.3 # counts lines and branches of functions
ruff_version=0.17.6   # formats Python, and checks it
mypy_version=2.4.1    # checks its types
toolkit_release=13 # of CUDA; what this LibTorch was built with
toolkit_wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85)

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

with_torch=yes
with_lint=no
with_page=no
with_packages=no
with_slurm=no
for argument in "$@"; do
  case $argument in
    --core) with_torch=no ;;
    --lint) with_lint=yes ;;
    --page) with_page=yes ;;
    --packages) with_packages=yes ;;
    --slurm) with_slurm=yes ;;
    -h | --help)
      sed -n '3,14s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "setup: unknown option $argument (there are --core, --lint, --page, --packages, --slurm)" >&2
      exit 2
      ;;
  esac
done

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

install_packages() {
  local missing=() package
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here: these have to be there under your system's names: $*"
    return
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "Debian packages: all $# are installed"
    return
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: ask for apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Debian packages: installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# Prints the folder of the user's own LibTorch, if one is named.
own_torch() {
  local prefix folder
  local prefixes=()
  if [ -n "${Torch_DIR:-}" ]; then
    [ -f "$Torch_DIR/TorchConfig.cmake" ] || die "Torch_DIR=$Torch_DIR holds no TorchConfig.cmake"
    printf '%s\n' "$Torch_DIR"
    return
  fi
  IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    for folder in "$prefix" "$prefix/Torch" "$prefix/share/cmake/Torch" "$prefix/lib/cmake/Torch"; do
      if [ -f "$folder/TorchConfig.cmake" ]; then
        printf '%s\n' "$folder"
        return
      fi
    done
  done
}

# Prints a python3 that can make virtual environments, if there is one.
usable_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$python"
      return
    fi
  done
}

# Prints the CUDA compiler of the machine, if it is of the release that LibTorch wants.
machine_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" nvcc "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    nvcc=$(command -v "$nvcc") || continue
    if [[ $("$nvcc" --version) == *"release $toolkit_release."* ]]; then
      printf '%s\n' "$nvcc"
      return
    fi
  done
}

# Where this Python, or a virtual environment of its own, has lizard already, nothing is fetched.
install_lizard() {
  local python venv=$cache/lizard-$lizard_version
  for python in python3 "$venv/bin/python"; do
    if "$python" -c "import lizard, sys; sys.exit(lizard.version != '$lizard_version')" 2>/dev/null; then
      say "lizard: $lizard_version is there"
      return
    fi
  done
  find_python
  say "lizard: installing $lizard_version into $venv"
  "$python" -m venv --clear "$venv"
  pip_install "lizard==$lizard_version"
}

install_python_checkers() {
  local python venv=$cache/python-checkers-$ruff_version-$mypy_version
  if [ -f "$venv/complete" ]; then
    say "ruff and mypy: $ruff_version and $mypy_version are there"
    return
  fi
  find_python
  say "ruff and mypy: installing $ruff_version and $mypy_version into $venv"
  "$python" -m venv --clear "$venv"
  pip_install "ruff==$ruff_version" "mypy==$mypy_version"
  touch "$venv/complete"
}

pip_install() { "$venv/bin/python" -m pip install --quiet --no-cache-dir --no-compile --disable-pip-version-check "$@"; }

# Sets `python` to one that can make virtual environments, and installs Debian's part of it if need be.
find_python() {
  python=$(usable_python)
  if [ -z "$python" ]; then
    install_packages python3-venv
    python=$(usable_python)
    [ -n "$python" ] || die "no python3 here can make a virtual environment"
  fi
}

install_torch() {
  local python
  if [ -f "$venv/complete" ]; then
    say "LibTorch: $torch_version (CUDA 13.0) is in $venv"
    return
  fi
  find_python
  say "LibTorch: installing $torch_version (CUDA 13.0) into $venv; about 2.5 GB to fetch"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  pip_install "torch==$torch_version"
  compgen -G "$venv/lib/python3*/site-packages/torch/lib/libtorch_cuda.so" >/dev/null ||
    die "the torch wheel for this machine has no CUDA build; name a LibTorch of your own with Torch_DIR"
  touch "$venv/complete"
}

# LibTorch's CMake files want a CUDA toolkit even where nothing is compiled for a GPU.
install_toolkit() {
  local nvcc library root
  if [ -f "$venv/toolkit-complete" ]; then
    say "CUDA toolkit: the one beside LibTorch"
    return
  fi
  nvcc=$(machine_nvcc)
  if [ -n "$nvcc" ]; then
    say "CUDA toolkit: $nvcc"
    return
  fi
  say "CUDA toolkit: this machine has no release $toolkit_release; installing its compiler beside LibTorch"
  pip_install "${toolkit_wheels[@]}"
  root=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
  ln -sfn lib "$root/lib64"
  for library in "$root"/lib/lib*.so.*; do
    ln -sfn "$(basename "$library")" "${library%%.so.*}.so"
  done
  touch "$venv/toolkit-complete"
}

cache=${PERFPRED_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/perfpred}
install_packages "${core_packages[@]}"
[ $with_slurm = no ] || install_packages "${slurm_packages[@]}"
[ $with_page = no ] || install_packages "${page_packages[@]}"
[ $with_packages = no ] || install_packages "${deb_packages[@]}"
if [ $with_lint = yes ]; then
  install_packages "${lint_packages[@]}"
  install_lizard
  install_python_checkers
fi
if [ $with_torch = yes ]; then
  install_packages "${torch_packages[@]}"
  torch=$(own_torch)
  if [ -n "$torch" ]; then
    say "LibTorch: your own, $torch"
  else
    venv=$cache/libtorch-$torch_version-cu130
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9 # another setup may be at work
    install_torch
    install_toolkit
  fi
fi
say "ready"
