"""The results page: each claim of the paper, its number, ours with an interval, and a verdict.

python tools/results_page.py docs/results.md --store results
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from claims import NO_RUNS, claims, summary

from kandle.cli._results import describe
from kandle.paper._design import PDES, POWER_LAW
from kandle.report import _names
from kandle.store import StoreError, read_manifest


def page(store: str | Path) -> str:
    """The results page in Markdown."""
    found = claims(store)
    try:
        manifest = read_manifest(Path(store))
        runs = "\n".join(f"    {line}".rstrip() for line in describe(manifest))
        missing = _missing(manifest)
    except StoreError:
        runs, missing = f"    {store}", []
    counts = ", ".join(f"{n} × *{verdict}*" for verdict, n in summary(found).items() if n)
    lines = [
        "# Results",
        "",
        "<!-- Written by: python tools/results_page.py docs/results.md -->",
        "",
        "Each claim of the paper, the paper's number, and ours: the share of comparisons that go",
        "the way the paper says, with a 95% Wilson interval. A claim *holds* if the whole interval",
        "lies above one half, *in part* if only the share does. The comparisons share networks and",
        "problems, so the intervals are optimistic. A pair of exponents that is the best of many,",
        "or chosen out of sample, is judged only where all 81 pairs were trained.",
        "",
        f"{len(found)} claims: {counts}.",
        "",
        *missing,
        "| Section | Claim | Paper | Ours | From | Verdict | Shown in |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {c.section} | {c.text} | {c.paper} | {c.ours} | {c.source or '–'} | {c.verdict} "
        f"| {c.shown_in} |"
        for c in found
    ]
    return "\n".join([*lines, "", "## The runs behind it", "", runs, "", *_how()]) + "\n"


def _missing(manifest: Mapping[str, Any]) -> list[str]:
    """What the plan `overnight` has and the store lacks, in a sentence."""
    lacking = [
        f"{name} ({done:,} of {planned:,} runs)"
        for name, part in manifest["studies"].items()
        for done, planned in [part["overnight"]]
        if done < planned
    ]
    if not lacking:
        return []
    return [
        f"**Incomplete.** Of the plan `overnight` these studies are not finished: "
        f"{', '.join(lacking)}. A claim without runs is marked *{NO_RUNS}*; one with few is judged",
        "on those, and its interval shows how little they say.",
        "",
    ]


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
        "new result. What each switchable difference from the published runs changes is measured",
        "in [](differences.md).",
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
