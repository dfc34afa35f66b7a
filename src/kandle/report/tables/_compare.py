"""Results of any study by the values of any exported column: optimizer, basis, gain, G."""

import numpy as np
import pandas as pd

from kandle._errors import UserError
from kandle.analysis import distinct, finished, median_interval, pooled_axes
from kandle.report import _names
from kandle.report.tables._table import Cell, Table

_METRICS = {"loss": "loss", "l2": "L²", "test_mse": "test MSE"}
TIDY = ("value", "problem", "runs", "unfinished", "median", "low", "high")


def compare_table(runs: pd.DataFrame, study: str, by: str, metric: str = "loss") -> Table:
    """Median of `metric` for each problem and each value of the column `by`, which are the rows.

    Beside each median stand its 95% interval (two order statistics; the whole range below six runs)
    and the number of runs; runs that did not finish are counted and take no part. Bold marks the
    lowest median of a problem.
    """
    if by not in runs.columns:
        known = ", ".join(map(str, runs.columns))
        raise UserError(f"'--by' takes an exported column. Got {by!r}. Columns: {known}.")
    every = distinct(runs)
    done = finished(every)
    done = done[done[metric].notna()]
    if done.empty:
        raise UserError(f"Study {study!r} has no finished run with a {_METRICS[metric]}.")
    names = _names.labels(every, by)
    values = _names.ordered_labels(every, by)
    problems = _names.ordered(done["problem"].tolist())
    records = []
    for problem in problems:
        for value in values:
            mine = every["problem"].eq(problem) & names.eq(value)
            if not mine.any():
                continue
            own = done.loc[mine[done.index], metric].to_numpy(float)
            low, high = median_interval(own)
            middle = float(np.median(own)) if len(own) else np.nan
            unfinished = int(mine.sum()) - len(own)
            records.append((value, problem, len(own), unfinished, middle, low, high))
    tidy = pd.DataFrame(records, columns=list(TIDY))
    blocks = tuple(_block(part) for _, part in tidy.groupby("problem", sort=False))
    titles = ("Problem", by, "Runs", f"Median {_METRICS[metric]}", "95% interval")
    header = tuple(Cell(title) for title in titles)
    lost = int(tidy["unfinished"].sum())
    pooled = ", ".join([*pooled_axes(done, by), "seeds"])
    notes = [
        f"{len(done):,} runs of study {study}; medians over {pooled} (use --where to narrow it). "
        "Interval of the median: below six runs the whole range.",
        *([f"{lost:,} runs did not finish and are left out."] if lost else []),
    ]
    caption = f"Median {_METRICS[metric]} by {by}, study {study}"
    return Table(caption, header, blocks, tidy, tuple(notes), label=f"tab:{by}")


def _block(rows: pd.DataFrame) -> tuple[tuple[Cell, ...], ...]:
    """The lines of one problem, which is named on the first."""
    best = rows["median"].min()
    return tuple(
        (
            Cell("" if i else _names.problem(str(row.problem))),
            Cell(str(row.value)),
            Cell(f"{row.runs}"),
            Cell(f"{row.median:.2e}" if row.runs else "did not finish", row.median == best),
            Cell(f"[{row.low:.1e}, {row.high:.1e}]" if row.runs else ""),
        )
        for i, row in enumerate(rows.itertuples())
    )
