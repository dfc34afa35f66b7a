"""What the columns of exported rows mean, and which rows may be compared with one another.

A *setting* is everything two schemes must share to be compared: the problem, the architecture and
how it was trained. A *variant* is what tells two initializations apart. A *run* is a setting, a
variant and a seed.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kandle._errors import UserError

ARCHITECTURE = ("G", "width", "depth")
TRAINING = (
    "degree",
    "steps",
    "optimizer",
    "learning_rate",
    "schedule",
    "dtype",
    "rba",
    "reference",
    "optimizer_arguments",
    "domain",
    "residual",
    "bias",
)
VARIANT = ("scheme", "alpha", "beta")
# What an exported row may tell of a scheme beside its exponents.
_SCHEME_OPTIONS = ("gain", "settings")
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


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that ended with a finite loss; diverged and failed ones do not enter any median."""
    runs = check(runs)
    status = runs["status"].fillna("ok").eq("ok")
    return runs[status & np.isfinite(runs["loss"].astype(float))]


def distinct(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run: of rows with one configuration and seed, the first finished (or the first).

    Rows that `replicate` tells apart are repeats of a configuration, such as published results
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
    """Runs that were trained alike, and in words what was left out because it was trained
    otherwise."""

    runs: pd.DataFrame
    left_out: tuple[str, ...]


def trained_alike(runs: pd.DataFrame) -> Choice:
    """Keep, for every problem, the way of training that covers the most architectures.

    A store may hold one problem trained in several ways (2,000 steps and 100, `rba="text"` and
    `"published"`); medians and wins across them mean nothing. Among ways that cover equally many
    architectures the one with more runs is taken, then the longer. Variants of one scheme (its
    `gain`, say) are treated alike, scheme by scheme.
    """
    runs = check(runs).reset_index(drop=True)
    common, left = _principal(runs, ["problem"], [c for c in TRAINING if c in runs.columns])
    own = [c for c in _SCHEME_OPTIONS if c in runs.columns]
    alike, also_left = _principal(common, ["problem", "scheme"], own)
    return Choice(alike, (*left, *also_left))


def _options(runs: pd.DataFrame) -> list[str]:
    """The configuration columns of `runs` beyond problem, architecture, exponents and seed."""
    return [c for c in (*TRAINING, *_SCHEME_OPTIONS) if c in runs.columns]


_SEPARATOR = "\x1f"


def _principal(
    runs: pd.DataFrame, within: list[str], columns: list[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    varying = [c for c in columns if runs[c].astype(str).nunique() > 1]
    if not varying or runs.empty:
        return runs, ()
    way = runs[varying].astype(str).agg(_SEPARATOR.join, axis=1)
    steps = runs["steps"] if "steps" in runs.columns else pd.Series(0, index=runs.index)
    shape = runs[list(ARCHITECTURE)].astype(str).agg(" ".join, axis=1)
    table = pd.DataFrame({"way": way, "steps": steps, "shape": shape})
    keep = pd.Series(False, index=runs.index)
    left: list[str] = []
    for names, rows in runs.groupby(within, sort=False):
        part = table.loc[rows.index]
        score = part.groupby("way").agg(
            shapes=("shape", "nunique"), count=("shape", "size"), steps=("steps", "max")
        )
        best = score.sort_values(["shapes", "count", "steps"]).index[-1]
        keep[rows.index] = part["way"].eq(best)
        label = " ".join(str(name) for name in names)
        for other, row in score.drop(index=best).iterrows():
            values = str(other).split(_SEPARATOR)
            told = ", ".join(f"{c}={v}" for c, v in zip(varying, values, strict=True))
            left.append(f"{label}: {row['count']} runs with {told}")
    return runs[keep], tuple(left)
