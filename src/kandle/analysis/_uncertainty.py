"""How sure a count over architectures is: bootstrap intervals and paired tests."""

import math
from typing import Any

import numpy as np
from scipy import stats


def percentage(wins: int, of: int) -> float:
    """100 wins/of rounded half up to two decimals, in integers: 75 of 96 is 78.125 and gives
    78.13."""
    return (20_000 * wins + of) // (2 * of) / 100 if of else math.nan


def share_interval(wins: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap percentile interval, in percent, of the share wins/of over resampled architectures.

    Drawing `of` architectures with replacement gives Binomial(of, wins/of) wins, so the bootstrap
    distribution is known and nothing is sampled. It has no width when every or no architecture is
    won, where it would claim certainty from a handful of architectures: there the open end is
    Wilson's bound, z²/(of + z²) away.
    """
    if of == 0:
        return math.nan, math.nan
    tail = (1 - level) / 2
    if wins in (0, of):
        z2 = float(stats.norm.isf(tail)) ** 2
        reach = 100 * z2 / (of + z2)
        return (0.0, reach) if wins == 0 else (100 - reach, 100.0)
    low, high = stats.binom.ppf([tail, 1 - tail], of, wins / of)
    return 100 * float(low) / of, 100 * float(high) / of


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of the sign test: were better and worse equally likely? Ties do not count."""
    return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def signed_rank_test(ratios: np.ndarray) -> float:
    """Two-sided p of Wilcoxon's signed-rank test on log ratios; 1 without a difference."""
    logs = _differences(ratios)
    if logs.size == 0:
        return 1.0
    test: Any = stats.wilcoxon(logs)
    return float(test.pvalue)


def signed_rank_direction(ratios: np.ndarray) -> int:
    """1 where that test's ranks are on the side of ratios below one, -1 above, 0 on neither.

    It need not be where most ratios are: nine great gains outweigh eleven tiny losses.
    """
    logs = _differences(ratios)
    return -int(np.sign(np.sum(np.sign(logs) * stats.rankdata(np.abs(logs)))))


def _differences(ratios: np.ndarray) -> np.ndarray:
    """Logarithms of the ratios that are not one; what is zero or infinite counts as far away."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray(ratios, dtype=float))
    return np.clip(logs[~np.isnan(logs) & (logs != 0)], -1e6, 1e6)


def median_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap percentile interval of a median, from its exact distribution.

    The median of a resample is at most the j-th smallest value when at least half the draws are
    among the first j, which is a binomial probability: nothing is sampled. Infinite values are
    allowed.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = ordered.size
    if n == 0:
        return math.nan, math.nan
    half = (n - 1) // 2
    at_most = stats.binom.sf(half, n, np.arange(1, n + 1) / n)
    tail = (1 - level) / 2
    low = int(np.searchsorted(at_most, tail))
    high = int(np.searchsorted(at_most, 1 - tail))
    return float(ordered[min(low, n - 1)]), float(ordered[min(high, n - 1)])
