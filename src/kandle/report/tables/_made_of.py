"""What a table is made of, in words: architectures, seeds, steps, and what is missing."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from kandle.analysis import ARCHITECTURE, distinct, finished


@dataclass(frozen=True)
class Design:
    """What the paper's table is made of."""

    problems: tuple[str, ...]
    architectures: int
    seeds: dict[str, int]
    steps: int
    pairs: int = 1


def made_of(runs: pd.DataFrame, design: Design | None, left_out: Iterable[str]) -> list[str]:
    """Notes on the runs behind a table, beginning with `Partial` where the paper had more."""
    unique = distinct(runs)
    done = finished(unique)
    shapes = unique.drop_duplicates(list(ARCHITECTURE))
    seeds = unique.groupby("scheme", sort=False)["seed"].nunique()
    power = unique[unique["scheme"].eq("power-law")]
    pairs = len(power.drop_duplicates(["alpha", "beta"]))
    told = [
        _count(len(shapes), "architecture")
        + f" (G {_values(shapes['G'])}; width {_values(shapes['width'])};"
        f" depth {_values(shapes['depth'])})",
        "seeds: " + ", ".join(f"{name} {n}" for name, n in seeds.items()),
        *([_count(pairs, "exponent pair")] if pairs > 1 else []),
        f"{_values(unique['steps'])} steps" if "steps" in unique else "",
    ]
    notes = [f"Made of {'; '.join(filter(None, told))}: {_count(len(unique), 'run')}."]
    if not_done := len(unique) - len(done):
        status = unique.loc[~unique.index.isin(done.index), "status"].value_counts()
        detail = ", ".join(f"{n} {name}" for name, n in status.items() if name != "ok")
        detail = f" ({detail})" if detail else ""
        notes.append(f"{_count(not_done, 'run')} did not finish{detail}: medians leave them out.")
    if design is not None and (missing := _missing(unique, design, len(shapes), seeds, pairs)):
        notes.insert(0, f"Partial: {'; '.join(missing)}.")
    if left := list(left_out):
        more = f"; and {len(left) - 4} more" if len(left) > 4 else ""
        notes.append(f"Left out, as trained otherwise: {'; '.join(left[:4])}{more}.")
    return notes


def _missing(
    runs: pd.DataFrame, design: Design, shapes: int, seeds: pd.Series, pairs: int
) -> list[str]:
    missing = []
    if absent := [p for p in design.problems if p not in set(runs["problem"])]:
        missing.append(f"no runs of {', '.join(absent)}")
    if absent := [s for s in design.seeds if s not in seeds.index]:
        missing.append(f"no runs of {', '.join(absent)}")
    if shapes < design.architectures:
        missing.append(f"{shapes} of the paper's {design.architectures} architectures")
    fewer = [f"{s} {seeds[s]} of {n}" for s, n in design.seeds.items() if seeds.get(s, n) < n]
    if fewer:
        missing.append(f"fewer seeds ({', '.join(fewer)})")
    if pairs < design.pairs and "power-law" in seeds.index:
        missing.append(f"{pairs} of {design.pairs} exponent pairs")
    if "steps" in runs and (short := sorted({int(s) for s in runs["steps"]} - {design.steps})):
        steps = ", ".join(f"{s:,}" for s in short)
        missing.append(f"trained for {steps} steps where the paper has {design.steps:,}")
    planned = len(design.problems) * design.architectures
    planned *= sum(n * (design.pairs if s == "power-law" else 1) for s, n in design.seeds.items())
    if not missing and len(runs) < planned:
        missing.append(f"{len(runs):,} of {planned:,} runs")
    return missing


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _values(column: pd.Series) -> str:
    return ", ".join(f"{int(v):,}" for v in sorted(column.unique()))
