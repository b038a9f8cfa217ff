# SPDX-License-Identifier: Apache-2.0
"""How samples of a training step become its time: the rules of docs/guides/measuring.md, as StepSamples of the C++ library
has them (include/perfpred/step_samples.h, src/runs/stop_criterion.h), where each is said with its source.
"""

import math
import statistics

Z95 = statistics.NormalDist().inv_cdf(0.975)

_MIN_TO_STOP = 10  # before sampling may end
_WANTED_WIDTH = 0.01  # half width of the median's interval, relative
_SETTLED_SAMPLES = 200
_SETTLED_CHANGE = 0.05
_LEADING_EXCESS = 1.25  # of the median: a leading sample above it is warm-up
_CHANGE_P, _CHANGE_SIZE = 0.01, 0.02
MIN_SAMPLES = 3  # at the limit
_MIN_TO_JUDGE_SHARE = 20
_MAX_DISTURBED = 0.5  # of the samples; if more are disturbed, they are kept
_MAX_CUTS = 3
_STALL = 3  # medians that one sample counts as at most
_MIN_PART = 3  # samples in each consecutive part
_MIN_FOR_ORDER_STATISTICS = 6


def _student_quantile(freedom):
    """The quantile of Student's distribution that the normal one has at 97.5 %, by Newton's method. With t = sqrt(n)
    tan(a) the probability between 0 and t is C times the integral of cos(a)^(n-1), taken by Simpson's rule.
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    quantile, parts = Z95, 64
    for _ in range(50):
        angle = math.atan(quantile / math.sqrt(freedom))
        heights = [math.cos(angle * i / parts) ** (freedom - 1) for i in range(parts + 1)]
        area = heights[0] + heights[-1] + 4 * math.fsum(heights[1::2]) + 2 * math.fsum(heights[2:-1:2])
        density = scale / math.sqrt(freedom) * (1 + quantile**2 / freedom) ** (-(freedom + 1) / 2)
        change = (scale * area * angle / parts / 3 - 0.475) / density
        quantile -= change
        if abs(change) < 1e-12 * quantile:
            break
    return quantile


def _deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def quantile(values, share):
    """By nearest rank: always one of the values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def _ranks(samples):
    """From 1; ties share their mean rank."""
    order = sorted(range(len(samples)), key=samples.__getitem__)
    ranks, begin = [0.0] * len(samples), 0
    while begin < len(order):
        end = begin
        while end < len(order) and samples[order[end]] == samples[order[begin]]:
            end += 1
        for i in order[begin:end]:
            ranks[i] = (begin + end + 1) / 2
        begin = end
    return ranks


def _effective_size(samples):
    """How many independent samples say as much: those that resemble their predecessor count as fewer."""
    ranks = _ranks(samples)
    mean = math.fsum(ranks) / len(ranks)
    variance = math.fsum((r - mean) ** 2 for r in ranks)
    covariance = math.fsum((a - mean) * (b - mean) for a, b in zip(ranks, ranks[1:]))
    correlation = min(max(covariance / variance if variance > 0 else 0.0, 0.0), 0.99)
    return len(samples) * (1 - correlation) / (1 + correlation)


def _half_width(estimates):
    """Of the 95 % interval of the mean of independent estimates."""
    n = len(estimates)
    return _student_quantile(n - 1) * _deviation(estimates) / math.sqrt(n)


