#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same knapsack files through perfpred, OR-Tools and CBC.

Every solver gets each file alone, with the same limit in seconds; a solver that has not proved its answer by then counts
as the limit. Times are those of the solving call alone, reading the file and building the model not counted: the median
of calls repeated in one process for 0.2 s (1 s with what prepares them), 51 at most. OR-Tools' KnapsackSolver has several
algorithms: each is tried, the fastest counts. All answers that a solver calls proved must agree. Call it through
knapsack.sh, which finds or makes a Python environment with ortools.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CLASSES = ["uncorrelated", "weakly", "strongly", "inverse_strongly", "almost_strongly", "subset_sum", "even_odd",
           "similar_weights", "spanner", "multiple_strongly", "profit_ceiling", "circle"]
KNAPSACK_ALGORITHMS = ["BRANCH_AND_BOUND", "DYNAMIC_PROGRAMMING", "DIVIDE_AND_CONQUER", "64ITEMS"]
PEERS = ["knapsack", "cp_sat", "cbc"]


def read(path):
    with open(path) as file:
        _, budget = map(int, file.readline().split())
        rows = [tuple(map(int, line.split())) for line in file]
    return [row[0] for row in rows], [row[1] for row in rows], budget


def median_of_calls(prepare):
    """Seconds of one call: the median of as many as fit into 0.2 s; and what the last one returned."""
    taken = []
    end = time.perf_counter() + 1
    while not taken or (sum(taken) < 0.2 and len(taken) < 51 and time.perf_counter() < end):
        call = prepare()
        start = time.perf_counter()
        result = call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken), result


def solve_knapsack(path, limit, algorithm):
    from ortools.algorithms.python import knapsack_solver
    costs, values, budget = read(path)
    if algorithm == "64ITEMS" and len(costs) > 64:
        return None
    names = {"BRANCH_AND_BOUND": "KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER",
             "DYNAMIC_PROGRAMMING": "KNAPSACK_DYNAMIC_PROGRAMMING_SOLVER",
             "DIVIDE_AND_CONQUER": "KNAPSACK_DIVIDE_AND_CONQUER_SOLVER",
             "64ITEMS": "KNAPSACK_64ITEMS_SOLVER"}
    kind = getattr(knapsack_solver.SolverType, names[algorithm])
    solver = knapsack_solver.KnapsackSolver(kind, "knapsack")
    solver.set_time_limit(limit)

    def prepare():
        solver.init(values, [costs], [budget])
        return solver.solve
    taken, value = median_of_calls(prepare)
    return taken, value, solver.is_solution_optimal()


def solve_cp_sat(path, limit):
    from ortools.sat.python import cp_model
    costs, values, budget = read(path)
    model = cp_model.CpModel()
    take = [model.new_bool_var("") for _ in costs]
    model.add(cp_model.LinearExpr.weighted_sum(take, costs) <= budget)
    model.maximize(cp_model.LinearExpr.weighted_sum(take, values))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.num_workers = 1
    taken, status = median_of_calls(lambda: lambda: solver.solve(model))
    value = round(solver.objective_value) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else -1
    return taken, value, status == cp_model.OPTIMAL


def solve_cbc(path, limit):
    from ortools.linear_solver import pywraplp
    costs, values, budget = read(path)
    parameters = pywraplp.MPSolverParameters()
    parameters.SetDoubleParam(parameters.RELATIVE_MIP_GAP, 0.0)

    def prepare():
        solver = pywraplp.Solver.CreateSolver("CBC")
        solver.SetTimeLimit(int(limit * 1000))
        row = solver.Constraint(0, budget)
        objective = solver.Objective()
        objective.SetMaximization()
        for cost, value in zip(costs, values):
            take = solver.BoolVar("")
            row.SetCoefficient(take, cost)
            objective.SetCoefficient(take, value)
        return lambda: (solver, solver.Solve(parameters))
    taken, (solver, status) = median_of_calls(prepare)
    return taken, round(solver.Objective().Value()), status == pywraplp.Solver.OPTIMAL


