"""The favourable region of (α, β) of a domain, found from its runs.

On a setting s (a problem and an architecture) a pair p has the regret log10 L_s(p) - min_q log10
L_s(q); where it never finished, its regret is infinite. The *leader* of the domain is the pair
with the lowest median regret: the best single choice for somebody who does not know the setting. A
pair belongs to the region when its loss on the median setting is at most `tolerance` times the
leader's, compared setting by setting. The interval tells how sure that is: with few settings it is
wide, and the region is then a guess and says so (`certain` is False).
"""

import numpy as np
import pandas as pd

from kandle.analysis._frames import ARCHITECTURE
from kandle.analysis._medians import CELL, representatives
from kandle.analysis._uncertainty import median_interval, signed_rank_test


def favourable_region(runs: pd.DataFrame, tolerance: float = 2.0) -> pd.DataFrame:
    """Every (α, β) with its regret, its loss relative to the leader's, and whether it is in the
    region.

    A pair that was tried on a setting and never finished there has infinite loss; one that was not
    tried is unknown there and is judged by the other settings. A pair tried on fewer than half the
    settings cannot lead.

    Columns: alpha, beta, settings (tried), regret (median, decades), ratio (median of
    L(p)/L(leader)), low, high (bootstrap), p (signed-rank against the leader), inside, certain;
    the leader is the row with ratio 1 and comes first, the others by rising regret.
    """
    losses = _losses(runs)
    columns = ["alpha", "beta", "settings", "regret", "ratio", "low", "high", "p"]
    if losses.empty:
        return pd.DataFrame(columns=[*columns, "inside", "certain"])
    logs = losses.clip(lower=np.finfo(float).tiny).transform(np.log10)
    regret = logs.sub(logs.min(axis=1), axis=0).dropna(how="all")
    # A setting on which nothing finished tells no pair from another: inf - inf is dropped above.
    middle, tried = regret.median(axis=0), regret.notna().sum(axis=0)
    leader = middle.where(2 * tried >= tried.max()).idxmin()
    pairs = [leader, *middle.drop(leader).sort_values(kind="stable").index]
    rows = []
    for pair in pairs:
        known = np.isfinite(logs[leader]) & logs[pair].notna()
        gaps = (logs[pair][known] - logs[leader][known]).to_numpy(dtype=float)
        low, high = median_interval(gaps)
        rows.append(
            {
                "alpha": pair[0],
                "beta": pair[1],
                "settings": int(tried[pair]),
                "regret": float(middle[pair]),
                "ratio": float(10.0 ** np.median(gaps)) if gaps.size else np.nan,
                "low": 10.0**low,
                "high": 10.0**high,
                "p": signed_rank_test(10.0**gaps),
            }
        )
    region = pd.DataFrame(rows, columns=columns)
    return region.assign(inside=region["ratio"] <= tolerance, certain=region["high"] <= tolerance)


def _losses(runs: pd.DataFrame) -> pd.DataFrame:
    """Loss of the representative run, settings × pairs: inf where none finished, NaN where none
    was tried."""
    power = runs[runs["scheme"].eq("power-law")]
    tried = power.drop_duplicates(list(CELL))[list(CELL)]
    found = tried.merge(representatives(power)[[*CELL, "loss"]], on=list(CELL), how="left")
    found["loss"] = found["loss"].fillna(np.inf)
    return found.pivot(index=["problem", *ARCHITECTURE], columns=["alpha", "beta"], values="loss")


def describe(region: pd.DataFrame) -> str:
    """The region in words: `α = 0.25: β 0.75-2; α = 0.5: β 1-2`."""
    inside = region[region["inside"]].sort_values(["alpha", "beta"])
    betas = np.sort(region["beta"].unique())
    parts = []
    for alpha, group in inside.groupby("alpha"):
        taken = [int(np.searchsorted(betas, b)) for b in group["beta"]]
        spans: list[list[int]] = []
        for i in taken:
            if spans and i == spans[-1][1] + 1:
                spans[-1][1] = i
            else:
                spans.append([i, i])
        told = ", ".join(
            f"{betas[a]:g}" if a == b else f"{betas[a]:g}–{betas[b]:g}" for a, b in spans
        )
        parts.append(f"α = {alpha:g}: β = {told}")
    return "; ".join(parts)
