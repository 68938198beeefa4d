#!/usr/bin/env python3
"""Measures the training step and the prediction of package resnet beside PyTorch;
bench/peers/resnet.sh calls it. Programs take turns in short windows. Times of one
thread are processor time, those of several wall time, with the share of the
processors that other programs took meanwhile beside them.

    resnet_compare.py --resnet resnet.test --kernel kernel.test PYTHON...

The tests are `go test -c` of resnet and internal/kernel; each PYTHON imports
torch. `resnet_compare.py worker` is the program that each PYTHON runs.
"""

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time

# What malloc needs to keep the memory of a step instead of returning it to the
# system after each.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
ALGORITHMS = {"Winograd": "auto", "direct": "direct"}


def worker():
    """Reads requests as lines of JSON, writes the times of each step likewise."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class BasicBlock(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)

        def forward(self, x):
            h = F.relu(self.bn1(self.conv1(x)), inplace=True)
            return F.relu(self.bn2(self.conv2(h)) + x, inplace=True)

    class Network(nn.Module):
        def __init__(self, grid=12, channels=64):
            super().__init__()
            self.grid = grid
            self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.layer1 = nn.Sequential(BasicBlock(channels), BasicBlock(channels))

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
            return F.adaptive_max_pool2d(self.layer1(x), self.grid).mean(1)

    torch.manual_seed(0)
    net = Network().to(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)

    def train(x, y):
        net.train()
        optimiser.zero_grad(set_to_none=True)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimiser.step()
        return loss.item()

    def predict(x, _):
        net.eval()
        with torch.inference_mode():
            return net(x)

    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request["threads"])
        x = torch.randn(request["batch"], 3, 96, 96).contiguous(memory_format=torch.channels_last)
        y = torch.randn(request["batch"], 12, 12)
        step = train if request["kind"] == "train" else predict
        step(x, y)
        step(x, y)
        cpu, wall, start = [], [], time.perf_counter()
        while not wall or time.perf_counter() - start < request["seconds"]:
            c, w = time.process_time(), time.perf_counter()
            step(x, y)
            cpu.append(1000 * (time.process_time() - c))
            wall.append(1000 * (time.perf_counter() - w))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak}), flush=True)


class Torch:
    def __init__(self, python):
        try:
            self.process = subprocess.Popen([python, __file__, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            text=True, env={**os.environ, **MALLOC})
        except OSError as e:
            sys.exit(f"{python}: {e.strerror}")
        self.name = "PyTorch " + self.answer()["torch"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a PyTorch process died")
        return json.loads(line)

    def measure(self, kind, batch, threads, seconds):
        request = {"kind": kind, "batch": batch, "threads": threads, "seconds": seconds}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()


class Ours:
    """A window is a run of the test's benchmark."""

    def __init__(self, test, name):
        self.test, self.name, self.memory = test, name, {}

    def measure(self, kind, batch, threads, seconds):
        pattern = "/".join(f"^{p}$" for p in ("BenchmarkStep", f"batch={batch}", f"conv={ALGORITHMS[self.name]}", f"threads={threads}", kind))
        out = bench(self.test, pattern, f"{seconds}s")
        if len(out) != 1:
            sys.exit(f"{pattern} printed {len(out)} results")
        m = out[0][1]
        self.memory[batch] = m["MiB/session"]
        # Best and median of a window stand for its steps.
        return {what: [m[what + "-best"], m[what + "-median"]] for what in ("cpu", "wall")}


def bench(test, pattern, duration):
    """Runs benchmarks of a test and returns (name, metrics) of each."""
    try:
        result = subprocess.run([os.path.abspath(test), "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", duration],
                                capture_output=True, text=True)
    except OSError as e:
        sys.exit(f"{test}: {e.strerror}")
    if result.returncode != 0:
        sys.exit(f"{test} -test.bench '{pattern}' failed:\n{result.stdout}{result.stderr}")
    found = []
    for line in result.stdout.splitlines():
        cells = line.split("\t")
        if len(cells) > 2 and line.startswith("Benchmark"):
            metrics = {unit: float(v) for v, unit in (c.split() for c in cells[2:])}
            found.append((re.sub(r"-\d+\s*$", "", cells[0]), metrics))
    return found


SPIN = """
import time
w, c = time.perf_counter(), time.process_time()
while time.perf_counter() - w < 0.4:
    pass
print((time.process_time() - c) / (time.perf_counter() - w))
"""