def one(name, path, limit):
    """In a process of its own: prints the result as JSON."""
    if name == "cp_sat":
        result = solve_cp_sat(path, limit)
    elif name == "cbc":
        result = solve_cbc(path, limit)
    else:
        result = solve_knapsack(path, limit, name)
    print(json.dumps(result))


def run_peer(name, path, limit):
    """Seconds (None: not proved within the limit) and value."""
    def bounded():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    try:
        done = subprocess.run([sys.executable, __file__, "--one", name, path, "--limit", str(limit)], text=True,
                              capture_output=True, timeout=limit + 30, preexec_fn=bounded)
    except subprocess.TimeoutExpired:
        return None, None
    lines = done.stdout.strip().splitlines()
    result = json.loads(lines[-1]) if done.returncode == 0 and lines else None
    if result is None:
        if done.returncode != 0:
            why = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
            print(f"knapsack.py: {name} failed, which counts as the limit: {why[0]}", file=sys.stderr)
        return None, None
    taken, value, proved = result
    return (taken if proved and taken <= limit else None), value if proved else None


def run_perfpred(program, path, limit):
    done = subprocess.run([program, "solve", path, str(limit)], text=True, capture_output=True, check=True)
    taken, value, _, optimal = done.stdout.split()
    return (float(taken) if optimal == "1" else None), int(value) if optimal == "1" else None


def best_of(results):
    proved = [result for result in results if result[0] is not None]
    return min(proved, default=(None, None))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="knapsack_file of this build")
    parser.add_argument("--classes", default=",".join(CLASSES))
    parser.add_argument("--n", default="1000,10000")
    parser.add_argument("--range", type=int, default=100000)
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--limit", type=float, default=30)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--out", help="JSON lines, one a file")
    parser.add_argument("--one", nargs=2, metavar=("SOLVER", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one, options.limit)
        return

    peers = options.peers.split(",")
    print(f"median seconds (files proved), R = {options.range}, limit {options.limit:g} s, one thread; "
          "ratio: best peer / perfpred, a time-out counting as the limit")
    print(f"{'class':<18}{'n':>8}{'perfpred':>18}" + "".join(f"{peer:>18}" for peer in peers) + f"{'ratio':>10}")
    everything = []
    with tempfile.TemporaryDirectory() as folder:
        for n in map(int, options.n.split(",")):
            for name in options.classes.split(","):
                taken = {solver: [] for solver in ["perfpred", *peers]}
                for seed in range(1, options.instances + 1):
                    path = os.path.join(folder, f"{name}-{n}-{seed}.txt")
                    subprocess.run([options.program, "write", name, str(n), str(options.range), str(seed), path], check=True)
                    results = {"perfpred": run_perfpred(options.program, path, options.limit)}
                    for peer in peers:
                        if peer == "knapsack":
                            results[peer] = best_of([run_peer(algorithm, path, options.limit)
                                                     for algorithm in KNAPSACK_ALGORITHMS])
                        else:
                            results[peer] = run_peer(peer, path, options.limit)
                    values = {value for _, value in results.values() if value is not None}
                    if len(values) > 1:
                        sys.exit(f"{name}, n {n}, seed {seed}: the solvers disagree: {results}")
                    for solver, (seconds, _) in results.items():
                        taken[solver].append(seconds)
                    if options.out:
                        with open(options.out, "a") as file:
                            file.write(json.dumps({"class": name, "n": n, "range": options.range, "seed": seed,
                                                   "seconds": {s: r[0] for s, r in results.items()}}) + "\n")
                ratios = []
                for row in zip(*taken.values()):
                    counted = [options.limit if seconds is None else seconds for seconds in row]
                    ratios.append(min(counted[1:]) / counted[0])
                everything += ratios
                cells = ""
                for seconds in taken.values():
                    median = statistics.median(options.limit if s is None else s for s in seconds)
                    proved = sum(s is not None for s in seconds)
                    cells += f"{f'{median:.3g} ({proved}/{len(seconds)})':>18}"
                print(f"{name:<18}{n:>8}{cells}{statistics.median(ratios):>10.1f}", flush=True)
    print(f"median ratio over all files: {statistics.median(everything):.1f}")


if __name__ == "__main__":
    main()
