"""What each switchable difference from the published runs changes: effects on the affected cells.

    kandle study run studies/differences-functions.toml --store runs
    kandle study run studies/differences-bias.toml --store runs
    kandle study run studies/differences-pdes.toml --store runs
    python benchmarks/differences.py --store runs

Two runs are a pair if they differ in the switch alone: same problem, scheme, architecture and seed.
The effect is the median over pairs of the ratio of their final losses (and of their L² errors), the
switched run over the default one, with a 95% interval (below six pairs the whole range). The p
value of the signed-rank test over all schemes is adjusted for all differences by Holm's method.
Numbers of the differences are those of docs/differences.md.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kandle.analysis import finished, holm, median_interval, signed_rank_test
from kandle.store import Store

CELL = ["problem", "scheme", "alpha", "beta", "G", "width", "depth", "seed"]
SWITCHES = ("gain", "settings", "draws", "bias", "rba", "reference")
DEFAULTS = {
    "settings": ("", '{"split":"equal"}'),
    "draws": ("independent",),
    "bias": (True,),
    "rba": ("published", ""),
    "reference": ("dirichlet", ""),
}


@dataclass(frozen=True)
class Difference:
    """Runs in which `switched` holds, beside runs with the defaults."""

    number: str
    name: str
    switched: Mapping[str, object]


DIFFERENCES = (
    Difference("2", "Glorot with gain 1 (Eq. 5 to the letter)", {"gain": 1.0}),
    Difference("3", "RBA as in the text", {"rba": "text"}),
    Difference("4, 25", "draws and points of the published runs", {"draws": "published"}),
    Difference("5", "no bias (Eq. 1 to the letter)", {"bias": False}),
    Difference("13", "Allen–Cahn against the periodic solution", {"reference": "periodic"}),
    Difference("23", "no RBA", {"rba": "off"}),
    Difference("23", "LeCun with a 50–50 split", {"settings": '{"split":"half"}'}),
)


def pairs(runs: pd.DataFrame, difference: Difference) -> pd.DataFrame:
    """Losses and errors with the switch (`loss`, `l2`) and without it (`loss_default`, …)."""
    runs = runs.drop_duplicates([*CELL, *SWITCHES])
    ours, theirs = runs, runs
    for column in SWITCHES:
        if column in difference.switched:
            ours = ours[ours[column].eq(difference.switched[column])]
            theirs = theirs[~theirs[column].eq(difference.switched[column])]
        allowed = _defaults(theirs[column], column)
        theirs = theirs[allowed]
        if column not in difference.switched:
            ours = ours[_defaults(ours[column], column)]
    columns = [*CELL, "loss", "l2"]
    return ours[columns].merge(theirs[columns], on=CELL, suffixes=("", "_default"))


def _defaults(values: pd.Series, column: str) -> pd.Series:
    """Which values of a switch are the default; "" where it does not apply to the problem."""
    return values.isna() if column == "gain" else values.isin(DEFAULTS[column])


def effects(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per difference and scheme, and one for all schemes."""
    rows = []
    for difference in DIFFERENCES:
        found = pairs(runs, difference)
        parts = list(found.groupby("scheme", sort=False))
        for scheme, part in parts if len(parts) <= 1 else [("all", found), *parts]:
            row = {"difference": difference.number, "switched": difference.name, "scheme": scheme}
            row |= {"problems": ", ".join(dict.fromkeys(part["problem"])), "pairs": len(part)}
            for metric in ("loss", "l2"):
                ratios = (part[metric] / part[f"{metric}_default"]).to_numpy(float)
                low, high = np.exp(median_interval(np.log(ratios)))
                row |= {metric: float(np.median(ratios)), f"{metric}_low": low}
                row |= {f"{metric}_high": high, f"{metric}_p": signed_rank_test(ratios)}
            rows.append(row)
    table = pd.DataFrame(rows)
    whole = ~table.duplicated("switched")  # the first row of a difference has all its schemes
    for metric in ("loss", "l2"):
        p = table[f"{metric}_p"].where(whole)
        table[f"{metric}_p"] = holm(p.to_numpy(float))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store", required=True, metavar="DIR")
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")
    chosen = parser.parse_args()
    with Store.open(chosen.store) as store:
        runs = store.frame()
    runs = finished(runs[runs["study"].str.startswith("differences-")])
    if runs.empty:
        parser.error(f"{chosen.store} has no finished runs of studies/differences-*.toml")
    table = effects(runs)
    if chosen.csv:
        print(table.to_csv(index=False), end="")
        return
    print("| | switched | scheme | problems | pairs | loss × | p | L² × | p |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for r in table.to_dict("records"):
        cells = [
            f"{r[m]:.2f} [{r[f'{m}_low']:.2f}, {r[f'{m}_high']:.2f}] | "
            + ("" if np.isnan(r[f"{m}_p"]) else f"{r[f'{m}_p']:.2g}")
            for m in ("loss", "l2")
        ]
        head = (r["difference"], r["switched"], r["scheme"], r["problems"], str(r["pairs"]))
        print(f"| {' | '.join([*head, *cells])} |")


if __name__ == "__main__":
    main()
