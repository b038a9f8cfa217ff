#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that .ci/run leaves out because they take long or need more than it installs. Run those that a change touches.
#
#   scripts/full_check.sh NAME...
#
#   compilers     no compiler warns: GCC at -O2 and -O3 of everything, Clang of the core (.ci/run compiles each
#                 changed source on its own, with clang-tidy)
#   sanitizers    all tests of the core under the address and undefined-behaviour sanitizers, threads under another
#   slow          the tests that scripts/test.sh leaves out, as they take minutes each (PERFPRED_REFERENCE_DIR)
#   consumers     projects that install, find or add this one, each built from nothing
#   benchmarks    builds all benchmarks and runs each for a moment
#   tidy          clang-tidy on every source of the core, its programs and tests
#   captures      perfpred.capture of others' networks against what PyTorch counts (torchvision, timm,
#                 transformers, diffusers; for PYTHON, default python3), and the loops of scripts/loops (their
#                 requirements.txt); writes the tables to build/full_check
#   measure       perfpred.measure in the training loops of Lightning and transformers (of PYTHON)
#   python        builds the wheel of python/ with the libraries it needs, installs it in a fresh environment without PyTorch,
#                 tests it there, and its types
#   packages      builds the Debian packages of this release of Debian; lintian; installs, uses and purges each in a Debian of
#                 its own (scripts/package_check.sh: as root, 2 GB, the mirror of apt)
#   notebooks     executes examples/notebooks in a fresh environment (with the PyTorch of PYTHON); an error of a cell fails
#   transcripts   runs the commands of the pages that show what programs print (with the PyTorch of PYTHON) and compares the output
#   site          the site of the pages (mkdocs.yml) without a warning, in build/site
#   service       perfpred-serve under load: silent clients, models that are replaced, memory; systemd's units, nginx
#   slurm         a throw-away cluster of Slurm on this machine (as root): a sweep of 40 tasks of which a node is lost,
#                 forecasts and limits of jobs, a report of its history; needs LibTorch
#   page          its page in a headless Chromium (playwright and axe of PyPI in a fresh environment); pictures of its
#                 states in build/full_check/page/pictures
#   gpu           scripts/gpu_check.sh, on a machine with a GPU, into build/full_check/gpu
#   accuracy      the tables of op models and of regressors, from PERFPRED_REFERENCE_DIR
#   planner       the optima of tests/data/planner_figures.csv again (OR-Tools of PyPI in a fresh environment; half an
#                 hour): what is proved must be the same
#   answers       the 1,000 questions of scripts/compare_answers.py to OLD_BIN (bin of an earlier build) and this build
#
# Each name stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '3,34s/^# \{0,1\}//p' "$0"; }

out=build/full_check
python=${PYTHON:-python3}

release() {
  scripts/setup.sh
  cmake --preset release
  cmake --build --preset release
}

# The wheel of python/, built once for all names.
wheel=
build_wheel() {
  [ -z "$wheel" ] || return 0
  scripts/setup.sh --core
  rm -rf $out/wheel
  PYTHON=$python scripts/build_wheel.sh $out/wheel
  wheel=$(echo $out/wheel/perfpred-*-py3-none-manylinux_*.whl)
}

# Fails if the library or the program in an environment takes libraries of the system but those that manylinux wheels may,
# if THIRD_PARTY.md has no notice of one that came along, or if manual pages or completion are missing.
check_bundled() {
  local library
  for library in "$1"/lib/python*/site-packages/perfpred.libs/lib*.so*; do
    library=$(basename "$library" | sed -E 's/^lib([a-z]+).*/\1/')
    grep -qiE "^## (lib)?\{?$library\}?$" THIRD_PARTY.md || { echo "THIRD_PARTY.md has no notice of $library" >&2 && return 1; }
  done
  grep -q -- quantile "$1/share/man/man1/perfpred-predict.1"
  grep -q -- --quantile "$1/share/bash-completion/completions/perfpred"
  "$1/bin/perfpred" predict --network resnet18 --batch-size 8 --device T4 >/dev/null
  ! ldd "$1"/lib/python*/site-packages/perfpred/libperfpred.so "$1"/lib/python*/site-packages/perfpred/bin/perfpred |
    grep -v ':$' | grep -vE 'perfpred\.libs|linux-vdso|ld-linux|lib(c|m|gcc_s|stdc\+\+|pthread|dl)\.so'
}

# A fresh environment in the folder $1, with the wheel and the packages that follow.
wheel_in() {
  build_wheel
  rm -rf "$1"
  "$python" -m venv "$1"
  "$1/bin/pip" -q install "${@:2}" "$wheel"
}

# Puts the PyTorch of PYTHON into the environment in the folder $1.
torch_in() {
  "$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    >"$(echo "$1"/lib/python*/site-packages)/torch.pth"
}

# Compiles everything into the folder $1, as the presets do; a warning is an error.
without_warnings() {
  cmake --preset release -B "$1" -DPERFPRED_WERROR=ON "${@:2}"
  cmake --build "$1"
}

