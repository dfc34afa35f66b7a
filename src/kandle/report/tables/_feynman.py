"""Tables 3 and 4: medians on the Feynman equations, small and large architecture."""

import pandas as pd

from kandle._errors import UserError
from kandle.analysis import finished, fixed_exponents, medians, trained_alike
from kandle.problems import AT_POLES, FEYNMAN, HEAVY_TAILED
from kandle.report import _names
from kandle.report.tables import _paper
from kandle.report.tables._made_of import SHORT, Design, made_of, on_shortened, shortened
from kandle.report.tables._table import Cell, Table

TIDY = ("problem", "scheme", "loss", "l2")
_SEEDS = {"baseline": 5, "glorot": 5, "power-law": 5}
_COARSE = ("baseline", "glorot")
_SIZES = {"3": ("small", _names.SMALL), "4": ("large", _names.LARGE)}


def feynman_table(
    runs: pd.DataFrame,
    name: str,
    *,
    pair: tuple[float, float] = _names.POWER_LAW,
    paper: bool = False,
    study: str = "",
) -> Table:
    """Table 3 or 4: median loss and median L², taken separately, of each scheme and equation.

    Bold marks the lowest of an equation as printed, so equal figures are all bold.
    """
    size, shape = _SIZES[name]
    choice = trained_alike(_selected(runs, shape, pair, f"Table {name}", size))
    found = medians(choice.runs).set_index(["problem", "scheme"])
    problems = _names.ordered(found.index.get_level_values("problem").tolist())
    schemes = _names.ordered_schemes(found.index.get_level_values("scheme").tolist())
    order = [(p, s) for p in problems for s in schemes if (p, s) in found.index]
    tidy = found.loc[order].reset_index()[list(TIDY)]
    own = study in ("", "feynman")
    architecture = (shape["G"], shape["width"], shape["depth"])
    design = Design(tuple(FEYNMAN), (architecture,), _SEEDS, 2000, (pair,)) if own else None
    short = shortened(choice.runs)
    notes = [
        *made_of(choice.runs, design, choice.left_out),
        *on_shortened(short),
        *_on_poles(found, problems),
    ]
    if paper:
        tidy, more = _compared(tidy, name)
        notes += more
    rows = {(r.problem, r.scheme): r for r in tidy.itertuples()}
    blocks = tuple(
        _block(
            p + (SHORT if p in short else "") + _marks(p),
            [rows.get((p, s)) for s in schemes],
            paper,
        )
        for p in problems
    )
    caption = (
        f"Median loss and relative L² error, {size} architecture (G = {shape['G']}, "
        f"{shape['depth']} hidden layers of {shape['width']}), power law ({pair[0]:g}, {pair[1]:g})"
        + ("" if own else f", study {study}")
    )
    header = (Cell("Function"), *(Cell(m) for _ in schemes for m in ("Loss", "L²")))
    spans = (("", 1), *((_names.scheme(s), 2) for s in schemes))
    label = f"tab:{name}" if own else f"tab:medians-{size}"
    return Table(
        caption, header, blocks, tidy, tuple(notes), spans, label, number=name if own else ""
    )


def _selected(
    runs: pd.DataFrame, shape: dict[str, int], pair: tuple[float, float], what: str, size: str
) -> pd.DataFrame:
    sized = runs[(runs[list(shape)] == pd.Series(shape)).all(axis=1)]
    if finished(sized).empty:
        shapes = runs[list(shape)].drop_duplicates().to_numpy().tolist()
        held = "; ".join(f"G={g} width={w} depth={d}" for g, w, d in shapes)
        wanted = " ".join(f"{k}={v}" for k, v in shape.items())
        raise UserError(f"{what} needs finished runs of {size} ({wanted}). Held: {held}.")
    return fixed_exponents(sized, pair)


def _compared(tidy: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    tidy = tidy.merge(_paper.feynman(name), on=["problem", "scheme"], how="left")
    for metric in ("loss", "l2"):
        tidy[f"{metric}_difference"] = tidy[metric] - tidy[f"{metric}_paper"]
    wrong = _paper.MISPRINTS[name]
    tidy["note"] = [
        "; ".join(f"{m}: {wrong[(p, s, m)]}" for m in ("loss", "l2") if (p, s, m) in wrong)
        for p, s in tidy[["problem", "scheme"]].itertuples(index=False, name=None)
    ]
    shown = set(tidy[["problem", "scheme"]].itertuples(index=False, name=None))
    notes = [
        f"† {p}, {_names.scheme(s)}, {m}: {text}."
        for (p, s, m), text in wrong.items()
        if (p, s) in shown
    ]
    below = "Below each figure: the paper's, ours less it, and ours divided by it."
    return tidy, [below, _paper.ROUNDED, *notes]


def _marks(problem: str) -> str:
    return ("‡" if problem in AT_POLES else "") + ("§" if problem in HEAVY_TAILED else "")


def _block(label: str, rows: list, paper: bool) -> tuple[tuple[Cell, ...], ...]:
    ours, printed = [Cell(label)], [Cell("  paper")]
    differences, ratios = [Cell("  diff.")], [Cell("  ratio")]
    lowest = {
        metric: min(
            # A median that is not a number is no rival of the others.
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
                ratios.append(_ratio(value, theirs, metric == "loss" and r.scheme in _COARSE))
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
    dagger = r"^\dagger" if mark else ""
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
            "pole, so that L² is 1.00 whatever was learned."
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
                told = ", ".join(f"{_names.scheme(str(s))} {v:.2e}" for s, v in robust.items())
                notes.append(f"{p}, robust error (median relative): {told}.")
    return notes
