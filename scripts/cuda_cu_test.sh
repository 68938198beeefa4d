#!/usr/bin/env bash
# Builds the driver binding over gorgonia.org/cu (build tag cu, cgo) and runs the
# conformance tests of internal/cuda on it: on the emulated device, or on a real
# one with FEDRSPO_TEST_CUDA=1.
#
# The headers are those of $CUDA_INCLUDE (a folder with cuda.h of CUDA 11 or 12;
# gorgonia.org/cu v0.9.6 does not compile with 13), or of the Python package
# nvidia-cuda-runtime-cu11, which is installed below .ci/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.ci/tools/cuda
if [ -z "${CUDA_INCLUDE:-}" ]; then
  CUDA_INCLUDE=$tools/nvidia/cuda_runtime/include
  [ -e "$CUDA_INCLUDE/cuda.h" ] || python3 -m pip install -q --target "$tools" nvidia-cuda-runtime-cu11==11.8.89
fi
export CGO_ENABLED=1 CGO_CFLAGS="-I$CUDA_INCLUDE"
if [ "${FEDRSPO_TEST_CUDA:-}" != 1 ]; then
  # Linked in place of libcuda. The package cu calls functions that it has not.
  mkdir -p "$tools/emulated"
  cp "$(CGO_ENABLED=0 go run ./internal/cuda/cudatest/build)" "$tools/emulated/libcuda.so.1"
  ln -sf libcuda.so.1 "$tools/emulated/libcuda.so"
  export CGO_LDFLAGS="-L$tools/emulated -Wl,--unresolved-symbols=ignore-all -Wl,-z,lazy"
  export FEDRSPO_TEST_CUDA="$tools/emulated/libcuda.so.1"
  export LD_LIBRARY_PATH="$tools/emulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
go vet -tags cu ./internal/cuda/...
go test -tags cu -count=1 "$@" ./internal/cuda ./internal/cuda/driver ./internal/cuda/kernels
