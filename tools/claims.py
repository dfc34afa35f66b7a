"""Each claim of the paper that runs can test, judged by the runs of a store."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kandle._errors import UserError
from kandle.analysis import (
    ARCHITECTURE,
    favourable_region,
    finished,
    fixed_exponents,
    percentage,
    representatives,
    share_interval,
    trained_alike,
    win_rates,
)
from kandle.paper import TABLES, _printed, table
from kandle.paper._design import CURVE_SCHEMES, EXPONENTS, POWER_LAW
from kandle.paper._tables import DESIGNS, win_table
from kandle.report import _names
from kandle.report._load import Data, load, open_store, study_runs

VERDICTS = ("holds", "holds in part", "does not hold")
NO_RUNS = "no runs yet"
_PAIRS = len(EXPONENTS) ** 2
_LABELS = {"loss": "loss", "l2": "L²", "both": "both"}
_SETTING = ["problem", *ARCHITECTURE]
_FAVOURED = {
    "1": ("α = 0.25–0.5, β ≥ 1", (0.25, 0.5), (1.0, 2.0)),
    "2": ("α = 0.25–0.5, β = 0.75–1.25", (0.25, 0.5), (0.75, 1.25)),
}
"""The region of exponents that the paper favours, by table: in words, and as ranges of α and β."""


@dataclass(frozen=True)
class Claim:
    """One line of the page. `wins` of `of` comparisons go the way the paper says; `source` says
    which runs they are made of."""

    section: str
    text: str
    paper: str
    wins: int
    of: int
    shown_in: str
    source: str = ""

    @property
    def ours(self) -> str:
        if not self.of:
            return "–"
        low, high = share_interval(self.wins, self.of)
        share = percentage(self.wins, self.of)
        return f"{share:.0f}% ({self.wins} of {self.of}) [{low:.0f}, {high:.0f}]"

    @property
    def verdict(self) -> str:
        """Holds if the interval lies above one half, in part if the share does."""
        if not self.of:
            return NO_RUNS
        low, _ = share_interval(self.wins, self.of)
        return VERDICTS[0 if low > 50 else 1 if 2 * self.wins > self.of else 2]


def claims(store: str | Path) -> list[Claim]:
    """Every claim of the paper that runs can test, judged by the runs of a store."""
    return [claim for source in _SOURCES for claim in source(store)]


def summary(found: Sequence[Claim]) -> dict[str, int]:
    """How many claims have each verdict."""
    return {v: sum(c.verdict == v for c in found) for v in (*VERDICTS, NO_RUNS)}


# Tables 1 and 2 --------------------------------------------------------------------------------


def completely_searched(runs: pd.DataFrame, pairs: int = _PAIRS) -> pd.DataFrame:
    """`runs` without the power law where fewer than `pairs` exponent pairs were trained.

    The best of a few pairs is not the best of all: it would be judged as if it were.
    """
    power = runs[runs["scheme"].eq("power-law")]
    counts = power.drop_duplicates([*_SETTING, "alpha", "beta"]).groupby(_SETTING).size()
    whole = pd.MultiIndex.from_frame(runs[_SETTING]).isin(counts.index[counts >= pairs])
    return runs[whole | runs["scheme"].ne("power-law")]


def _win_claims(name: str, store: str | Path) -> Iterator[Claim]:
    """Claims on Table 1 or 2: pooled over its problems."""
    topic = "Functions" if name == "1" else "PDEs"
    runs = _study_runs(store, str(TABLES[name]))
    whole = None if runs is None else completely_searched(runs)
    rows, searched = (_rows(r, name) for r in (runs, whole))
    printed = _printed.win_rates(name).values
    better = ("is better than the baseline", True)
    worse = ("is worse than the baseline", False)
    wanted = [
        ("lecun-numerical", "loss", "LeCun–numerical", worse),
        ("lecun-normalized", "loss", "LeCun–normalized", worse if name == "1" else better),
        ("glorot", "loss", "Glorot", better),
        ("glorot", "l2", "Glorot", better),
        ("power-law", "loss", "the power law with the best of 81 pairs", better),
        ("power-law", "both", "the power law with the best of 81 pairs", better),
        ("power-law(0.25, 1)", "both", "the power law with the one pair (0.25, 1)", better),
        ("power-law(from", "both", "the power law with a pair chosen out of sample", better),
    ]
    for scheme, metric, who, (what, up) in wanted:
        best_of_many = scheme in ("power-law", "power-law(from")
        own = searched if best_of_many else rows
        named = own["scheme"].str.startswith(scheme)
        named = named if scheme.endswith("from") else own["scheme"].eq(scheme)
        own = own[named & own["metric"].eq(metric)]
        wins, of = int(own["wins"].sum()), int(own["of"].sum())
        theirs = printed[printed["scheme"].eq(scheme) & printed["metric"].eq(metric)]["paper"]
        number = f"{theirs.mean() if up else 100 - theirs.mean():.0f}%" if len(theirs) else "–"
        text = f"{topic}: {who} {what} ({_LABELS[metric]})"
        if name == "2" and scheme == "lecun-normalized":
            number, text = "never run", f"New result. {text}"
        source = _made_of(own, name, f" with all {_PAIRS} pairs" if best_of_many else "")
        yield Claim("4.1", text, number, wins if up else of - wins, of, f"Table {name}", source)
    yield from _about_variants(name, topic, runs)


def _about_variants(name: str, topic: str, runs: pd.DataFrame | None) -> Iterator[Claim]:
    """LeCun's two variants against one another, and the region of favourable exponents."""
    if name == "1":
        own = pd.DataFrame(columns=["scheme", "metric", "wins", "of", "problem"])
        if runs is not None:
            cells = representatives(trained_alike(runs).runs)
            numerical = "lecun-numerical"
            kept = cells[cells["scheme"].isin(["lecun-normalized", numerical])]
            own = win_rates(kept, rival=numerical)
            own = own[own["metric"].eq("loss")]
        wins, of = int(own["wins"].sum()), int(own["of"].sum())
        text = f"{topic}: LeCun–normalized is better than LeCun–numerical (loss)"
        yield Claim("4.1", text, "text", wins, of, "Table 1", _made_of(own, name))
    words, alphas, betas = _FAVOURED[name]
    wins = of = settings = 0
    if runs is not None:
        power = trained_alike(completely_searched(runs)).runs
        region = favourable_region(power[power["scheme"].eq("power-law")])
        claimed = region["alpha"].between(*alphas) & region["beta"].between(*betas)
        wins, of = int(region.loc[claimed, "inside"].sum()), int(claimed.sum())
        settings = int(region["settings"].max()) if of else 0
    text = f"{topic}: the pairs with {words} are within a factor of two of the best single pair"
    shown = "table region, figD1–D4" if name == "1" else "table region, figD5–D7"
    source = f"{settings} problems × architectures" if of else ""
    yield Claim("4.1, Appendix D", text, "text", wins, of, shown, source)


