#!/bin/sh
# Measures the convolutional network beside PyTorch on this machine's processor.
# Usage: bench/peers/resnet.sh [-newest] [FOLDER] [-- ARGUMENTS of resnet_compare.py]
# Takes part: every PyTorch that the system's python3 or FOLDER/torch (default
# /tmp/fedrspo-peers/torch) has. -newest installs PyPI's newest there first: some
# gigabytes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
newest= to=/tmp/fedrspo-peers
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	case "$1" in
	-newest) newest=1 ;;
	-*) sed -n 's/^# //p' "$0" >&2; exit 2 ;;
	*) to=$1 ;;
	esac
	shift
done
[ $# -eq 0 ] || shift
mkdir -p "$to"
# An installation that was interrupted is taken up again.
if [ -n "$newest" ] && ! "$to/torch/bin/python" -c 'import torch, numpy' 2>/dev/null; then
	"${PYTHON:-python3}" -m venv "$to/torch"
	"$to/torch/bin/pip" install -q torch numpy
fi
cd "$here/../.."
CGO_ENABLED=0 go test -c -o "$to/resnet.test" ./resnet
CGO_ENABLED=0 go test -c -o "$to/kernel.test" ./internal/kernel
echo "$(go version), kernels $(git describe --always --dirty 2>/dev/null || echo unknown), FEDRSPO_KERNEL=${FEDRSPO_KERNEL:-}"
pythons=
for p in /usr/bin/python3 "$to/torch/bin/python"; do
	if [ -x "$p" ] && "$p" -c 'import torch' 2>/dev/null; then
		pythons="$pythons $p"
	fi
done
if [ -z "$pythons" ]; then
	echo "no PyTorch found: install Debian's python3-torch, or give -newest" >&2
fi
# The variables pin OpenBLAS, which PyTorch may use, to another processor's code.
# shellcheck disable=SC2086
exec env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python3 "$here/resnet_compare.py" \
	--resnet "$to/resnet.test" --kernel "$to/kernel.test" "$@" $pythons
