#!/usr/bin/env bash
# The first run on a machine with a GPU, which need not have Go.
#
#   scripts/gpu_check.sh build DIR     here: programs and tests into DIR
#   DIR/gpu_check.sh run               there: all checks, about ten minutes,
#                                      stopping at the first failure
#   scripts/gpu_check.sh rehearse      here: both, on the emulated device
#
# run writes what it prints to DIR/gpu_check.log as well.
set -euo pipefail

build() {
  cd "$(dirname "$0")/.."
  mkdir -p "$1"
  for p in internal/gpucheck cmd/train; do
    CGO_ENABLED=0 go build -o "$1/" "./$p"
  done
  for p in internal/cuda/driver internal/cuda internal/cuda/kernels nn; do
    CGO_ENABLED=0 go test -c -o "$1/${p//\//_}.test" "./$p"
  done
  cp scripts/gpu_check.sh bench/peers/resnet_cuda.py "$1/"
}

step() {
  echo "== $(date -u +%H:%M:%S) $*"
  "$@"
}

# libraries adds the folders where Python packages put cuBLAS.
libraries() {
  local dirs
  dirs=$(python3 - 2>/dev/null <<'PY' || true
import glob, site, sys
roots = set(site.getsitepackages() + [site.getusersitepackages()] + sys.path)
print(":".join(sorted({d for r in roots if r for d in glob.glob(r + "/nvidia/*/lib")})))
PY
  )
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dirs"
  echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
}

machine() {
  uname -srm
  getconf GNU_LIBC_VERSION || true
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader
  fi
  ldconfig -p 2>/dev/null | grep -E 'libcuda\.so|libcublas\.so|libcudnn\.so' || true
}

checks() {
  step machine
  libraries
  step ./train -devices
  step ./internal_cuda_driver.test -test.v
  step ./internal_cuda.test -test.v
  step ./gpucheck "$@"
  step ./internal_cuda_kernels.test -test.v
  step ./nn.test -test.v -test.run Device
  step ./internal_cuda_driver.test -test.run '^$' -test.bench Launch
  step ./train -task knapsack -loss mse -device cuda -clients 2 -train-samples 20 -rounds 2 -personal-rounds 1 -out none
  if python3 -c 'import torch' 2>/dev/null; then
    step python3 resnet_cuda.py
  else
    echo "no PyTorch: nothing to compare the speed with"
  fi
  echo "all checks passed"
}

case "${1:-}" in
build)
  build "$(mkdir -p "${2:?usage: gpu_check.sh build DIR}" && cd "$2" && pwd)"
  ;;
run)
  cd "$(dirname "$0")"
  export FEDRSPO_TEST_CUDA=1
  checks 2>&1 | tee gpu_check.log
  ;;
rehearse)
  cd "$(dirname "$0")/.."
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  build "$dir"
  FEDRSPO_LIBCUDA=$(CGO_ENABLED=0 go run ./internal/cuda/cudatest/build)
  export FEDRSPO_LIBCUDA FEDRSPO_LIBCUBLAS=$FEDRSPO_LIBCUDA
  cd "$dir"
  checks -grid 2 -batch 2 -steps 3 -timed 2 -launches 100 -product 64
  ;;
*)
  echo "usage: gpu_check.sh build DIR | run | rehearse" >&2
  exit 2
  ;;
esac