def lost(threads):
    """The share of so many processors that this program does not get, in per cent."""
    spins = [subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True) for _ in range(threads)]
    return 100 * (1 - sum(float(s.communicate()[0]) for s in spins) / threads)


def median(values):
    return sorted(values)[len(values) // 2]


def steps(args, programs):
    names = [p.name for p in programs]
    peers = names[len(ALGORITHMS):]
    ratios = [f"{ours} / {p.split('+')[0]}" for ours in ALGORITHMS for p in peers]
    print("Images per second, best step (median step); ratios of bests (of medians). Lost: share of the processors that\n"
          "a spinning program did not get, largest of all rounds.\n")
    print(table_row(["step", "batch", "threads", "lost"] + names + ratios))
    print(table_row(["---"] * (4 + len(names) + len(ratios))))
    for threads in args.threads:
        clock = "cpu" if threads == 1 else "wall"
        for kind in ("train", "predict"):
            for batch in args.batches:
                times = {n: {"best": [], "median": []} for n in names}
                share = 0
                for _ in range(args.rounds):
                    share = max(share, lost(threads))
                    for p in programs:
                        t = p.measure(kind, batch, threads, args.seconds)[clock]
                        times[p.name]["best"].append(min(t))
                        times[p.name]["median"].append(t[-1] if isinstance(p, Ours) else median(t))
                best = {n: batch * 1000 / min(t["best"]) for n, t in times.items()}
                mid = {n: batch * 1000 / median(t["median"]) for n, t in times.items()}
                row = [kind, batch, threads, f"{share:.0f} %"] + [f"{best[n]:.0f} ({mid[n]:.0f})" for n in names]
                row += [f"{best[o] / best[p]:.2f} ({mid[o] / mid[p]:.2f})" for o in ALGORITHMS for p in peers]
                print(table_row(row), flush=True)
    print("\nMemory of our session, training and prediction, MiB: " + "; ".join(
        f"{p.name} " + ", ".join(f"{mib:.0f} at batch {b}" for b, mib in p.memory.items()) for p in programs if isinstance(p, Ours)))


def kernels(args):
    print("\nOne thread, GFLOPS of processor time by the definition's operations, best of "
          f"{args.rounds} rounds, and share of the peak of fused multiply-adds measured with it.\n")
    print(table_row(["kernel", "GFLOPS", "of peak"]))
    print(table_row(["---"] * 3))
    best = {}
    for _ in range(args.rounds):
        for pattern in ("^BenchmarkConv$/./pass=(forward|weights)", "^BenchmarkConv$/3x3/pass=data", "^BenchmarkGemm512$/./impl=avx"):
            for name, m in bench(args.kernel, pattern, "200ms"):
                if name not in best or m["GFLOPS/cpu"] > best[name]["GFLOPS/cpu"]:
                    best[name] = m
    for name, m in best.items():
        if "%peak" in m:
            print(table_row([name.removeprefix("Benchmark"), f"{m['GFLOPS/cpu']:.0f}", f"{m['%peak']:.0f} %"]))


def positive(kind):
    """A parser of positive numbers."""
    def parse(text):
        try:
            v = kind(text)
        except ValueError:
            v = 0
        if not 0 < v < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r}, want a positive number")
        return v
    return parse


def numbers(text):
    return [positive(int)(v) for v in text.split(",")]


def processor():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*: (.*)", f.read())
    return found.group(1) if found else platform.machine()


def table_row(cells):
    return "| " + " | ".join(str(c) for c in cells) + " |"


def load():
    return ", ".join(f"{v:.2f}" for v in os.getloadavg())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resnet", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--rounds", type=positive(int), default=4)
    parser.add_argument("--seconds", type=positive(float), default=1, help="length of a window")
    parser.add_argument("--batches", type=numbers, default=[1, 16, 64, 256])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--steps-only", action="store_true", help="leave the kernels out")
    parser.add_argument("python", nargs="*")
    args = parser.parse_args()
    programs = [Ours(args.resnet, name) for name in ALGORITHMS] + [Torch(p) for p in args.python]
    print(f"{time.strftime('%Y-%m-%d %H:%M')}; {os.cpu_count()} x {processor()}, {platform.platform()}; load average {load()};\n"
          f"{', '.join(p.name for p in programs)}; windows of {args.seconds:g} s, {args.rounds} rounds.\n", flush=True)
    steps(args, programs)
    if not args.steps_only:
        kernels(args)
    print(f"\nLoad average at the end {load()}.")


if __name__ == "__main__":
    try:
        worker() if sys.argv[1:] == ["worker"] else main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Nobody reads on; nothing may be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
