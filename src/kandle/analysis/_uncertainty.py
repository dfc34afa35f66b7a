"""How certain a count over architectures is: intervals, paired tests, adjusted p values."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats


def percentage(wins: int, of: int) -> float:
    """100 wins/of rounded half up to two decimals: 75 of 96 is 78.125 and gives 78.13."""
    return (20_000 * wins + of) // (2 * of) / 100 if of else math.nan


def share_interval(wins: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval, in percent, of the share p̂ = wins/of.

        (p̂ + z²/2n ± z √(p̂(1 - p̂)/n + z²/4n²)) / (1 + z²/n),  n = of

    It has a width when every or no architecture is won, and its ends rise with `wins`.
    """
    if of == 0:
        return math.nan, math.nan
    found = stats.binomtest(wins, of).proportion_ci(level, method="wilson")
    return 100 * float(found.low), 100 * float(found.high)


def holm(p: Sequence[float] | np.ndarray) -> Float[np.ndarray, " n"]:
    """p values adjusted for testing all of them, by Holm's step-down method.

    With p₁ ≤ … ≤ pₙ sorted, the i-th becomes max over j ≤ i of min(1, (n - j + 1) pⱼ). NaN stays
    NaN and is not counted.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=float)
    adjusted = np.full(given.shape, np.nan)
    known = np.flatnonzero(~np.isnan(given))
    order = known[np.argsort(given[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * given[order]))
    return adjusted


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
    """1 if the ranks of that test favour ratios below one, -1 above, 0 neither.

    This may differ from the majority: nine large gains outweigh eleven tiny losses.
    """
    logs = _differences(ratios)
    return -int(np.sign(np.sum(np.sign(logs) * stats.rankdata(np.abs(logs)))))


def _differences(ratios: np.ndarray) -> np.ndarray:
    """Logarithms of the ratios other than one, with zero and infinity clipped to large values."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray(ratios, dtype=float))
    return np.clip(logs[~np.isnan(logs) & (logs != 0)], -1e6, 1e6)


def median_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Distribution-free confidence interval of a median: two order statistics around it.

    [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] with the largest k for which Binomial(n, ½) ≤ k - 1 has a probability of at
    most (1 - level)/2. It always contains the sample median. Below n = 6 no such k exists at 95%,
    and the interval is the whole range. Infinite values are allowed.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = ordered.size
    if n == 0:
        return math.nan, math.nan
    k = max(1, int(np.sum(stats.binom.cdf(np.arange(n), n, 0.5) <= (1 - level) / 2)))
    return float(ordered[k - 1]), float(ordered[n - k])
