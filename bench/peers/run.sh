#!/bin/sh
# Compares the oracles with other programs. Usage: bench/peers/run.sh [FOLDER]
# FOLDER (default /tmp/fedrspo-peers) keeps the virtual environment, the instances
# and peers.json, which oraclebench -goals -peers reads.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-/tmp/fedrspo-peers}
mkdir -p "$to"
if [ ! -x "$to/venv/bin/python" ]; then
	"${PYTHON:-python3}" -m venv "$to/venv"
	"$to/venv/bin/pip" install -q -r "$here/requirements.txt"
fi
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$to/oraclebench" ./cmd/oraclebench)
"$to/oraclebench" -export "$to/instances.npz" -lambda 1,calibrated
# Where a machine's profile pins OpenBLAS to another processor's kernels, both
# variables go together.
env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$to/venv/bin/python" "$here/compare.py" "$to/instances.npz" --json "$to/peers.json"
