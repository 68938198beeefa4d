"""Solve instances that oraclebench -export wrote with other programs.

Usage: compare.py INSTANCES.npz [--json FILE] [--seconds S] [--only TEXT]

Prints a table of times per solve beside those of this module, which are in the
file, and of differences from its answers. See README.md for what is timed.
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import sys
import time
from importlib import metadata

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
import scipy.sparse as sp

INF = 1e30


class Case:
    """One case of the file."""

    def __init__(self, file, meta):
        self.name, self.oracle = meta["name"], meta["oracle"]
        self.results = {r["operation"]: r for r in meta["results"]}
        self.height, self.width = meta.get("height"), meta.get("width")
        prefix = self.name + "."
        for key in file.files:
            if key.startswith(prefix):
                setattr(self, key[len(prefix):], file[key])
        self.n, self.d = self.cost.shape
        self.judged = self.oracle == "path" and meta["predictions"] == "good"
        if self.oracle in ("path", "dijkstra"):
            self.arcs()

    def arcs(self):
        """The directed arcs between the eight neighbours of the grid."""
        h, w = self.height, self.width
        pairs = [(r * w + c, (r + i) * w + c + j) for r in range(h) for c in range(w) for i in (-1, 0, 1) for j in (-1, 0, 1)
                 if (i or j) and 0 <= r + i < h and 0 <= c + j < w]
        self.tail, self.head = np.array(pairs).T

    def constraints(self, k):
        """Set k as l <= A z <= u, x_l <= z <= x_u; the first d entries of z are w."""
        d = self.d
        if self.oracle == "knapsack":
            return sp.csc_matrix(self.a[k][None, :]), np.array([-INF]), np.array([self.b[k]]), np.zeros(d), np.ones(d)
        if self.oracle == "topk":
            return sp.csc_matrix(np.ones((1, d))), np.array([self.k[k]]), np.array([self.k[k]]), np.zeros(d), np.ones(d)
        if self.oracle == "polyhedron":
            return sp.csc_matrix(self.A[k]), np.full(len(self.b[k]), -INF), self.b[k], np.zeros(d), np.ones(d)
        # Path: visits and flows; visits equal the flow in and the flow out.
        s, t = self.source[k], self.sink[k]
        use = (self.head != s) & (self.tail != t)
        tail, head = self.tail[use], self.head[use]
        m, e = len(tail), np.arange(len(tail))
        flow_in = sp.csr_matrix((np.ones(m), (head, e)), (d, m))
        flow_out = sp.csr_matrix((np.ones(m), (tail, e)), (d, m))
        eye = sp.identity(d, format="csr")
        rows_in, rows_out = np.arange(d) != s, np.arange(d) != t
        A = sp.vstack([sp.hstack([eye[rows_in], -flow_in[rows_in]]), sp.hstack([eye[rows_out], -flow_out[rows_out]])]).tocsc()
        x_l, x_u = np.zeros(d + m), np.concatenate([np.ones(d), np.full(m, 1.0)])
        x_l[[s, t]] = 1
        zero = np.zeros(A.shape[0])
        return A, zero, zero, x_l, x_u


# Every projection solver is a class made from a set, whose solve(q) returns w, the
# solver's own time in seconds (None if it tells none) and whether it claims to have
# met its tolerance. The problem is min |w|^2/2 + q.w, with q = theta/lambda: only q
# changes between solves.


class QP:
    def __init__(self, case, k, eps):
        self.d, self.eps = case.d, eps
        self.A, self.l, self.u, self.x_l, self.x_u = case.constraints(k)
        self.size = self.A.shape[1]
        self.P = sp.diags(np.concatenate([np.ones(self.d), np.zeros(self.size - self.d)])).tocsc()
        self.equal = self.l == self.u
        self.setup()

    def pad(self, q):
        return np.concatenate([q, np.zeros(self.size - self.d)])

    def bounds_as_rows(self):
        A = sp.vstack([self.A, sp.identity(self.size)]).tocsc()
        return A, np.concatenate([self.l, self.x_l]), np.concatenate([self.u, self.x_u])


class OSQP(QP):
    def setup(self):
        import osqp
        A, l, u = self.bounds_as_rows()
        self.solver = osqp.OSQP()
        self.solver.setup(self.P, np.zeros(self.size), A, l, u, verbose=False, eps_abs=self.eps, eps_rel=self.eps, max_iter=20000,
                          warm_starting=False, polishing=False)

    def solve(self, q):
        self.solver.update(q=self.pad(q))
        r = self.solver.solve()
        return r.x[:self.d], r.info.solve_time, r.info.status_val == 1


class PIQP(QP):
    def setup(self):
        import piqp
        self.solver = piqp.SparseSolver()
        s = self.solver.settings
        s.eps_abs = s.eps_rel = self.eps
        s.check_duality_gap, s.eps_duality_gap_abs, s.eps_duality_gap_rel = True, self.eps, self.eps
        s.compute_timings = True
        eq, free = self.equal, ~self.equal
        self.solver.setup(self.P, np.zeros(self.size), self.A[eq], self.l[eq], self.A[free], self.l[free], self.u[free], self.x_l, self.x_u)

    def solve(self, q):
        self.solver.update(c=self.pad(q))
        status = self.solver.solve()
        info = self.solver.result.info
        return np.array(self.solver.result.x[:self.d]), info.solve_time, status.name == "PIQP_SOLVED"


class Clarabel(QP):
    def setup(self):
        import clarabel
        eq, free = self.equal, ~self.equal
        eye = sp.identity(self.size, format="csc")
        fixed = self.x_l == self.x_u
        A = sp.vstack([self.A[eq], eye[fixed], self.A[free], eye[~fixed], -eye[~fixed]]).tocsc()
        b = np.concatenate([self.l[eq], self.x_l[fixed], self.u[free], self.x_u[~fixed], -self.x_l[~fixed]])
        zero = int(eq.sum() + fixed.sum())
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.presolve_enable, settings.max_threads = False, False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.eps
        self.solver = clarabel.DefaultSolver(self.P, np.zeros(self.size), A, b, [clarabel.ZeroConeT(zero), clarabel.NonnegativeConeT(len(b) - zero)], settings)

    def solve(self, q):
        self.solver.update(q=self.pad(q))
        r = self.solver.solve()
        return np.array(r.x[:self.d]), r.solve_time, str(r.status) == "Solved"


class ProxQP(QP):
    """The dense backend but for path polytopes."""

    def setup(self):
        from proxsuite import proxqp
        dense = self.size == self.d
        # w >= 0 implies rows above -1; the solver's infinity would spoil its scaling.
        A, l, u = self.A, np.maximum(self.l, -1.0), self.u
        if not dense:
            A, l, u = self.bounds_as_rows()
        eq = l == u
        if dense:
            self.solver = proxqp.dense.QP(self.size, int(eq.sum()), int((~eq).sum()), True)
        else:
            self.solver = proxqp.sparse.QP(self.size, int(eq.sum()), int((~eq).sum()))
        s = self.solver.settings
        s.eps_abs, s.eps_rel, s.compute_timings = self.eps, 0.0, True
        s.initial_guess = proxqp.InitialGuess.NO_INITIAL_GUESS
        P, A, g = self.P, A.tocsr(), np.zeros(self.size)
        if dense:
            A = A.toarray()
            self.solver.init(P.toarray(), g, A[eq], l[eq], A[~eq], l[~eq], u[~eq], self.x_l, self.x_u)
        else:
            self.solver.init(P, g, A[eq].tocsc(), l[eq], A[~eq].tocsc(), l[~eq], u[~eq])

    def solve(self, q):
        self.solver.update(g=self.pad(q))
        self.solver.solve()
        info = self.solver.results.info
        return np.array(self.solver.results.x[:self.d]), info.solve_time * 1e-6, info.status.name == "PROXQP_SOLVED"


class DAQP(QP):
    """DAQP is dense; its Python interface keeps no factorisation, but one of the
    identity costs little. Flows have no curvature: on a path polytope its
    proximal iteration is on."""

    def setup(self):
        import daqp
        self.daqp = daqp
        self.H = np.ascontiguousarray(self.P.toarray())
        self.dense = np.ascontiguousarray(self.A.toarray())
        self.upper, self.lower = np.concatenate([self.x_u, self.u]), np.concatenate([self.x_l, self.l])
        self.sense = np.where(self.upper == self.lower, 5, 0).astype(np.int32)
        self.prox = 1e-4 if self.size > self.d else 0.0

    def solve(self, q):
        x, _, flag, info = self.daqp.solve(self.H, self.pad(q), self.dense, self.upper, self.lower, self.sense,
                                        primal_tol=self.eps, dual_tol=self.eps, eps_prox=self.prox)
        return x[:self.d], info["solve_time"], flag > 0


# The linear problem: solve(c) returns the same; w is 0/1 visits for paths.


class NetworkX:
    def __init__(self, case, k, eps):
        import networkx
        self.nx, self.case = networkx, case
        self.source, self.sink = int(case.source[k]), int(case.sink[k])
        self.graph = networkx.DiGraph()
        self.graph.add_edges_from(zip(case.tail.tolist(), case.head.tolist()))

    def solve(self, c):
        costs = c.tolist()
        path = self.nx.dijkstra_path(self.graph, self.source, self.sink, weight=lambda u, v, _: costs[v])
        w = np.zeros(len(c))
        w[path] = 1
        return w, None, True


class CSGraph:
    def __init__(self, case, k, eps):
        from scipy.sparse.csgraph import dijkstra
        self.dijkstra, self.source, self.sink = dijkstra, case.source[k], case.sink[k]
        order = np.lexsort((case.head, case.tail))
        self.head = case.head[order]
        self.graph = sp.csr_matrix((np.ones(len(order)), self.head, np.searchsorted(case.tail[order], np.arange(case.d + 1))), (case.d, case.d))

    def solve(self, c):
        self.graph.data = c[self.head]
        _, before = self.dijkstra(self.graph, indices=self.source, return_predecessors=True)
        w = np.zeros(len(c))
        v = self.sink
        while v != self.source:
            w[v] = 1
            v = before[v]
        w[v] = 1
        return w, None, True


class HiGHS:
    def __init__(self, case, k, eps):
        from scipy.optimize import linprog
        self.linprog, self.d = linprog, case.d
        A, l, u, x_l, x_u = case.constraints(k)
        eq = l == u
        self.size = A.shape[1]
        self.args = {"bounds": np.stack([x_l, x_u], 1), "method": "highs"}
        if eq.any():
            self.args |= {"A_eq": A[eq], "b_eq": l[eq]}
        if (~eq).any():
            self.args |= {"A_ub": A[~eq], "b_ub": u[~eq]}

    def solve(self, c):
        r = self.linprog(np.concatenate([c, np.zeros(self.size - self.d)]), **self.args)
        return r.x[:self.d], None, r.status == 0


class PyEPO:
    """An optModel of PyEPO's OR-Tools backend over the same constraints, solved by GLOP."""

    def __init__(self, case, k, eps):
        from ortools.linear_solver import pywraplp
        from pyepo.model.ort import optOrtModel

        class Model(optOrtModel):
            def _getModel(self):
                model = pywraplp.Solver.CreateSolver("GLOP")
                A, l, u, x_l, x_u = case.constraints(k)
                z = [model.NumVar(lo, hi, "") for lo, hi in zip(x_l.tolist(), x_u.tolist())]
                for row, lo, hi in zip(A.tocsr(), l.tolist(), u.tolist()):
                    constraint = model.Constraint(lo if lo > -INF else -model.infinity(), hi)
                    for i, a in zip(row.indices.tolist(), row.data.tolist()):
                        constraint.SetCoefficient(z[i], a)
                return model, {i: z[i] for i in range(case.d)}

        self.model = Model()

    def solve(self, c):
        self.model.setObj(c)
        w, _ = self.model.solve()
        return np.array(w), None, True