check() {
  case $1 in
    compilers)
      scripts/setup.sh --lint
      without_warnings build/gcc-O2
      without_warnings build/gcc-O3 "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG"
      without_warnings build/clang -DCMAKE_CXX_COMPILER=clang++ -DPERFPRED_WITH_TORCH=OFF
      ;;
    sanitizers)
      env -u PERFPRED_REFERENCE_DIR scripts/test.sh --preset asan --label core
      env -u PERFPRED_REFERENCE_DIR scripts/test.sh --preset tsan --label threads
      ;;
    slow)
      release
      ctest --preset release -L slow
      ;;
    consumers)
      release
      ctest --preset release -R '^cmake_'
      ;;
    benchmarks)
      release
      for benchmark in build/release/bin/*_bench; do "$benchmark" --benchmark_min_time=0.01; done
      ;;
    tidy)
      scripts/setup.sh --core --lint
      scripts/lint.sh
      ;;
    captures)
      release
      "$python" scripts/capture_zoo.py --inspect build/release/bin/perfpred-inspect --out $out/capture_zoo.csv
      "$python" scripts/capture_zoo.py --loops --inspect build/release/bin/perfpred-inspect --out $out/capture_loops.csv
      "$python" scripts/capture_memory.py --inspect build/release/bin/perfpred-inspect --out $out/capture_memory.csv
      ;;
    measure)
      "$python" -c 'import accelerate, lightning, transformers'
      cmake --preset core
      cmake --build --preset core --target perfpred_c
      (cd python/tests && PERFPRED_LIBRARY=$PWD/../../build/core/lib/libperfpred.so PYTHONPATH=.. \
        "$python" -W ignore -m unittest -v test_measure test_measure_callbacks)
      ;;
    python)
      wheel_in $out/python mypy numpy pandas
      check_bundled $out/python
      (cd python/tests && PYTHONPATH='' ../../$out/python/bin/python -m unittest -v test_predict test_declarations)
      (cd python && ../$out/python/bin/mypy)
      ;;
    packages)
      scripts/setup.sh --core --packages
      rm -rf build/packages/debian
      cmake --workflow --preset packages
      scripts/package_check.sh build/packages/debian
      ;;
    notebooks)
      wheel_in $out/notebooks nbclient ipykernel matplotlib pandas
      torch_in $out/notebooks
      PYTHONPATH='' $out/notebooks/bin/jupyter-execute examples/notebooks/*.ipynb
      ;;
    transcripts)
      wheel_in $out/transcripts numpy
      torch_in $out/transcripts
      cmake --preset core
      cmake --build --preset core
      PATH=$PWD/build/core/bin:$PWD/$out/transcripts/bin:$PATH PYTHONPATH='' PYTHONWARNINGS=ignore \
        scripts/transcripts.py README.md docs/*.md docs/guides/*.md
      ;;
    site)
      "$python" -m venv $out/site
      $out/site/bin/pip -q install mkdocs-material==9.8.2
      $out/site/bin/mkdocs build --strict
      ;;
    service)
      scripts/setup.sh --core --page
      cmake --preset core
      cmake --build --preset core --target perfpred-serve perfpred-observe perfpred_c
      "$python" scripts/service_check.py --bin build/core/bin --library build/core/lib/libperfpred.so
      ;;
    slurm)
      scripts/setup.sh --slurm
      cmake --preset release
      cmake --build --preset release --target perfpred-collect perfpred-aggregate perfpred-serve perfpred-slurm-report
      "$python" scripts/slurm_check.py --bin build/release/bin
      ;;
    page)
      scripts/setup.sh --core --page
      cmake --preset core
      cmake --build --preset core --target perfpred-serve perfpred-predict
      rm -rf $out/page
      "$python" -m venv $out/page
      $out/page/bin/pip -q install axe-playwright-python==0.1.8 openapi-spec-validator==0.9.0 playwright==1.65.2
      $out/page/bin/python scripts/page_check.py --bin build/core/bin --out $out/page/pictures
      ;;
    gpu) scripts/gpu_check.sh $out/gpu ;;
    accuracy)
      : "${PERFPRED_REFERENCE_DIR:?is not set}"
      release
      scripts/op_accuracy_table.py build/release/bin
      scripts/accuracy_table.sh build/release/bin
      ;;
    planner)
      rm -rf $out/planner
      "$python" -m venv $out/planner
      $out/planner/bin/pip -q install numpy ortools
      $out/planner/bin/python scripts/planner_figures.py --out $out/planner_figures.csv --same tests/data/planner_figures.csv
      ;;
    answers)
      : "${OLD_BIN:?is not set}"
      release
      scripts/compare_answers.py "$OLD_BIN" build/release/bin
      ;;
    *)
      echo "full_check: unknown name $1 (--help lists them)" >&2
      exit 2
      ;;
  esac
}

case ${1:-} in
  '' | -h | --help)
    usage
    [ $# -gt 0 ] || exit 2
    exit 0
    ;;
esac
mkdir -p $out
for name in "$@"; do check "$name"; done