def _study_runs(store: str | Path, study: str) -> pd.DataFrame | None:
    try:
        with open_store(store) as opened:
            return study_runs(opened, study)
    except UserError:
        return None


def _rows(runs: pd.DataFrame | None, name: str) -> pd.DataFrame:
    """The tidy rows of Table 1 or 2, empty without runs."""
    try:
        if runs is not None:
            return win_table(runs, name).tidy
    except UserError:
        pass
    return pd.DataFrame(columns=["scheme", "metric", "problem", "wins", "of"]).astype(
        {"scheme": str, "metric": str}
    )


def _made_of(rows: pd.DataFrame, name: str, how: str = "") -> str:
    """How much of the paper's design a claim on Table 1 or 2 is judged on."""
    if rows.empty:
        return ""
    design = DESIGNS[name]
    problems, shapes = rows["problem"].nunique(), int(rows["of"].max())
    return (
        f"{problems} of {len(design.problems)} problems, {shapes} of {len(design.shapes)} "
        f"architectures{how}"
    )


# Section 4.2 and Appendices E, F ----------------------------------------------------------------


def _load(store: str | Path, study: str, *, spectra: bool = False) -> Data | None:
    try:
        return load(store, study, spectra=spectra)
    except UserError:
        return None


def _ends(runs: pd.DataFrame, decaying: bool) -> pd.DataFrame:
    """Median final loss, problems and sizes × schemes."""
    own = finished(fixed_exponents(runs, POWER_LAW))
    own = own[own["schedule"].ne("constant") == decaying]
    own = own[own["scheme"].isin(CURVE_SCHEMES)]
    return own.groupby(["problem", "G", "scheme"])["loss"].median().unstack("scheme")


