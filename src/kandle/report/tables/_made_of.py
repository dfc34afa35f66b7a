"""What a table is made of, in words: architectures, seeds, steps, and what is missing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from kandle.analysis import ARCHITECTURE, CELL, distinct, finished, full_length, power_law

SHORT = "¶"
_SETTING = ["problem", *ARCHITECTURE]


@dataclass(frozen=True)
class Design:
    """What the paper's table is made of: every problem on every shape (G, width, depth), each
    scheme with so many seeds, the power law with every pair of exponents."""

    problems: tuple[str, ...]
    shapes: tuple[tuple[int, int, int], ...]
    seeds: dict[str, int]
    steps: int
    pairs: tuple[tuple[float, float], ...]

    def runs(self, scheme: str) -> int:
        """Runs of a scheme on one setting."""
        return self.seeds[scheme] * (len(self.pairs) if scheme == "power-law" else 1)


def made_of(
    runs: pd.DataFrame,
    design: Design | None,
    left_out: Iterable[str],
    kept: Iterable[str] = (),
) -> list[str]:
    """Notes on the runs behind a table, beginning with `Partial` if the design has more.

    `kept` and `left_out` say which ways of training are shown, if the store has several.
    """
    trained = distinct(runs)
    # Repeats of a configuration enter medians, but must not fill the place of what is missing.
    once = distinct(trained.drop(columns="replicate", errors="ignore"))
    done = finished(trained)
    shapes = once.drop_duplicates(list(ARCHITECTURE))
    seeds = once.groupby("scheme", sort=False)["seed"].nunique()
    pairs = len(once[power_law(once)].drop_duplicates(["alpha", "beta"]))
    parts = [
        _count(len(shapes), "architecture")
        + f" (G {_values(shapes['G'])}; width {_values(shapes['width'])};"
        f" depth {_values(shapes['depth'])})",
        "seeds: " + ", ".join(f"{name} {n}" for name, n in seeds.items()),
        *([_count(pairs, "exponent pair")] if pairs > 1 else []),
        f"{_values(once['steps'])} steps" if "steps" in once else "",
    ]
    repeats = len(trained) - len(once)
    rows = _count(len(once), "run") + (f" and {_count(repeats, 'repeated row')}" if repeats else "")
    notes = [f"Made of {'; '.join(filter(None, parts))}: {rows}."]
    if not_done := len(trained) - len(done):
        status = trained.loc[~trained.index.isin(done.index), "status"].value_counts()
        detail = ", ".join(f"{n} {name}" for name, n in status.items() if name != "ok")
        detail = f" ({detail})" if detail else ""
        notes.append(f"{_count(not_done, 'run')} did not finish{detail}: medians leave them out.")
    if design is not None and (missing := _missing(once, design)):
        notes.insert(0, f"Partial: {'; '.join(missing)}.")
    if shown := list(kept):
        more = f"; and {len(shown) - 4} more" if len(shown) > 4 else ""
        notes.append(f"Shown: {'; '.join(shown[:4])}{more}.")
    if left := list(left_out):
        more = f"; and {len(left) - 4} more" if len(left) > 4 else ""
        notes.append(f"Excluded (different training settings): {'; '.join(left[:4])}{more}.")
    return notes


def _missing(runs: pd.DataFrame, design: Design) -> list[str]:
    """What the design has and the runs have not; runs beyond the design make up for nothing."""
    lengths = _other_lengths(runs, design)
    runs = runs[_planned(runs, design)]
    seeds = runs.groupby("scheme")["seed"].nunique()
    missing = []
    if absent := [p for p in design.problems if p not in set(runs["problem"])]:
        missing.append(f"no runs of {', '.join(absent)}")
    if absent := [s for s in design.seeds if s not in seeds.index]:
        missing.append(f"no runs of {', '.join(absent)}")
    shapes = len(runs.drop_duplicates(list(ARCHITECTURE)))
    if shapes < len(design.shapes):
        missing.append(f"{shapes} of the paper's {len(design.shapes)} architectures")
    fewer = [f"{s} {seeds[s]} of {n}" for s, n in design.seeds.items() if seeds.get(s, n) < n]
    if fewer:
        missing.append(f"fewer seeds ({', '.join(fewer)})")
    pairs = len(runs[power_law(runs)].drop_duplicates(["alpha", "beta"]))
    if pairs < len(design.pairs) and "power-law" in seeds.index:
        missing.append(f"{pairs} of {len(design.pairs)} exponent pairs")
    lacking = _lacking(runs, design)
    if total := int(lacking.sum()):
        planned = lacking.size * sum(map(design.runs, design.seeds))
        where = "" if missing or lengths else f" ({_where(lacking)})"
        missing.append(f"{planned - total:,} of {planned:,} runs{where}")
    return lengths + missing


def _planned(runs: pd.DataFrame, design: Design) -> pd.Series:
    """Which runs are part of the design."""
    shape = pd.MultiIndex.from_frame(runs[list(ARCHITECTURE)]).isin(design.shapes)
    pair = pd.MultiIndex.from_frame(runs[["alpha", "beta"]]).isin(design.pairs)
    known = runs["problem"].isin(design.problems) & runs["scheme"].isin(list(design.seeds))
    return known & shape & (pair | ~power_law(runs))


def _lacking(runs: pd.DataFrame, design: Design) -> pd.Series:
    """How many runs of the design each of its settings lacks."""
    cells = runs.groupby(list(CELL), dropna=False).size().rename("runs").reset_index()
    present = cells["runs"].clip(upper=cells["scheme"].map(design.seeds))
    present = present.groupby([cells[c] for c in _SETTING]).sum()
    settings = [(p, *shape) for p in design.problems for shape in design.shapes]
    whole = sum(map(design.runs, design.seeds))
    index = pd.MultiIndex.from_tuples(settings, names=_SETTING)
    return whole - present.reindex(index, fill_value=0)


def _where(lacking: pd.Series) -> str:
    short = lacking[lacking > 0]
    missing = f"{_values(pd.Series([short.sum()]))} missing"
    if len(short) > 3:
        return f"{missing}, on {len(short):,} of {len(lacking):,} problems and architectures"
    places = [f"{p} with G {g}, width {w}, depth {d}" for p, g, w, d in short.index]
    return f"{missing}: {'; '.join(places)}"


def _other_lengths(runs: pd.DataFrame, design: Design) -> list[str]:
    if "steps" not in runs:
        return []
    every = set(runs["problem"])
    lengths = {
        steps: list(dict.fromkeys(runs.loc[runs["steps"].eq(steps), "problem"]))
        for steps in sorted({int(s) for s in runs["steps"]} - {design.steps})
    }
    return [
        ("" if set(problems) == every else f"{', '.join(problems)} ")
        + f"trained for {steps:,} steps where the paper has {design.steps:,}"
        for steps, problems in lengths.items()
    ]


def shortened(runs: pd.DataFrame) -> dict[str, str]:
    """Problems trained for less than full length in a table whose other problems were not, with a
    note on each.

    Full length is what a built-in problem takes, and for a user's own the longest of the table.
    """
    if "steps" not in runs:
        return {}
    steps = runs.groupby("problem", sort=False)["steps"].max()
    full = full_length(steps.index.to_series())
    full = full.fillna(steps[full.isna()].max())
    short = steps < full
    if short.all():
        return {}
    return {
        str(p): f"trained for {n:,} steps only, where full length is {int(whole):,}"
        for p, n, whole in zip(steps.index[short], steps[short], full[short], strict=True)
    }


def on_shortened(short: dict[str, str], called: Callable[[str], str] = str) -> list[str]:
    """The notes of `shortened`, problems of one length together, with the mark of their rows."""
    together: dict[str, list[str]] = {}
    for problem, reason in short.items():
        together.setdefault(reason, []).append(called(problem))
    return [f"{SHORT} {', '.join(names)}: {reason}." for reason, names in together.items()]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _values(column: pd.Series) -> str:
    return ", ".join(f"{int(v):,}" for v in sorted(column.unique()))
