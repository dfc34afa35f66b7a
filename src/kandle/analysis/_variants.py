"""Variants of one scheme as schemes of their own, and how two of them compare over all settings."""

import json

import numpy as np
import pandas as pd

from kandle.analysis._uncertainty import (
    median_interval,
    percentage,
    share_interval,
    sign_test,
    signed_rank_test,
)
from kandle.analysis._wins import paired


def named_variants(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with a scheme's exponents and settings made part of its name.

    `power-law` with α = 0.25, β = 1.75 becomes `power-law(0.25, 1.75)`, `quiet` with the settings
    `{"spread": 0.5}` becomes `quiet(spread=0.5)`; a scheme used as it is keeps its name.
    """
    names = [_name(row) for row in runs[_TOLD].to_dict("records")]
    return runs.assign(scheme=names, alpha=np.nan, beta=np.nan, gain=np.nan, settings="")


_TOLD = ["scheme", "alpha", "beta", "gain", "settings"]


def _name(row: dict) -> str:
    told = [f"{row[k]:g}" for k in ("alpha", "beta") if not pd.isna(row[k])]
    told += [] if pd.isna(row["gain"]) else [f"gain={row['gain']:g}"]
    settings = json.loads(row["settings"]) if row["settings"] else {}
    told += [f"{k}={v}" for k, v in settings.items()]
    return row["scheme"] + (f"({', '.join(told)})" if told else "")


def versus(cells: pd.DataFrame, scheme: str, rival: str, metric: str = "loss") -> dict:
    """How `scheme` compares with `rival` over all problems and architectures where both exist.

    `cells` is a frame of representatives or medians. Given are `settings` (how many), `wins`,
    `percent` with its bootstrap interval `low`, `high`, the median `ratio` of the two with
    `ratio_low`, `ratio_high`, and the two-sided p of two paired tests, `sign` and `rank`.
    """
    pairs = paired(cells, scheme, rival).dropna(subset=[metric, f"{metric}_rival"])
    ours, theirs = (pairs[c].to_numpy(float) for c in (metric, f"{metric}_rival"))
    wins, of = int((ours < theirs).sum()), len(pairs)
    low, high = share_interval(wins, of)
    logs = np.log(ours / theirs)
    ratio_low, ratio_high = median_interval(logs)
    return {
        "scheme": scheme,
        "rival": rival,
        "metric": metric,
        "settings": of,
        "wins": wins,
        "percent": percentage(wins, of),
        "low": low,
        "high": high,
        "ratio": float(np.exp(np.median(logs))) if of else np.nan,
        "ratio_low": float(np.exp(ratio_low)),
        "ratio_high": float(np.exp(ratio_high)),
        "sign": sign_test(wins, int((ours > theirs).sum())),
        "rank": signed_rank_test(ours / theirs),
    }
