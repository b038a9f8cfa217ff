#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the optima that tests/planner_figures_test.cpp compares the planner with.

    scripts/planner_figures.py --out tests/data/planner_figures.csv --seconds 1

Each row of the table is an instance: a family and a seed make the same instance here and in tests/planner_instances.h.
`value` is the best that was found, `bound` what no plan exceeds; they are equal where the optimum is proved. `by` says
how: all plans one by one (brute), the textbook table over all costs (table), or OR-Tools' CP-SAT (cp-sat, which needs
the package ortools). -1 stands for no plan: a run of each group does not fit.
"""

import argparse
import csv
import itertools
import math
import time

import numpy as np

MASK = (1 << 64) - 1


class Random:
    """SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014)."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % limit


class Instance:
    """jobs[j][d] is (cost, value) or None; group[j] a number or None."""

    def __init__(self):
        self.jobs, self.budgets, self.group = [], [], []
        # With uncertain times, of each device: mean, fixed, common and own deviation of each run; z in hundredths.
        self.times, self.z = [], None


def near(random, cost):
    """cost times 1 to 1.02, in units of 2^-20."""
    return cost * ((1 << 20) + random.below(20972))


def one_device(family, random):
    instance = Instance()
    n = (1, 100)[family != "small"] + random.below({"small": 20, "large": 101}.get(family, 901))
    reach = 10 ** (2 + random.below(3 if family != "near_ratio" else 5))
    form = random.below(7) if family == "small" else 0
    kinds = []
    for _ in range(2 + random.below(4)):
        cost = 1 + random.below(reach)
        kinds.append((cost, cost + random.below(1 + cost // 10)))
    for _ in range(n):
        cost = 1 + random.below(reach)
        if family == "near_ratio" or form == 1:
            item = (cost, near(random, cost))
        elif family == "equal_ratio" or form == 2:
            item = (cost, 7 * cost)
        elif family == "few_kinds" or form == 3:
            item = kinds[random.below(len(kinds))]
        elif family == "weak" or form == 4:
            item = (cost, 1 + cost + random.below(1 + reach // 5))
        elif family == "strong" or form == 5:
            item = (cost, cost + reach // 10)
        elif family == "large":
            item = (cost, (1 << 52) + random.below(1 << 52))
        elif form == 6:  # values from 2^62 on, all costs together below 2^63
            item = (1 + random.below(1 << 58), ((1 << 52) + random.below(1 << 52)) << 10)
        else:
            item = (cost, 1 + random.below(reach))
        instance.jobs.append([item])
        instance.group.append(None)
    total = sum(job[0][0] for job in instance.jobs)
    instance.budgets = [total * (5 + random.below(90)) // 100]
    return instance


def several_devices(family, random):
    instance = Instance()
    small = family.endswith("_small")
    cover = family.startswith("cover")
    alike = family.startswith("alike")
    devices = (1 if cover else 2) + random.below(2 if small else 3)
    n = 1 + random.below((10, 8, 6)[devices - 1]) if small else 20 + random.below(61)
    same_value = random.below(2) == 0
    groups = 1 + random.below(4)
    speed = [100 + random.below(300) for _ in range(devices)]
    for _ in range(n):
        base = 10 + random.below(1000)
        worth = near(random, base)
        job = []
        for d in range(devices):
            if alike:
                job.append((base, worth))
            elif random.below(8) == 0:
                job.append(None)
            else:
                cost = 1 + base * speed[d] * (80 + random.below(41)) // 10000
                job.append((cost, worth if same_value else worth + random.below(1 << 20)))
        instance.jobs.append(job)
        instance.group.append(random.below(groups) if cover and random.below(5) != 0 else None)
    for d in range(devices):
        total = sum(job[d][0] for job in instance.jobs if job[d])
        share = 20 + random.below(100)
        instance.budgets.append(instance.budgets[0] if alike and d > 0 else total * share // (100 * devices))
    return instance


def chance(random):
    instance = Instance()
    devices = 1 + random.below(2)
    n = 1 + random.below(10 if devices == 1 else 7)
    instance.z = (0, 52, 128, 164, 233)[random.below(5)]
    fixed = 5 * random.below(2)
    for _ in range(n):
        worth = 1 + random.below(1000)
        instance.jobs.append([(1, worth)] * devices)
        instance.group.append(None)
    for _ in range(devices):
        runs = []
        for _ in range(n):
            mean = 10 + random.below(190)
            runs.append((mean, fixed, random.below(1 + mean // 5), 1 + random.below(1 + mean // 5)))
        instance.times.append(runs)
        total = sum(mean + fixed for mean, fixed, _, _ in runs)
        instance.budgets.append(total * (20 + random.below(61)) // (100 * devices))
    return instance


def make(family, seed):
    random = Random(seed)
    if family == "chance":
        return chance(random)
    if family.split("_")[0] in ("alike", "unlike", "cover"):
        return several_devices(family, random)
    return one_device(family, random)


def best_of_all_subsets(instance):
    """One device, in Gray code order."""
    items = [job[0] for job in instance.jobs]
    budget = instance.budgets[0]
    best = cost = value = 0
    for code in range(1, 1 << len(items)):
        bit = (code & -code).bit_length() - 1
        sign = 1 if (code ^ (code >> 1)) >> bit & 1 else -1
        cost += sign * items[bit][0]
        value += sign * items[bit][1]
        if cost <= budget and value > best:
            best = value
    return best


def best_of_all_places(instance):
    devices = range(len(instance.budgets))
    groups = {group for group in instance.group if group is not None}
    best = -1
    for places in itertools.product((None, *devices), repeat=len(instance.jobs)):
        if any(d is not None and job[d] is None for job, d in zip(instance.jobs, places)):
            continue
        if groups != {group for group, d in zip(instance.group, places) if d is not None and group is not None}:
            continue
        if not all(fits(instance, d, [j for j, place in enumerate(places) if place == d]) for d in devices):
            continue
        best = max(best, sum(job[d][1] for job, d in zip(instance.jobs, places) if d is not None))
    return best


def fits(instance, d, jobs):
    if not instance.times:
        return sum(instance.jobs[j][d][0] for j in jobs) <= instance.budgets[d]
    if not jobs:
        return True
    z = instance.z / 100
    runs = [instance.times[d][j] for j in jobs]
    mean = sum(run[0] for run in runs)
    variance = sum(run[2] for run in runs) ** 2 + sum(run[3] ** 2 for run in runs)
    needed = sum(run[1] for run in runs) + mean + z * math.sqrt(variance) + max(0, z * z - 1) / 2 * variance / mean
    if z > 0 and abs(needed - instance.budgets[d]) < 1e-9 * instance.budgets[d]:
        raise ArithmeticError("too close to decide in floating point")
    return needed <= instance.budgets[d]


def best_by_table(instance):
    """The most value for each cost up to the budget."""
    best = np.zeros(instance.budgets[0] + 1, dtype=np.int64)
    for job in instance.jobs:
        cost, value = job[0]
        if cost <= instance.budgets[0]:
            best[cost:] = np.maximum(best[cost:], best[:-cost] + value)
    return int(best[-1])


def by_cp_sat(instance, seconds):
    """@returns value and bound; -1, -1 if there is no plan"""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    places = {}
    for j, job in enumerate(instance.jobs):
        for d, item in enumerate(job):
            if item and item[0] <= instance.budgets[d]:
                places[j, d] = model.NewBoolVar("")
        model.AddAtMostOne(place for (k, _), place in places.items() if k == j)
    for d, budget in enumerate(instance.budgets):
        model.Add(sum(instance.jobs[j][e][0] * place for (j, e), place in places.items() if e == d) <= budget)
    for group in {group for group in instance.group if group is not None}:
        model.AddAtLeastOne([place for (j, _), place in places.items() if instance.group[j] == group])
    model.Maximize(sum(instance.jobs[j][d][1] * place for (j, d), place in places.items()))
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = seconds  # of its own count, so that other load changes nothing
    solver.parameters.num_workers = 1
    status = solver.Solve(model)
    if status == cp_model.INFEASIBLE:
        return -1, -1
    most = sum(max(job[d][1] for d in range(len(job)) if job[d]) for job in instance.jobs if any(job))
    if status == cp_model.UNKNOWN and not any(group is not None for group in instance.group):
        return 0, most
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(solver.StatusName(status))
    value = sum(instance.jobs[j][d][1] for (j, d), place in places.items() if solver.Value(place))
    return value, value if status == cp_model.OPTIMAL else max(value, math.ceil(solver.BestObjectiveBound()))


def figures(family, instance, seconds):
    if family == "small":
        best = best_of_all_subsets(instance)
        return best, best, "brute"
    if family.endswith("_small") or family == "chance":
        best = best_of_all_places(instance)
        return best, best, "brute"
    one = len(instance.budgets) == 1 and not any(group is not None for group in instance.group)
    work = len(instance.jobs) * instance.budgets[0] if one else math.inf
    if work < 2e8:  # less than a second
        best = best_by_table(instance)
        return best, best, "table"
    value, bound = by_cp_sat(instance, seconds)
    if value == bound or work > 1e9:
        return value, bound, "cp-sat"
    best = best_by_table(instance)
    if not value <= best <= bound:
        raise RuntimeError(f"CP-SAT says {value} to {bound}, the table {best}")
    return best, best, "table"


COUNTS = {
    "near_ratio": 400,
    "equal_ratio": 100,
    "few_kinds": 80,
    "uncorrelated": 100,
    "weak": 100,
    "strong": 100,
    "large": 100,
    "small": 470,
    "alike_small": 50,
    "unlike_small": 100,
    "cover_small": 100,
    "alike": 50,
    "unlike": 60,
    "cover": 40,
    "chance": 150,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="the table that is written")
    parser.add_argument("--seconds", type=float, default=30, help="of CP-SAT for one instance, about")
    parser.add_argument("--families", default=",".join(COUNTS))
    parser.add_argument("--count", type=int, help="of each family; default: all")
    parser.add_argument("--same", help="a table of such figures that these must agree with")
    asked = parser.parse_args()
    known = {}
    if asked.same:
        with open(asked.same, encoding="utf-8") as table:
            known = {(row["family"], int(row["seed"])): row for row in csv.DictReader(table)}
    with open(asked.out, "w", encoding="utf-8") as out:
        out.write("family,seed,value,bound,by\n")
        for family in asked.families.split(","):
            begin = time.process_time()
            seed = done = proved = 0
            while done < min(COUNTS[family], asked.count or COUNTS[family]):
                seed += 1
                try:
                    value, bound, by = figures(family, make(family, seed), asked.seconds)
                except ArithmeticError:
                    continue
                row = known.get((family, seed), {"value": value, "bound": bound})
                if value > int(row["bound"]) or bound < int(row["value"]):
                    raise SystemExit(f"{family}, seed {seed}: {value} to {bound}, known are {row}")
                out.write(f"{family},{seed},{value},{bound},{by}\n")
                out.flush()
                done += 1
                proved += value == bound
            print(f"{family}: {done} instances, {proved} proved, {time.process_time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
