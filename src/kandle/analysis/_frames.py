"""What the columns of exported rows mean, and which rows may be compared with one another.

A *setting* is everything two schemes must share to be compared: the problem, the architecture and
how it was trained. A *variant* is what distinguishes two initializations. A *run* is a setting, a
variant and a seed.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kandle._errors import UserError
from kandle.problems import PROBLEMS
from kandle.store import ARCHITECTURE, SCHEME, TRAINING

VARIANT = ("scheme", "alpha", "beta")
SCHEME_OPTIONS = tuple(name for name in SCHEME if name not in VARIANT)
"""What an exported row may say about a scheme beside its exponents."""
REQUIRED = ("problem", "scheme", "G", "width", "depth", "seed", "loss", "l2")


def check(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with `alpha`, `beta` and `status` present, or an error that names the missing
    columns."""
    missing = [column for column in REQUIRED if column not in runs.columns]
    if missing:
        raise UserError(f"The runs lack the columns {', '.join(missing)}.")
    blank = {column: np.nan for column in ("alpha", "beta") if column not in runs.columns}
    if "status" not in runs.columns:
        blank["status"] = "ok"  # type: ignore[assignment]
    return runs.assign(**blank) if blank else runs


def power_law(runs: pd.DataFrame) -> pd.Series:
    """Which rows are of the power law, under its own name or as one of its variants
    (`power-law(gain=2)`)."""
    return runs["scheme"].eq("power-law") | runs["scheme"].str.startswith("power-law(")


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that ended with a finite loss; diverged and failed ones do not enter any median."""
    runs = check(runs)
    status = runs["status"].fillna("ok").eq("ok")
    return runs[status & np.isfinite(runs["loss"].astype(float))]


def distinct(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per run: of rows with one configuration and seed, the first finished (or the first).

    Rows that differ in `replicate` are repeats of a configuration, such as published results
    hold, and stay: each is a training of its own.
    """
    runs = check(runs)
    also = [c for c in ("study", *_options(runs), "replicate") if c in runs.columns]
    done = runs.index.isin(finished(runs).index)
    order = np.argsort(~done, kind="stable")
    keys = ["problem", *VARIANT, *ARCHITECTURE, "seed", *also]
    return runs.iloc[order].drop_duplicates(keys).sort_index()


@dataclass(frozen=True)
class Choice:
    """Runs that were trained alike, which ways of training they are (if there were several), and
    what was left out because it was trained differently."""

    runs: pd.DataFrame
    left_out: tuple[str, ...]
    kept: tuple[str, ...] = ()


def trained_alike(runs: pd.DataFrame) -> Choice:
    """Keep, for every problem, the one way of training that represents it best.

    A store may hold one problem trained in several ways (2,000 steps and 10, `rba="text"` and
    `"published"`); medians and wins across them mean nothing. The way with the most steps is kept,
    where steps beyond the full length of a built-in problem do not count: a trial run cut short on
    many architectures never displaces full-length results, nor does one run of ten times the
    length. Among equals the way that covers the most architectures is taken, then the one with
    more runs, then the longer. Variants of one scheme (its `gain`, say) are treated alike, scheme
    by scheme.
    """
    runs = check(runs).reset_index(drop=True)
    common, left, kept = _principal(runs, ["problem"], [c for c in TRAINING if c in runs.columns])
    own = [c for c in SCHEME_OPTIONS if c in runs.columns]
    alike, also_left, also_kept = _principal(common, ["problem", "scheme"], own)
    return Choice(alike, (*left, *also_left), (*kept, *also_kept))


def full_length(problems: pd.Series) -> pd.Series:
    """The steps that each built-in problem takes, by row; NaN for a user's own."""
    return problems.map({name: p.default_steps for name, p in PROBLEMS.items()}).astype(float)


def _options(runs: pd.DataFrame) -> list[str]:
    """The configuration columns of `runs` beyond problem, architecture, exponents and seed."""
    return [c for c in (*TRAINING, *SCHEME_OPTIONS) if c in runs.columns]


def pooled_axes(runs: pd.DataFrame, by: str) -> list[str]:
    """The axes in which runs of one problem and one value of the column `by` differ, seeds aside:
    a median or mean of such a group is one over different configurations."""
    axes = [c for c in (*VARIANT, *ARCHITECTURE, *_options(runs)) if c != by and c in runs.columns]
    parts = runs.groupby(["problem"] if by == "problem" else ["problem", by], dropna=False)
    counts = parts[axes].nunique(dropna=False).max()
    return [axis for axis in axes if counts[axis] > 1]


def groups(frame: pd.DataFrame) -> pd.Series:
    """A number for every distinct row of `frame`, where a missing value is a value like others."""
    return frame.groupby(list(frame.columns), dropna=False, sort=False).ngroup()


def _principal(
    runs: pd.DataFrame, within: list[str], columns: list[str]
) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    varying = [c for c in columns if runs[c].nunique(dropna=False) > 1]
    if not varying:
        return runs, (), ()
    steps = runs["steps"] if "steps" in runs.columns else pd.Series(0, index=runs.index)
    table = pd.DataFrame(
        {
            "way": groups(runs[varying]),
            "steps": steps,
            "length": steps.clip(upper=full_length(runs["problem"]).fillna(np.inf)),
            "shape": groups(runs[list(ARCHITECTURE)]),
        }
    )
    keep = pd.Series(False, index=runs.index)
    left: list[str] = []
    kept: list[str] = []
    for names, rows in runs.groupby(within, sort=False):
        part = table.loc[rows.index]
        score = part.groupby("way").agg(
            length=("length", "max"),
            shapes=("shape", "nunique"),
            count=("shape", "size"),
            steps=("steps", "max"),
        )
        order = score.sort_values(list(score.columns), kind="stable").index
        keep[rows.index] = part["way"].eq(order[-1])
        label = " ".join(str(name) for name in names)
        if len(order) > 1:
            for way in order.sort_values():
                example = rows.loc[part["way"].eq(way), varying].iloc[0]
                settings = ", ".join(_setting(c, example[c]) for c in varying)
                words = f"{label}: {score.at[way, 'count']} runs with {settings}"
                (kept if way == order[-1] else left).append(words)
    return runs[keep], tuple(left), tuple(kept)


def _setting(column: str, value: object) -> str:
    return f"no {column}" if value == "" or value is None or value != value else f"{column}={value}"