def _curve_claims(store: str | Path) -> Iterator[Claim]:
    """Who ends lowest, problem by problem and size by size, and what a decaying rate changes."""
    kinds = (("functions", "fig1", "figE1"), ("pdes", "fig2", "figE2"))
    for kind, constant_figure, decaying_figure in kinds:
        topic = "Functions" if kind == "functions" else "PDEs"
        data = _load(store, f"curves-{kind}")
        runs = pd.DataFrame() if data is None else data.runs
        empty = pd.DataFrame(columns=list(CURVE_SCHEMES), dtype=float)
        constant, decaying = (empty if runs.empty else _ends(runs, d) for d in (False, True))
        source = "" if runs.empty else f"{runs['seed'].nunique()} of 5 seeds"
        section, shown = "4.2", constant_figure
        for ends, rate in ((constant, "constant"), (decaying, "decaying")):
            if rate == "decaying":
                section, shown = "Appendix E", decaying_figure
            whole = ends.reindex(columns=list(CURVE_SCHEMES)).dropna()
            wins = int((whole.idxmin(axis=1) == "power-law").sum()) if len(whole) else 0
            text = f"{topic}, {rate} rate: the power law ends with the lowest loss"
            yield Claim(section, text, "figure", wins, len(whole), shown, source)
            lecun = "lecun-numerical"
            wins = int((whole.idxmax(axis=1) == lecun).sum()) if len(whole) else 0
            text = f"{topic}, {rate} rate: LeCun–numerical ends with the highest loss"
            yield Claim(section, text, "figure", wins, len(whole), shown, source)
        before, after = constant.align(decaying, join="inner")
        wins, of = int((after > before).to_numpy().sum()), int((after - before).count().sum())
        text = f"{topic}: with a decaying rate, final losses are higher"
        yield Claim("Appendix E", text, "text", wins, of, decaying_figure, source)
        wins, of = _same_order(constant, decaying)
        text = f"{topic}: a decaying rate leaves the order of the schemes unchanged"
        yield Claim("Appendix E", text, "text", wins, of, decaying_figure, source)


def _same_order(constant: pd.DataFrame, decaying: pd.DataFrame) -> tuple[int, int]:
    """Problems and sizes on which all schemes stand in the same order under both rates."""
    ranks = [
        ends.reindex(columns=list(CURVE_SCHEMES)).dropna().rank(axis=1)
        for ends in (constant, decaying)
    ]
    first, second = ranks[0].align(ranks[1], join="inner", axis=0)
    return int((first == second).all(axis=1).sum()), len(first)


def _kernel_claims(store: str | Path) -> Iterator[Claim]:
    """Whether the kernels of the baseline and LeCun collapse, and those of the others do not."""
    for study, shown in (("ntk-functions", "fig3, N1–N4"), ("ntk-pdes", "fig4, N5, N6")):
        topic, block = ("PDEs", "pde") if study == "ntk-pdes" else ("Functions", "ntk")
        data = _load(store, study, spectra=True)
        for scheme in CURVE_SCHEMES:
            falls = scheme in ("baseline", "lecun-numerical")
            fell = [] if data is None else _median_falls(data, scheme, block)
            wins, of = sum(f == falls for f in fell), len(fell)
            what = "falls" if falls else "does not fall"
            text = f"{topic}, {_names.scheme(scheme)}: the kernel's median eigenvalue {what}"
            source = "one seed" if of else ""
            yield Claim("4.2, Appendix F", text, "figure", wins, of, shown, source)


def _median_falls(data: Data, scheme: str, block: str) -> list[bool]:
    """For each run of a scheme, whether its median eigenvalue is lower at the end of training."""
    found = []
    for identity in data.runs.loc[data.runs["scheme"].eq(scheme), "identity"]:
        spectra = [s for s in data.spectra.get(identity, []) if s.block == block]
        spectra.sort(key=lambda s: s.step)
        if len(spectra) > 1:
            first, last = (np.median(s.eigenvalues) for s in (spectra[0], spectra[-1]))
            found.append(bool(last < first))
    return found


# Section 4.3 ------------------------------------------------------------------------------------


def _feynman_claims(store: str | Path) -> Iterator[Claim]:
    """On how many equations the power law has the lowest median."""
    runs = _study_runs(store, "feynman")
    source = "" if runs is None else f"{runs['seed'].nunique()} of 5 seeds"
    for name, size in (("3", "small"), ("4", "large")):
        printed = _printed.read(name)
        try:
            rows = table(name, store).tidy
        except UserError:
            rows = printed.iloc[:0]
        for metric in ("loss", "l2"):
            wins, of = _lowest(rows, metric)
            theirs, whole = _lowest(printed, metric)
            text = f"Feynman, {size}: the power law has the lowest {_LABELS[metric]}"
            yield Claim("4.3", text, f"{theirs} of {whole}", wins, of, f"Table {name}", source)


def _lowest(rows: pd.DataFrame, metric: str) -> tuple[int, int]:
    if rows.empty:
        return 0, 0
    values = rows.pivot(index="problem", columns="scheme", values=metric).dropna()
    return int(values["power-law"].le(values.min(axis=1)).sum()), len(values)


_SOURCES: tuple[Callable[[str | Path], Iterator[Claim]], ...] = (
    lambda store: _win_claims("1", store),
    lambda store: _win_claims("2", store),
    _curve_claims,
    _kernel_claims,
    _feynman_claims,
)