def _half_width_by_parts(samples, statistic):
    """Of the logarithm of the statistic, as its values for 4 and 8 consecutive parts imply."""
    width = 0.0
    for parts in (4, 8):
        if len(samples) >= _MIN_PART * parts:
            bounds = [len(samples) * i // parts for i in range(parts + 1)]
            width = max(width, _half_width([math.log(statistic(samples[a:b])) for a, b in zip(bounds, bounds[1:])]))
    return width


def median_interval(samples):
    """Median, and its 95 % interval: (median, low, high)."""
    ordered, n = sorted(samples), len(samples)
    middle = statistics.median(ordered)
    if n == 1:
        return middle, 0.0, math.inf
    reach = Z95 * n / math.sqrt(_effective_size(samples)) / 2
    at = lambda rank: ordered[int(min(max(rank, 1.0), n)) - 1]
    if n < _MIN_FOR_ORDER_STATISTICS:
        width = _half_width([math.log(x) for x in samples])
    else:
        width = _half_width_by_parts(samples, statistics.median)
    factor = math.exp(width)
    low, high = at(math.floor(n / 2 - reach)), at(math.ceil(n / 2 + reach) + 1)
    return middle, min(low, middle / factor), max(high, middle * factor)


def relative_error_of_mean(samples):
    """Half width of the mean's 95 % interval / 1.96 / mean; infinite for a single sample."""
    if len(samples) == 1:
        return math.inf
    size, mean = max(2.0, _effective_size(samples)), statistics.fmean(samples)
    independent = _student_quantile(size - 1) * _deviation(samples) / math.sqrt(size) / mean
    return max(independent, _half_width_by_parts(samples, statistics.fmean)) / Z95


def find_change(samples):
    """Where the level changes most, by Pettitt's rank test: (first sample of the new level, p, level after / before)."""
    n, total, largest, index = len(samples), 0.0, -1.0, 0
    for t, rank in enumerate(_ranks(samples)[:-1], start=1):
        total += rank
        u = abs(2 * total - t * (n + 1))
        if u > largest:
            largest, index = u, t
    p = min(1.0, 2 * math.exp(-6 * largest * largest / (n**3 + n**2)))
    return index, p, statistics.median(samples[index:]) / statistics.median(samples[:index])


def _changes(change):
    return change[1] < _CHANGE_P and abs(change[2] - 1) > _CHANGE_SIZE


class _StopRule:
    """Ends when the median is known to 1 %, and still is after a tenth more samples (`interval`), or when the relative
    standard deviation has stopped changing (`settled`).
    """

    def __init__(self):
        self.samples = []
        self._due = 0
        self._known = False
        self._noises = []
        self._reason = ""

    def reason(self):
        if not self._reason and len(self.samples) >= max(_MIN_TO_STOP, self._due):
            self._reason = self._judge()
        return self._reason

    def _judge(self):
        n = len(self.samples)
        self._due = n + max(1, n // 10)
        median, low, high = median_interval(self.samples)
        known_before, self._known = self._known, (high - low) / (2 * median) <= _WANTED_WIDTH
        if self._known and known_before:
            return "interval"
        noise = _deviation(self.samples) / statistics.fmean(self.samples)
        self._noises.append((n, noise))
        if n < _SETTLED_SAMPLES:
            return ""
        if any(2 * size >= n and abs(early - noise) > _SETTLED_CHANGE * noise for size, early in self._noises):
            return ""
        return "settled" if 2 * self._noises[0][0] < n else ""


class StepSamples:
    """Collects times of steps, in seconds, until they make a label."""

    def __init__(self, limit_sec):
        self.all = []  # (seconds, disturbed), in order, warm-up included
        self.stopped_by = ""
        self._limit_sec = limit_sec
        self._first = 0  # of the samples after warm-up
        self._elapsed = 0.0
        self._cuts = 0
        self._rebuild()

    def add(self, sec, disturbed=False):
        if not math.isfinite(sec) or sec <= 0:
            return
        self.all.append((sec, disturbed))
        self._elapsed += sec
        self._disturbed += disturbed
        if not disturbed or self._keeps_disturbed:
            self._take(len(self.all) - 1)
        if not self._keeps_disturbed and self._must_keep_disturbed():
            self._rebuild()

    def said(self):
        """For people who watch."""
        left = max(self._limit_sec - self._elapsed, 0)
        return f"{len(self.all)} steps timed, at most {left:.0f} s of steps left"

    def drop_last(self):
        """The last sample was of another step."""
        if self.all:
            self._elapsed -= self.all.pop()[0]
            self._first = min(self._first, len(self.all))
            self._rebuild()

    def finished(self):
        if self._keeps_disturbed != self._must_keep_disturbed():
            self._rebuild()
        limit = self._at_limit()
        if not self._rule.reason() and not limit:
            return False
        # At the limit one cut has to do: cutting a drift again and again would hide it.
        while len(self._rule.samples) > MIN_SAMPLES and self._cut_warmup() and not limit:
            pass
        reason = self._rule.reason()
        if limit:
            self.stopped_by = reason or "limit"
        elif reason and not _changes(find_change(self._rule.samples)):
            self.stopped_by = reason
        return bool(self.stopped_by)

    def label(self):
        """What the samples say, as a dictionary; there has to be one."""
        values = list(self._rule.samples)
        median, low, high = median_interval(values)
        winsorised = [min(x, _STALL * median) for x in values]
        change = find_change(values) if len(values) > 1 else (0, 1.0, 1.0)
        return {
            "median": median,
            "low": low,
            "high": high,
            "mean": statistics.fmean(winsorised),
            "mean_rel_sem": relative_error_of_mean(winsorised),
            "cv": _deviation(values) / statistics.fmean(values),
            "p05": quantile(values, 0.05),
            "p95": quantile(values, 0.95),
            "samples": len(values),
            "warmup": self._first,
            "discarded": len(self.all) - self._first - len(values),
            "disturbed_share": self._disturbed / (len(self.all) - self._first),
            "stopped_by": self.stopped_by,
            "disturbed": self._keeps_disturbed,
            "drift": self._cuts > _MAX_CUTS or _changes(change),
        }

    def keep_what_there_is(self):
        """The program has ended before the rule did: as at the limit. There have to be three samples."""
        self._limit_sec = 0
        self.finished()

    def _take(self, i):
        self._rule.samples.append(self.all[i][0])
        self._kept.append(i)

    def _at_limit(self):
        return self._elapsed >= self._limit_sec and len(self.all) >= MIN_SAMPLES

    def _must_keep_disturbed(self):
        settled = len(self.all) - self._first
        many = self._disturbed > _MAX_DISTURBED * settled
        few = self._at_limit() and settled - self._disturbed < MIN_SAMPLES
        return few or (many and settled >= _MIN_TO_JUDGE_SHARE)

    def _rebuild(self):
        self._rule, self._kept = _StopRule(), []  # _kept: places of the rule's samples in `all`
        self._disturbed = sum(disturbed for _, disturbed in self.all[self._first :])
        self._keeps_disturbed = self._must_keep_disturbed()
        for i in range(self._first, len(self.all)):
            if not self.all[i][1] or self._keeps_disturbed:
                self._take(i)

    def _cut_warmup(self):
        samples = self._rule.samples
        excess, cut = _LEADING_EXCESS * statistics.median(samples), 0
        while cut < len(samples) // 2 and samples[cut] > excess:
            cut += 1
        if cut == 0:
            change = find_change(samples)
            if _changes(change) and change[0] <= len(samples) // 2:
                cut = change[0]
        if cut == 0:
            return False
        self._first = self._kept[cut]
        self._cuts += 1
        self._rebuild()
        return True
