"""Published and own results side by side, from whatever runs a store holds.

    kandle study run benchmarks/faithfulness-functions-small.toml --store DIR
    python benchmarks/faithfulness.py --store DIR [--parts functions-small,feynman-small] [--csv]
                                      [--draws independent]

A cell is one problem, architecture, scheme and metric. It is inside when the own median lies in the
published range, minimum to maximum over runs, widened by a factor 1.5 on both sides; where only a
printed median is known (Table 3), when it lies within a factor 2 of that.

The runs compared are the published ones made again: on their points, from their starts, which is
what `draws = "published"` and the seeds 43 to 47 mean. With `--draws independent` it is those of
independent-*.toml: points of Kandle's own, and every layer from numbers of its own.

The last loss of a run is one moment of a curve that may swing by orders of magnitude under a
constant rate. Beside each loss outside stands what the own curves did in the last quarter of
training: the 10th, 50th and 90th percentile over steps and seeds.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from kandle.analysis import finished, medians
from kandle.paper import _printed as printed_numbers
from kandle.store import Store

PARTS = (
    "functions-small",
    "pdes-small",
    "feynman-small",
    "functions-large",
    "pdes-large",
)
KEY = ["problem", "scheme", "alpha", "beta"]
WIDENED, FACTOR = 1.5, 2.0
ENOUGH = 0.9
# Table 3 prints most baseline and Glorot losses to the nearest 1e-6.
COARSE, HALF_DIGIT = ("baseline", "glorot"), 0.5e-6
# Misprints of Table 3: what the runs behind it give instead.
CORRECTED = {
    ("II.2.42", "baseline", "loss"): 7.99e-6,
    ("I.27.6", "power-law", "loss"): 1.79e-1,
}
STUDIES = {"published": "faithfulness", "independent": "independent"}
CELLS = Path(__file__).parent / "published_cells.csv"


def published(part: str) -> pd.DataFrame:
    """problem, scheme, alpha, beta, metric, least, median, most; the ends before any widening."""
    kind, architecture = part.rsplit("-", 1)
    if kind == "feynman":
        return _printed()
    cells = pd.read_csv(CELLS)
    cells = cells[cells["study"].eq(kind) & cells["architecture"].eq(architecture)]
    metrics = [
        cells[KEY].assign(
            metric=metric,
            least=cells[f"{metric}_min"],
            median=cells[f"{metric}_median"],
            most=cells[f"{metric}_max"],
        )
        for metric in ("loss", "l2")
    ]
    # For the power law on functions no errors are published, only losses.
    return pd.concat(metrics).dropna(subset="median")


def _printed() -> pd.DataFrame:
    table = printed_numbers.feynman("3").values
    power = table["scheme"].eq("power-law")
    table = table.assign(alpha=np.where(power, 0.25, np.nan), beta=np.where(power, 1.75, np.nan))
    rows = []
    for metric in ("loss", "l2"):
        for row in table.to_dict("records"):
            value = row[f"{metric}_paper"]
            value = CORRECTED.get((row["problem"], row["scheme"], metric), value)
            blur = HALF_DIGIT if metric == "loss" and row["scheme"] in COARSE else 0.0
            rows.append(
                {k: row[k] for k in KEY}
                | {"metric": metric, "median": value, "least": value - blur, "most": value + blur}
            )
    return pd.DataFrame(rows)


def own(runs: pd.DataFrame) -> pd.DataFrame:
    """problem, scheme, alpha, beta, metric, own, runs, steps: medians over finished runs.

    Where a store holds trainings of several lengths, the longest of each problem count.
    """
    runs = runs[runs["steps"].eq(runs.groupby("problem")["steps"].transform("max"))]
    cells = medians(runs)
    steps = finished(runs).groupby("problem")["steps"].max()
    shared = cells[[*KEY, "runs"]].assign(steps=cells["problem"].map(steps))
    metrics = [shared.assign(metric=m, own=cells[m]) for m in ("loss", "l2")]
    return pd.concat(metrics).dropna(subset="own")


def compare(part: str, runs: pd.DataFrame) -> pd.DataFrame:
    """A row per cell that is published or trained; `ratio` and `inside` are NA if not both are."""
    factor = FACTOR if part.startswith("feynman") else WIDENED
    both = published(part).merge(own(runs), on=[*KEY, "metric"], how="outer")
    known = both["median"].notna() & both["own"].notna()
    between = both["own"].between(both["least"] / factor, both["most"] * factor)
    return both.assign(
        part=part,
        ratio=both["own"] / both["median"],
        inside=between.astype("boolean").where(known),
    )


def swing(store: Store, runs: pd.DataFrame, row) -> str:
    """The own losses of a cell in the last quarter of training, in words."""
    power = row.scheme == "power-law"
    cell = runs[runs["problem"].eq(row.problem) & runs["scheme"].eq(row.scheme)]
    if power:
        cell = cell[cell["alpha"].eq(row.alpha) & cell["beta"].eq(row.beta)]
    curves = store.curves(cell["identity"]).values()
    late = [curve.loss[curve.steps > 0.75 * curve.steps[-1]] for curve in curves]
    if row.metric != "loss" or not late:
        return ""
    low, middle, high = np.nanpercentile(np.concatenate(late), (10, 50, 90))
    return f"  last quarter {low:.2g} … {middle:.2g} … {high:.2g}"


def _line(row) -> str:
    name = row.scheme
    if row.scheme == "power-law":
        name += f" {row.alpha:g},{row.beta:g}"
    numbers = "".join(
        f"{'-' if pd.isna(v) else format(v, '.3g'):>11}"
        for v in (row.least, row.median, row.most, row.own, row.ratio)
    )
    verdict = "" if pd.isna(row.inside) else "inside" if row.inside else "OUTSIDE"
    count = "" if pd.isna(row.runs) else f"{row.runs:.0f}"
    return f"{row.problem:<12}{name:<21}{row.metric:<5}{numbers}  {verdict:<8}{count:>4}"


def _table(part: str, cells: pd.DataFrame) -> None:
    lengths = ", ".join(f"{s:.0f}" for s in sorted(cells["steps"].dropna().unique()))
    print(f"\n{part} ({lengths} steps)")
    heads = ("least", "published", "most", "own", "ratio")
    print(f"{'problem':<12}{'scheme':<21}{'':<5}{''.join(f'{h:>11}' for h in heads)}{'':10}runs")
    for row in cells.itertuples():
        print(_line(row))
    _share(part, cells)


def _share(what: str, cells: pd.DataFrame) -> None:
    judged = cells["inside"].dropna()
    waiting = int((cells["median"].notna() & cells["own"].isna()).sum())
    new = int((cells["median"].isna() & cells["own"].notna()).sum())
    summary = f"{what}: {judged.sum()} of {len(judged)} cells inside"
    if len(judged):
        summary += f" ({judged.mean():.1%}, bar {ENOUGH:.0%})"
    if waiting:
        summary += f", {waiting} not trained yet"
    if new:
        summary += f", {new} with nothing published"
    print(summary)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store", required=True, metavar="DIR")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--draws", default="published", choices=STUDIES)
    parser.add_argument("--csv", action="store_true", help="print all cells as CSV")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    with Store.open(arguments.store) as store:
        study = STUDIES[arguments.draws]
        found = {part: store.frame(f"{study}-{part}") for part in parts}
        return _report(store, found, as_csv=arguments.csv)


def _report(store: Store, found: dict[str, pd.DataFrame], *, as_csv: bool) -> int:
    compared = {part: compare(part, runs) for part, runs in found.items() if len(runs)}
    for part in found:
        if part not in compared:
            print(f"{part}: no runs in this store", file=sys.stderr)
    if not compared:
        return 1
    every = pd.concat(compared.values())
    if as_csv:
        every.to_csv(sys.stdout, index=False)
        return 0
    for part, cells in compared.items():
        _table(part, cells)
    outside = every[every["inside"].eq(False).fillna(False)]
    print("\nOutside:" if len(outside) else "")
    for row in outside.itertuples():
        print(_line(row) + swing(store, found[row.part], row))
    _share("\nall", every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
