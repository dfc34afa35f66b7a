"""How often a scheme beats the baseline: results paired by architecture, and their counts."""

import numpy as np
import pandas as pd

from kandle.analysis._frames import ARCHITECTURE
from kandle.analysis._medians import best_exponents, fixed_exponents
from kandle.analysis._uncertainty import (
    holm,
    percentage,
    share_interval,
    sign_test,
    signed_rank_direction,
    signed_rank_test,
)

METRICS = ("loss", "l2", "both")
COLUMNS = (
    "scheme", "metric", "problem", "percent", "wins", "of", "low", "high", "sign", "rank",
    "direction", "holm",
)  # fmt: skip
_KEY = ["problem", *ARCHITECTURE]


def paired(cells: pd.DataFrame, scheme: str, rival: str = "baseline") -> pd.DataFrame:
    """The results of two schemes by problem and architecture, where both exist.

    `cells` has at most one row per scheme, problem and architecture. Columns: problem, G, width,
    depth, loss, l2 of `scheme`; loss_rival, l2_rival of `rival`; alpha, beta of `scheme`.
    """
    columns = [*_KEY, "loss", "l2"]
    ours = cells.loc[cells["scheme"].eq(scheme), [*columns, "alpha", "beta"]]
    theirs = cells.loc[cells["scheme"].eq(rival), columns]
    return ours.merge(theirs, on=_KEY, suffixes=("", "_rival"), validate="one_to_one")


def win_rates(
    cells: pd.DataFrame, pair: tuple[float, float] | None = None, rival: str = "baseline"
) -> pd.DataFrame:
    """Share of architectures on which each scheme is strictly better than `rival`.

    The power law enters with the exponents of lowest loss on each architecture, chosen on the same
    runs, or with one fixed `pair`. A percentage counts the architectures where both schemes have a
    result (`of`).

    Columns: scheme, metric (loss, l2, both), problem, percent, wins, of, low, high (Wilson,
    percent), sign (p of the sign test), rank (p of the signed-rank test on ratios; empty for
    `both`), direction (1 better than `rival`, -1 worse: of the sign test for `both`, else of the
    signed-rank test), holm (that test's p, adjusted for all rows). For `both`, a loss means worse
    on both metrics, and mixed outcomes are ties.
    """
    single = best_exponents(cells) if pair is None else fixed_exponents(cells, pair)
    rows = []
    for scheme in [s for s in dict.fromkeys(single["scheme"]) if s != rival]:
        for problem, both in paired(single, scheme, rival).groupby("problem", sort=False):
            rows += [{"scheme": scheme, "problem": problem, **row} for row in _count(both)]
    rates = pd.DataFrame(rows, columns=list(COLUMNS))
    p = rates["rank"].astype(float).fillna(rates["sign"].astype(float))
    return rates.assign(holm=holm(p.to_numpy()))


def _count(pairs: pd.DataFrame) -> list[dict]:
    better = {m: pairs[m] < pairs[f"{m}_rival"] for m in ("loss", "l2")}
    worse = {m: pairs[m] > pairs[f"{m}_rival"] for m in ("loss", "l2")}
    better["both"] = better["loss"] & better["l2"]
    worse["both"] = worse["loss"] & worse["l2"]
    of = len(pairs)
    rows = []
    for metric in METRICS:
        wins, losses = int(better[metric].sum()), int(worse[metric].sum())
        low, high = share_interval(wins, of)
        rank, direction = None, (wins > losses) - (wins < losses)
        if metric != "both":
            ours, theirs = (pairs[c].to_numpy(float) for c in (metric, f"{metric}_rival"))
            with np.errstate(invalid="ignore", divide="ignore"):
                ratios = ours / theirs
            rank, direction = signed_rank_test(ratios), signed_rank_direction(ratios)
        rows.append(
            {
                "metric": metric,
                "percent": percentage(wins, of),
                "wins": wins,
                "of": of,
                "low": low,
                "high": high,
                "sign": sign_test(wins, losses),
                "rank": rank,
                "direction": direction,
            }
        )
    return rows
