#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exports networks of torchvision and transformers as TorchScript files with PyTorch's own FLOP counts, and some by
# torch.export, to test tracing against: in a Python environment of its own on top of the LibTorch that scripts/setup.sh
# installed (2 GB in all, some minutes; nothing is fetched but the packages).
#
#   scripts/torchscript_networks.sh
#   PERFPRED_TORCHSCRIPT_DIR=FOLDER ctest --preset dev -R 'torch_(trace|exported)_test'      with the folder it prints
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${PERFPRED_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/perfpred}
folder=$cache/torchscript-networks
venv=$cache/torchscript-python
packages=(
  torchvision==0.26.0 transformers==4.57.6 huggingface-hub==0.36.2 tokenizers==0.22.2 safetensors==0.8.0
  pillow numpy regex pyyaml requests certifi idna urllib3 charset-normalizer tqdm packaging
)

torch=$(compgen -G "$cache/libtorch-*/complete" | head -n 1) || {
  echo "torchscript_networks: no LibTorch in $cache: scripts/setup.sh installs it" >&2
  exit 1
}
torch=$(dirname "$torch")
if [ ! -f "$venv/complete" ]; then
  rm -rf "$venv"
  "$torch/bin/python" -m venv "$venv"
  site=$(echo "$venv"/lib/python3*/site-packages)
  echo "$torch"/lib/python3*/site-packages >"$site/libtorch.pth"
  "$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps "${packages[@]}"
  touch "$venv/complete"
fi
"$venv/bin/python" tests/torch/export_torchscript.py "$folder" >&2
"$venv/bin/python" tests/torch/export_pt2.py "$folder" --torchvision >&2
echo "$folder"
