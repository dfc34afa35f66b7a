"""The results page: each claim of the paper, its number, ours with an interval, and a verdict.

python -m kandle.paper._page docs/results.md --store results
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from kandle._errors import UserError
from kandle.analysis import percentage, share_interval
from kandle.paper import _printed
from kandle.paper._design import CURVE_SCHEMES, PDES, POWER_LAW
from kandle.paper._results import describe
from kandle.paper._tables import table
from kandle.report import _names
from kandle.report._load import load
from kandle.store import StoreError, read_manifest

_VERDICTS = ("holds", "holds in part", "does not hold")
_NO_RUNS = "no runs yet"


@dataclass(frozen=True)
class Claim:
    """One line of the page. `wins` of `of` comparisons go the way the paper says."""

    section: str
    text: str
    paper: str
    wins: int
    of: int
    shown_in: str

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
            return _NO_RUNS
        low, _ = share_interval(self.wins, self.of)
        return _VERDICTS[0 if low > 50 else 1 if 2 * self.wins > self.of else 2]


def _win_claims(name: str, section: str, store: str | Path) -> Iterator[Claim]:
    """Claims on Table 1 or 2: pooled over its problems."""
    try:
        rows = table(name, store).tidy
    except UserError:
        rows = pd.DataFrame(columns=["scheme", "metric", "problem", "wins", "of"])
    printed = _printed.win_rates(name).values
    topic = "functions" if name == "1" else "PDEs"
    claims = [
        ("lecun-numerical", "loss", False, "LeCun–numerical is worse than the baseline (loss)"),
        ("glorot", "loss", True, "Glorot is better than the baseline (loss)"),
        ("glorot", "l2", True, "Glorot is better than the baseline (L²)"),
        ("power-law", "loss", True, "The power law with the best pair is better (loss)"),
        ("power-law", "both", True, "The power law with the best pair is better (both)"),
        ("power-law(0.25, 1)", "both", True, "The one pair (0.25, 1) is better (both)"),
        ("power-law(from", "both", True, "The power law with a pair chosen out of sample (both)"),
    ]
    if name == "1":
        text = "LeCun–normalized is worse than the baseline (loss)"
        claims.insert(1, ("lecun-normalized", "loss", False, text))
    else:
        text = "New result: LeCun–normalized is better than the baseline (loss)"
        claims.insert(1, ("lecun-normalized", "loss", True, text))
    for scheme, metric, better, text in claims:
        own = rows[rows["scheme"].str.startswith(scheme) & rows["metric"].eq(metric)]
        own = own if scheme.endswith("from") else own[own["scheme"].eq(scheme)]
        wins, of = int(own["wins"].sum()), int(own["of"].sum())
        theirs = printed[printed["scheme"].eq(scheme) & printed["metric"].eq(metric)]["paper"]
        number = f"{theirs.mean() if better else 100 - theirs.mean():.0f}%" if len(theirs) else "–"
        if name == "2" and scheme == "lecun-normalized":
            number = "never run"
        yield Claim(
            section, f"{topic}: {text}", number, wins if better else of - wins, of, f"Table {name}"
        )


def _feynman_claims(store: str | Path) -> Iterator[Claim]:
    """On how many equations the power law has the lowest median."""
    for name, size in (("3", "small"), ("4", "large")):
        printed = _printed.read(name)
        try:
            rows = table(name, store).tidy
        except UserError:
            rows = printed.iloc[:0]
        for metric, label in (("loss", "loss"), ("l2", "L²")):
            wins, of = _lowest(rows, metric)
            theirs, whole = _lowest(printed, metric)
            text = f"Feynman, {size}: the power law has the lowest {label}"
            yield Claim("4.2", text, f"{theirs} of {whole}", wins, of, f"Table {name}")


def _lowest(rows: pd.DataFrame, metric: str) -> tuple[int, int]:
    if rows.empty:
        return 0, 0
    values = rows.pivot(index="problem", columns="scheme", values=metric).dropna()
    return int(values["power-law"].le(values.min(axis=1)).sum()), len(values)


def _curve_claims(store: str | Path) -> Iterator[Claim]:
    """On how many problems and sizes the power law ends with the lowest median loss."""
    kinds = (("functions", "fig1", "figE1"), ("pdes", "fig2", "figE2"))
    for kind, constant, scheduled in kinds:
        try:
            runs = load(store, f"curves-{kind}").runs
        except UserError:
            runs = None
        for decaying, shown in ((False, constant), (True, scheduled)):
            wins = of = 0
            if runs is not None:
                own = runs[runs["schedule"].ne("constant") == decaying]
                own = own[own["scheme"].isin(CURVE_SCHEMES)]
                ends = own.groupby(["problem", "G", "scheme"])["loss"].median().unstack().dropna()
                wins, of = int(ends.idxmin(axis=1).eq("power-law").sum()), len(ends)
            rate = "decaying" if decaying else "constant"
            text = f"Curves, {kind}, {rate} rate: the power law ends lowest"
            yield Claim("Appendix E" if decaying else "4.2", text, "figure", wins, of, shown)


def _kernel_claims(store: str | Path) -> Iterator[Claim]:
    """Whether the kernel of the power law keeps, and that of the baseline loses, eigenvalues."""
    for study, shown in (("ntk-functions", "fig3, N1–N4"), ("ntk-pdes", "fig4, N5, N6")):
        try:
            data = load(store, study, spectra=True)
        except UserError:
            data = None
        for scheme, falls in (("baseline", True), ("power-law", False)):
            wins = of = 0
            if data is not None:
                for identity in data.runs.loc[data.runs["scheme"].eq(scheme), "identity"]:
                    block = "pde" if study == "ntk-pdes" else "ntk"
                    spectra = [s for s in data.spectra.get(identity, []) if s.block == block]
                    spectra.sort(key=lambda s: s.step)
                    if len(spectra) > 1:
                        first, last = (np.median(s.eigenvalues) for s in (spectra[0], spectra[-1]))
                        wins, of = wins + int((last < first) == falls), of + 1
            what = "falls" if falls else "does not fall"
            text = f"{_names.scheme(scheme)}, {study}: the median eigenvalue {what} in training"
            yield Claim("4.3, Appendix F", text, "figure", wins, of, shown)


_SOURCES: tuple[Callable[[str | Path], Iterator[Claim]], ...] = (
    lambda store: _win_claims("1", "4.1", store),
    lambda store: _win_claims("2", "4.1", store),
    _feynman_claims,
    _curve_claims,
    _kernel_claims,
)


def claims(store: str | Path) -> list[Claim]:
    """Every claim of the paper that runs can test, judged by the runs of a store."""
    return [claim for source in _SOURCES for claim in source(store)]


def summary(found: Sequence[Claim]) -> dict[str, int]:
    """How many claims have each verdict."""
    return {v: sum(c.verdict == v for c in found) for v in (*_VERDICTS, _NO_RUNS)}


def page(store: str | Path) -> str:
    """The results page in Markdown."""
    found = claims(store)
    try:
        source = "\n".join(f"    {line}".rstrip() for line in describe(read_manifest(Path(store))))
    except StoreError:
        source = f"    {store}"
    counts = ", ".join(f"{n} {verdict}" for verdict, n in summary(found).items() if n)
    lines = [
        "# Results",
        "",
        "<!-- Written by: python -m kandle.paper._page docs/results.md -->",
        "",
        "Each claim of the paper, the paper's number, and ours: the share of comparisons that go",
        "the way the paper says, with a 95% Wilson interval. A claim *holds* if the whole interval",
        "lies above one half, *in part* if only the share does. The comparisons share networks and",
        "problems, so the intervals are optimistic.",
        "",
        f"{counts.capitalize()}.",
        "",
        "| Section | Claim | Paper | Ours | Verdict | Shown in |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {c.section} | {c.text} | {c.paper} | {c.ours} | {c.verdict} | {c.shown_in} |"
        for c in found
    ]
    return "\n".join([*lines, "", "## The runs behind it", "", source, "", *_how()]) + "\n"


def _how() -> list[str]:
    pair = f"({POWER_LAW[0]:g}, {POWER_LAW[1]:g})"
    return [
        "Every table and figure comes from these runs in one command:",
        "",
        "```",
        "kandle results",
        "kandle table 1 --store results --paper",
        "kandle figure fig1 --store results --out fig1.png",
        "kandle explore --store results --out explorer.html",
        "```",
        "",
        f"Curves and spectra show the power law at {pair}. LeCun–normalized on the PDEs",
        f"({', '.join(_names.problem(p) for p in PDES)}) was never run for the paper: its row is a",
        "new result. The [differences](differences.md) from the published runs can be switched on",
        "one at a time; `studies/differences.toml` trains them on one small cell.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the results page.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--store", default="results")
    given = parser.parse_args(arguments)
    given.out.write_text(page(given.store), encoding="utf-8")
    print(given.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
