"""Medians of loss and L² for every problem and scheme on one architecture."""

import pandas as pd

from kandle._errors import UserError
from kandle.analysis import finished, fixed_exponents, medians, trained_alike
from kandle.problems import AT_POLES, HEAVY_TAILED
from kandle.report import _names
from kandle.report.tables._made_of import SHORT, Design, made_of, on_shortened, shortened
from kandle.report.tables._table import Cell, Reference, Table

TIDY = ("problem", "scheme", "loss", "l2")


def median_table(
    runs: pd.DataFrame,
    shape: tuple[int, int, int],
    *,
    size: str = "",
    pair: tuple[float, float],
    study: str = "",
    design: Design | None = None,
    reference: Reference | None = None,
    coarse: tuple[str, ...] = (),
    number: str = "",
) -> Table:
    """Median loss and median L², taken separately, of each scheme and problem.

    Bold marks the lowest value of a problem as printed, so equal values are all bold.

    Args:
        runs: exported rows.
        shape: (G, width, depth) of the architecture to show.
        size: a name for that architecture, such as "small".
        pair: the exponents that represent the power law.
        study: the name of a user's study, for the caption.
        design: the planned runs; a table made from fewer says so.
        reference: numbers to print below ours, with difference and ratio.
        coarse: schemes whose reference losses are rounded to 1e-6.
        number: number of a table of the paper.
    """
    choice = trained_alike(_selected(runs, shape, pair, size))
    found = medians(choice.runs).set_index(["problem", "scheme"])
    problems = _names.ordered(found.index.get_level_values("problem").tolist())
    schemes = _names.ordered_schemes(found.index.get_level_values("scheme").tolist())
    order = [(p, s) for p in problems for s in schemes if (p, s) in found.index]
    tidy = found.loc[order].reset_index()[list(TIDY)]
    short = shortened(choice.runs)
    notes = [
        *made_of(choice.runs, design, choice.left_out, choice.kept),
        *on_shortened(short),
        *_on_poles(found, problems),
    ]
    if reference is not None:
        tidy, more = _compared(tidy, reference)
        notes += more
    rows = {(r.problem, r.scheme): r for r in tidy.itertuples()}
    blocks = tuple(
        _block(
            p + (SHORT if p in short else "") + _marks(p),
            [rows.get((p, s)) for s in schemes],
            reference is not None,
            coarse,
        )
        for p in problems
    )
    G, width, depth = shape
    caption = (
        f"Median loss and relative L² error, {size} architecture (G = {G}, {depth} hidden layers "
        f"of {width}), power law ({pair[0]:g}, {pair[1]:g})" + (f", study {study}" if study else "")
    ).replace("error,  arch", "error, arch")
    header = (Cell("Function"), *(Cell(m) for _ in schemes for m in ("Loss", "L²")))
    spans = (("", 1), *((_names.scheme(s), 2) for s in schemes))
    label = f"tab:{number}" if number else f"tab:medians-{size or 'own'}"
    return Table(caption, header, blocks, tidy, tuple(notes), spans, label, number=number)


def _selected(
    runs: pd.DataFrame, shape: tuple[int, int, int], pair: tuple[float, float], size: str
) -> pd.DataFrame:
    columns = ["G", "width", "depth"]
    sized = runs[(runs[columns] == pd.Series(dict(zip(columns, shape, strict=True)))).all(axis=1)]
    if finished(sized).empty:
        shapes = runs[columns].drop_duplicates().to_numpy().tolist()
        available = "; ".join(f"G={g} width={w} depth={d}" for g, w, d in shapes)
        wanted = "G={} width={} depth={}".format(*shape)
        raise UserError(
            f"This table needs finished runs of the architecture {size} ({wanted}). "
            f"Available: {available}."
        )
    return fixed_exponents(sized, pair)


def _compared(tidy: pd.DataFrame, reference: Reference) -> tuple[pd.DataFrame, list[str]]:
    tidy = tidy.merge(reference.values, on=["problem", "scheme"], how="left")
    for metric in ("loss", "l2"):
        tidy[f"{metric}_difference"] = tidy[metric] - tidy[f"{metric}_paper"]
    doubts = reference.doubts
    tidy["note"] = [
        "; ".join(f"{m}: {doubts[(p, s, m)]}" for m in ("loss", "l2") if (p, s, m) in doubts)
        for p, s in tidy[["problem", "scheme"]].itertuples(index=False, name=None)
    ]
    shown = set(tidy[["problem", "scheme"]].itertuples(index=False, name=None))
    notes = [
        f"† {p}, {_names.scheme(s)}, {m}: {text}."
        for (p, s, m), text in doubts.items()
        if (p, s) in shown
    ]
    below = "Below each number: the paper's, ours minus it, and ours divided by it."
    return tidy, [below, *reference.notes(tidy), *notes]


