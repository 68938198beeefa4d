#!/usr/bin/env bash
# Compiles the CUDA kernels (internal/cuda/kernels) to PTX with NVRTC 11.8, and
# has ptxas compile that for three devices where ptxas is to be had.
#
#   scripts/cuda_kernels.sh          writes the PTX
#   scripts/cuda_kernels.sh check    fails if the PTX in the repository differs
#
# NVRTC is the library named by $NVRTC, or that of the Python package
# nvidia-cuda-nvrtc-cu11, which is installed below .ci/tools. It needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=.ci/tools/cuda
if [ -z "${NVRTC:-}" ]; then
  NVRTC=$PWD/$tools/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2
  if [ ! -e "$NVRTC" ] || [ ! -e "$tools/nvidia/cuda_nvcc/bin/ptxas" ]; then
    if ! python3 -m pip install -q --target "$tools" nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvcc-cu11==11.8.89; then
      echo "no NVRTC: set NVRTC to libnvrtc.so.11.2 of CUDA 11.8, or install pip"
      if [ "${1:-}" = check ]; then exit 0; fi
      exit 1
    fi
  fi
fi
LD_LIBRARY_PATH="$(dirname "$NVRTC")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
CGO_ENABLED=0 go run ./internal/cuda/kernels/gen -nvrtc "$NVRTC" -out internal/cuda/kernels
ptxas=$(command -v ptxas || echo "$tools/nvidia/cuda_nvcc/bin/ptxas")
if [ -x "$ptxas" ]; then
  for device in sm_75 sm_80 sm_90; do
    for type in f32 f64; do
      echo "ptxas -arch=$device kernels_$type.ptx"
      "$ptxas" -arch="$device" -o /dev/null "internal/cuda/kernels/kernels_$type.ptx"
    done
  done
else
  echo "no ptxas: the PTX was not compiled further"
fi
if [ "${1:-}" = check ]; then
  git diff --exit-code --stat -- 'internal/cuda/kernels/*.ptx' || { echo "the PTX is not that of the sources: run make cuda-kernels"; exit 1; }
fi
