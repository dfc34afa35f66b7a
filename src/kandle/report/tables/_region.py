"""The favourable exponents of a study as a table of their own."""

import pandas as pd

from kandle._errors import UserError
from kandle.analysis import confidence, describe, favourable_region, trained_alike, trivial_settings
from kandle.report.tables._made_of import made_of
from kandle.report.tables._table import Cell, Table


def region_table(runs: pd.DataFrame, study: str) -> Table:
    """Every exponent pair of a study with its loss relative to the best single pair's."""
    power = runs[runs["scheme"].eq("power-law")]
    choice = trained_alike(power)
    region = favourable_region(choice.runs)
    if region.empty:
        raise UserError(f"Study {study!r} has no power-law runs, so no favourable exponents.")
    if len(region) < 2:
        raise UserError(
            f"Favourable exponents are found by comparing pairs, and study {study!r} has one pair "
            f"only: {region['alpha'].iloc[0]:g}, {region['beta'].iloc[0]:g}."
        )
    header = ("α", "β", "Settings", "Seeds", "Loss / best pair's", "95% interval")
    header = (*header, "p", "p (Holm)", "In the region")
    rows = [
        (
            Cell(f"{r.alpha:g}"),
            Cell(f"{r.beta:g}"),
            Cell(f"{r.settings}"),
            Cell(f"{r.seeds}"),
            Cell(f"{r.ratio:.3g}"),
            Cell(f"[{r.low:.3g}, {r.high:.3g}]"),
            Cell(f"{r.p:.1e}"),
            Cell(f"{r.holm:.1e}"),
            Cell(("yes" if r.certain else "likely") if r.inside else ""),
        )
        for r in region.itertuples()
    ]
    notes = (
        f"Region ({confidence(region)}): {describe(region)}.",
        "In the region: on the median setting (a problem and an architecture) the loss is at most "
        "twice that of the best single pair; yes if that holds for the whole interval and for "
        "several seeds, likely otherwise. p: signed-rank test against the best pair, raw and "
        "adjusted for all pairs by Holm's method.",
        *_on_trivial(choice.runs),
        *made_of(choice.runs, None, choice.left_out, choice.kept),
    )
    caption = f"Favourable exponents of the power law, study {study}"
    cells = tuple(Cell(h) for h in header)
    return Table(caption, cells, (tuple(rows),), region, notes, label="tab:region")


def _on_trivial(runs: pd.DataFrame) -> list[str]:
    count = trivial_settings(runs)
    settings = len(runs.drop_duplicates(["problem", "G", "width", "depth"]))
    if not count:
        return []
    return [
        f"{count} of {settings} settings are left out: there most pairs are within a factor of two "
        "of the best, so they cannot distinguish pairs."
    ]