# name, class, tolerances, package
PROJECT = [
    ("OSQP", OSQP, (1e-5, 1e-7, 1e-9), "osqp"), ("PIQP", PIQP, (1e-8, 1e-10), "piqp"), ("Clarabel", Clarabel, (1e-8, 1e-10), "clarabel"),
    ("ProxQP", ProxQP, (1e-6, 1e-9), "proxsuite"), ("DAQP", DAQP, (1e-9,), "daqp"),
]
LINEAR = [
    ("NetworkX", NetworkX, (0,), "networkx"), ("SciPy csgraph", CSGraph, (0,), "scipy"), ("SciPy HiGHS", HiGHS, (0,), "scipy"),
    ("PyEPO, OR-Tools", PyEPO, (0,), "pyepo"),  # needs ortools too
]
GRIDS_ONLY = ("NetworkX", "SciPy csgraph")
JUDGED = ("OSQP", "PIQP", "Clarabel")
# EQUAL is the accuracy of this module's projections onto path polytopes.
EQUAL = 1e-5


def finite(x):
    """Return x as a difference: INF for a NaN, which max would pass over, and for infinities, which are no JSON."""
    return float(x) if np.isfinite(x) else INF


def measure(case, operation, name, make, eps, seconds):
    """Time solves of the case until the time is over, setting up every set before."""
    costs = case.cost if operation == "linear" else case.theta / case.lambda_[:, None]
    answers = case.linear if operation == "linear" else case.project
    solvers, call, own, cold = {}, [], [], []
    worst = 0.0
    start = time.perf_counter()
    done = unsolved = 0
    for i in range(case.n):
        k = int(case.set[i])
        begin = time.thread_time_ns()
        fresh = k not in solvers
        if fresh:
            solvers[k] = make(case, k, eps)
        ready = time.thread_time_ns()
        w, reported, solved = solvers[k].solve(costs[i])
        end = time.thread_time_ns()
        if fresh:
            # With the set-up; the first solve may also do work of its own.
            cold.append(end - begin)
            begin = time.thread_time_ns()
            w, reported, solved = solvers[k].solve(costs[i])
            end = time.thread_time_ns()
            ready = begin
        call.append(end - ready)
        if reported is not None:
            own.append(reported * 1e9)
        if operation == "linear":
            # Ties allow other minimisers.
            exact = costs[i] @ answers[i]
            worst = max(worst, finite(abs(costs[i] @ w - exact) / max(1, abs(exact))))
        else:
            worst = max(worst, finite(np.max(np.abs(w - answers[i]))))
        done += 1
        unsolved += not solved
        if time.perf_counter() - start > seconds:
            break
    result = case.results[operation]
    times = [statistics.fmean(call)] + ([statistics.fmean(sorted(own)[: max(1, len(own) * 9 // 10)])] if own else [])
    ns = min(times)
    return {
        "case": case.name, "operation": operation, "solver": name, "tolerance": eps, "solves": done,
        "call_us": times[0] / 1e3, "own_us": times[1] / 1e3 if own else None, "setup_us": statistics.fmean(cold) / 1e3,
        "ours_us": result["ns_per_solve"] / 1e3, "ratio": ns / result["ns_per_solve"], "difference": worst, "unsolved": unsolved, "judged": False,
    }


def judge(rows, cases):
    """Mark, of every judged solver and case, the fastest row of equal accuracy."""
    for case in cases:
        for name in JUDGED if case.judged else ():
            same = [r for r in rows if r["case"] == case.name and r["solver"] == name and r["operation"] == "project" and r["difference"] <= EQUAL and not r["unsolved"]]
            if same:
                min(same, key=lambda r: r["ratio"])["judged"] = True


def cpu():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instances")
    parser.add_argument("--json", help="write the rows to this file, for oraclebench -goals -peers")
    parser.add_argument("--seconds", type=float, default=4, help="time for each solver, tolerance and case (default 4)")
    parser.add_argument("--only", default="", help="cases and solvers whose 'case solver' contains this text")
    args = parser.parse_args()
    if not 0 < args.seconds < INF:
        parser.error("--seconds must be above 0")
    try:
        with np.load(args.instances) as file:
            meta = json.loads(file["meta"].item())
            cases = []
            for c in meta["cases"]:
                case = Case(file, c)
                # "lambda" is a keyword of Python.
                case.lambda_ = getattr(case, "lambda", None)
                cases.append(case)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as e:
        parser.error(f"{args.instances} is not a file of oraclebench -export: {e}")
    if not any(args.only in f"{c.name} {name}" for c in cases for name, *_ in PROJECT + LINEAR):
        parser.error(f"--only {args.only}: no such case and solver among " + ", ".join(c.name for c in cases))
    versions = {}
    for _, _, _, package in PROJECT + LINEAR + [("", None, (), "numpy"), ("", None, (), "ortools")]:
        try:
            versions[package] = metadata.version(package)
            importlib.import_module(package)  # before any time is taken
        except metadata.PackageNotFoundError:
            print(f"{package} is not installed: its rows are left out", file=sys.stderr)
    load = "%.2f" % os.getloadavg()[0]
    print(f"{cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}, " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) +
          f"; load average {load}; this module: {meta['machine']['go']}, kernels {meta['machine']['kernel']}\n")
    print("| case | problem | solver | tolerance | solves | µs, call | µs, own clock | µs with set-up | this module, µs | ratio | difference | unsolved |")
    print("|" + "---|" * 12)
    rows = []
    if "pyepo" in versions:
        import pyepo.model.ort  # noqa: F401, before any time is taken
    for case in cases:
        for operation, solvers in (("project", PROJECT), ("linear", LINEAR)):
            if operation not in case.results:
                continue
            for name, make, tolerances, package in solvers:
                if package not in versions or args.only not in f"{case.name} {name}" or name in GRIDS_ONLY and case.oracle not in ("path", "dijkstra"):
                    continue
                for eps in tolerances:
                    try:
                        r = measure(case, operation, name, make, eps, args.seconds)
                    except Exception as e:  # a peer's failure is a row, not the end
                        print(f"| {case.name} | {operation} | {name} | {eps or '-'} | failed: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''} | | | | | | | |", flush=True)
                        continue
                    rows.append(r)
                    own = f"{r['own_us']:.3g}" if r["own_us"] is not None else "-"
                    print(f"| {case.name} | {operation} | {name} | {eps or '-'} | {r['solves']} | {r['call_us']:.4g} | {own} | {r['setup_us']:.4g} | {r['ours_us']:.3g} | {r['ratio']:.3g} | {r['difference']:.1e} | {r['unsolved']} |", flush=True)
    judge(rows, cases)
    if args.json:
        text = json.dumps({"versions": versions, "load": load, "rows": rows}, indent=1, allow_nan=False)
        with open(args.json, "w") as f:
            f.write(text)


if __name__ == "__main__":
    main()
