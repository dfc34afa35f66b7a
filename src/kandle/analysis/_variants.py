"""Variants of one scheme as schemes of their own, and how two of them compare over all settings."""

import json

import numpy as np
import pandas as pd

from kandle.analysis._frames import SCHEME_OPTIONS, groups
from kandle.analysis._uncertainty import (
    median_interval,
    percentage,
    share_interval,
    sign_test,
    signed_rank_test,
)
from kandle.analysis._wins import paired


def named_variants(runs: pd.DataFrame, *, exponents: bool = True) -> pd.DataFrame:
    """`runs` with a scheme's exponents, gain and settings made part of its name.

    `power-law` with α = 0.25, β = 1.75 becomes `power-law(0.25, 1.75)`, `quiet` with the settings
    `{"spread": 0.5}` becomes `quiet(spread=0.5)`; a scheme used as it is keeps its name. Without
    `exponents`, α and β stay where they are and are not in the name.
    """
    taken = ("alpha", "beta", *SCHEME_OPTIONS) if exponents else SCHEME_OPTIONS
    blank = {"alpha": np.nan, "beta": np.nan, "gain": np.nan, "settings": ""}
    runs = runs.assign(**{c: v for c, v in blank.items() if c not in runs.columns})
    code = groups(runs[["scheme", *taken]])
    first = runs[["scheme", *taken]].groupby(code).head(1)
    names = {
        code[i]: _name(row) for i, row in zip(first.index, first.to_dict("records"), strict=True)
    }
    return runs.assign(scheme=code.map(names), **{c: blank[c] for c in taken})


def variants_apart(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` in which a scheme that occurs with several gains or settings is several schemes.

    Somebody who tries three gains asks which is best: `glorot(gain=0.5)`, `glorot(gain=1)` and
    `glorot(gain=2)` are then compared like any schemes. Exponents of the power law stay exponents.
    A baseline that is never used as it is keeps its name, as it is what others are compared with.
    """
    present = [c for c in SCHEME_OPTIONS if c in runs.columns]
    if not present or runs.empty:
        return runs
    counts = runs[["scheme", *present]].drop_duplicates()["scheme"].value_counts()
    several = runs["scheme"].isin(counts.index[counts > 1])
    if not several.any():
        return runs
    named = named_variants(runs[several], exponents=False)
    if "baseline" in set(runs["scheme"]) - set(named["scheme"]):
        named = named[~named["scheme"].str.startswith("baseline(")]
    runs = runs.copy()
    for column in ("scheme", *present):
        runs.loc[named.index, column] = named[column]
    return runs


def _name(row: dict) -> str:
    parts = [f"{row[k]:g}" for k in ("alpha", "beta") if k in row and not pd.isna(row[k])]
    parts += [] if pd.isna(row["gain"]) else [f"gain={row['gain']:g}"]
    settings = json.loads(row["settings"]) if row["settings"] else {}
    parts += [f"{k}={v}" for k, v in settings.items()]
    return row["scheme"] + (f"({', '.join(parts)})" if parts else "")


def versus(cells: pd.DataFrame, scheme: str, rival: str, metric: str = "loss") -> dict:
    """How `scheme` compares with `rival` over all problems and architectures where both exist.

    `cells` is a frame of representatives or medians. Given are `settings` (how many), `wins`,
    `percent` with its Wilson interval `low`, `high`, the median `ratio` of the two with
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
