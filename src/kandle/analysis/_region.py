"""The favourable region of (α, β) of a domain, found from its runs.

On a setting s (a problem and an architecture) a pair p has the regret log10 L_s(p) - min_q log10
L_s(q); where it never finished, its regret is infinite. The *leader* of the domain is the pair
with the lowest median regret: the best single choice for somebody who does not know the setting. A
pair belongs to the region when its loss on the median setting is at most `tolerance` times the
leader's, compared setting by setting. The interval shows how certain that is: with few settings it
is wide, and the region is then a guess and says so (`certain` is False).
"""

import numpy as np
import pandas as pd

from kandle.analysis._frames import ARCHITECTURE, power_law
from kandle.analysis._medians import CELL, representatives
from kandle.analysis._uncertainty import holm, median_interval, signed_rank_test


def favourable_region(runs: pd.DataFrame, tolerance: float = 2.0) -> pd.DataFrame:
    """Every (α, β) with its regret, its loss relative to the leader's, and whether it is in the
    region.

    A pair that was tried on a setting and never finished there has infinite loss; one that was not
    tried is unknown there and is judged by the other settings. A pair tried on fewer than half the
    settings cannot lead.

    Settings on which most pairs are within `tolerance` of the best are left out: they cannot
    distinguish pairs. No pair is certain from one seed.

    Columns: alpha, beta, settings (tried), seeds, regret (median, decades), ratio (median of
    L(p)/L(leader)), low, high (95% interval), p (signed-rank against the leader), holm (adjusted),
    inside, certain. The leader is the row with ratio 1 and comes first, the others by rising
    regret.
    """
    losses, seeds = _losses(runs)
    columns = ["alpha", "beta", "settings", "seeds", "regret", "ratio", "low", "high", "p"]
    if losses.empty:
        return pd.DataFrame(columns=[*columns, "holm", "inside", "certain"])
    logs = losses.clip(lower=np.finfo(float).tiny).transform(np.log10)
    logs = logs[_distinguishing(logs, tolerance)]
    regret = logs.sub(logs.min(axis=1), axis=0).dropna(how="all")
    # A setting on which nothing finished distinguishes no pairs: inf - inf is dropped above.
    middle, tried = regret.median(axis=0), regret.notna().sum(axis=0)
    leader = middle.where(2 * tried >= tried.max()).idxmin()
    pairs = [leader, *middle.drop(leader).sort_values(kind="stable").index]
    rows = []
    for pair in pairs:
        gaps = _gaps(logs[pair], logs[leader])
        low, high = median_interval(gaps)
        rows.append(
            {
                "alpha": pair[0],
                "beta": pair[1],
                "settings": int(tried[pair]),
                "seeds": int(seeds[pair]),
                "regret": float(middle[pair]),
                "ratio": float(10.0 ** _middle(gaps)),
                "low": 10.0**low,
                "high": 10.0**high,
                "p": signed_rank_test(10.0**gaps),
            }
        )
    region = pd.DataFrame(rows, columns=columns)
    # One seed does not show how much a pair varies, however many settings there are.
    certain = (region["high"] <= tolerance) & (region["seeds"] > 1)
    inside = region["ratio"] <= tolerance
    return region.assign(holm=holm(region["p"].to_numpy()), inside=inside, certain=certain)


def trivial_settings(runs: pd.DataFrame, tolerance: float = 2.0) -> int:
    """How many settings cannot distinguish pairs: most pairs are within `tolerance` of the best."""
    losses, _ = _losses(runs)
    if losses.empty:
        return 0
    logs = losses.clip(lower=np.finfo(float).tiny).transform(np.log10)
    return int((~_distinguishing(logs, tolerance)).sum())


def _distinguishing(logs: pd.DataFrame, tolerance: float) -> pd.Series:
    """Settings on which the median pair is worse than the best by more than `tolerance`.

    Where most pairs are equally good, any pair looks favourable; such settings would outvote the
    others. If all are like that, all are kept.
    """
    gap = logs.sub(logs.min(axis=1), axis=0).median(axis=1)
    distinguishing = gap.isna() | (gap > np.log10(tolerance))
    return distinguishing if distinguishing.any() else ~distinguishing


def _gaps(ours: pd.Series, leaders: pd.Series) -> np.ndarray:
    """Difference of log losses on the settings where both were tried.

    Where the leader alone diverged the other is infinitely better there, and must get the credit;
    where both did, they are equal.
    """
    known = ours.notna() & leaders.notna()
    a, b = ours[known].to_numpy(dtype=float), leaders[known].to_numpy(dtype=float)
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, a - b)


def _middle(gaps: np.ndarray) -> float:
    """The median; between -inf and +inf, where there is no middle, the worse of the two."""
    if not gaps.size:
        return np.nan
    low, high = np.sort(gaps)[[(gaps.size - 1) // 2, gaps.size // 2]]
    return float(0.5 * (low + high)) if np.isfinite(low) and np.isfinite(high) else float(high)


def _losses(runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Loss of the representative run, settings × pairs (inf if none finished, NaN if none was
    tried), and the median number of seeds of each pair."""
    power = runs[power_law(runs)]
    tried = power.drop_duplicates(list(CELL))[list(CELL)]
    found = tried.merge(representatives(power)[[*CELL, "loss"]], on=list(CELL), how="left")
    found["loss"] = found["loss"].fillna(np.inf)
    seeds = power.groupby(list(CELL), dropna=False)["seed"].nunique().groupby(["alpha", "beta"])
    settings, pairs = ["problem", *ARCHITECTURE], ["alpha", "beta"]
    return found.pivot(index=settings, columns=pairs, values="loss"), seeds.median()


GRID = 0.25
"""The spacing of the exponents that the paper searched: between neighbours nothing is unknown."""


def describe(region: pd.DataFrame) -> str:
    """The region in words: `α = 0.25: β = 0.75–2; α = 0.5: β = 1, 1.75`.

    A range says that everything between its ends, on the grid of 0.25, was tried and is inside;
    values further apart are listed.
    """
    inside = region[region["inside"]].sort_values(["alpha", "beta"])
    parts = []
    for alpha, group in inside.groupby("alpha"):
        spans: list[list[float]] = []
        for beta in group["beta"]:
            if spans and np.isclose(beta - spans[-1][1], GRID):
                spans[-1][1] = beta
            else:
                spans.append([beta, beta])
        ranges = ", ".join(f"{a:g}" if a == b else f"{a:g}–{b:g}" for a, b in spans)
        parts.append(f"α = {alpha:g}: β = {ranges}")
    return "; ".join(parts)


def confidence(region: pd.DataFrame) -> str:
    """How sure the region is, in words: `20 settings; 3 of its 7 pairs certain`."""
    settings, inside = int(region["settings"].max()), int(region["inside"].sum())
    certain = int((region["inside"] & region["certain"]).sum())
    return (
        f"{settings:,} setting{'' if settings == 1 else 's'}; {certain} of its {inside} "
        f"pair{'' if inside == 1 else 's'} certain"
    )