def _marks(problem: str) -> str:
    return ("‡" if problem in AT_POLES else "") + ("§" if problem in HEAVY_TAILED else "")


def _block(
    label: str, rows: list, paper: bool, coarse: tuple[str, ...]
) -> tuple[tuple[Cell, ...], ...]:
    ours, printed = [Cell(label)], [Cell("  paper")]
    differences, ratios = [Cell("  diff.")], [Cell("  ratio")]
    lowest = {
        metric: min(
            # NaN medians take no part.
            (_rounded(v) for r in rows if r is not None and (v := getattr(r, metric)) == v),
            default=None,
        )
        for metric in ("loss", "l2")
    }
    for r in rows:
        for metric in ("loss", "l2"):
            if r is None:
                ours.append(Cell("no runs"))
                for line in (printed, differences, ratios):
                    line.append(Cell())
                continue
            value = getattr(r, metric)
            ours.append(_number(value, _rounded(value) == lowest[metric]))
            if paper:
                theirs = getattr(r, f"{metric}_paper")
                wrong = f"{metric}:" in r.note
                printed.append(_number(theirs, False, "†" if wrong else ""))
                differences.append(_difference(value, theirs))
                ratios.append(_ratio(value, theirs, metric == "loss" and r.scheme in coarse))
    lines = (ours, printed, differences, ratios) if paper else (ours,)
    return tuple(tuple(line) for line in lines)


def _rounded(value: float) -> float:
    return float(f"{value:.2e}")


def _number(value: float, bold: bool, mark: str = "") -> Cell:
    """`1.52e-04` in text, 1.52 · 10⁻⁴ in LaTeX, both to the paper's three digits."""
    if pd.isna(value):
        return Cell("–")
    mantissa, exponent = f"{value:.2e}".split("e")
    power = f"10^{{{int(exponent)}}}"
    math = rf"{mantissa} \cdot {power}"
    dagger = r"{}^\dagger" if mark else ""
    # \textbf does not reach into math.
    latex = rf"$\mathbf{{{math}}}{dagger}$" if bold else rf"${math}{dagger}$"
    return Cell(f"{mantissa}e{int(exponent):+03d}{mark}", bold, latex)


def _difference(ours: float, theirs: float) -> Cell:
    """ours - theirs, signed, to the digits of the figures."""
    if pd.isna(ours) or pd.isna(theirs):
        return Cell()
    size, exponent = f"{abs(ours - theirs):.2e}".split("e")
    sign = "-" if ours < theirs else "+"
    latex = rf"${sign}{size} \cdot 10^{{{int(exponent)}}}$"
    return Cell(f"{sign.replace('-', '−')}{size}e{int(exponent):+03d}", latex=latex)


def _ratio(ours: float, theirs: float, coarse: bool) -> Cell:
    """ours/theirs; `coarse` figures were printed to 1e-6, and may agree within half of that."""
    if pd.isna(ours) or pd.isna(theirs):
        return Cell()
    same = coarse and abs(ours - theirs) <= 0.5e-6
    return Cell(f"{'≈ ' if same else ''}×{ours / theirs:.3g}")


def _on_poles(found: pd.DataFrame, problems: list[str]) -> list[str]:
    notes = []
    if poles := [p for p in problems if p in AT_POLES]:
        notes.append(
            f"‡ {', '.join(poles)}: single points of the evaluation grid come within 1e-6 of a "
            "pole, so L² is 1.00 whatever was learned."
        )
    if heavy := [p for p in problems if p in HEAVY_TAILED]:
        notes.append(
            f"§ {', '.join(heavy)}: heavy-tailed targets; the few training points nearest a pole "
            "decide the loss."
        )
    if "l2_robust" in found.columns:
        for p in (p for p in problems if p in {*AT_POLES, *HEAVY_TAILED}):
            robust = found.loc[p]["l2_robust"].dropna()
            if len(robust):
                values = ", ".join(f"{_names.scheme(str(s))} {v:.2e}" for s, v in robust.items())
                notes.append(f"{p}, robust error (median relative): {values}.")
    return notes
