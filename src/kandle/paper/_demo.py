"""`make demo`: train real models, compare them with the stored ones, render every output.

python -m kandle.paper._demo --out kandle-out
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from kandle import study
from kandle._errors import MissingExtra, UserError
from kandle.paper._page import claims, summary
from kandle.paper._render import explorer, render
from kandle.paper._targets import TARGETS
from kandle.store import Store, merge

_SMALL = (5, 8, 2)
_LIVE = {
    "feynman": ("I.12.11", "I.26.2", "I.40.1", "II.11.27", "II.35.18", "III.10.19"),
    "curves-functions": ("f1", "f3"),
}
"""What is trained live: the small architecture on these problems, one seed of each scheme."""


def live_plans() -> list[study.Plan]:
    """Runs of the results that are short enough to train while somebody waits."""
    plans = []
    for name, problems in _LIVE.items():
        plan = study.plan(study.get(name), "overnight")
        specs = [
            spec
            for spec in plan.specs
            if spec.problem in problems
            and spec.seed == 0
            and (spec.G, spec.width, spec.depth) == _SMALL
        ]
        plans.append(replace(plan, specs=specs))
    return plans


def agreement(live: Path, stored: Path) -> pd.DataFrame:
    """Live and stored losses of the same runs, with their ratio."""
    with Store.open(live) as one, Store.open(stored) as other:
        columns = ["identity", "problem", "scheme", "schedule", "loss"]
        both = one.frame()[columns].merge(
            other.frame()[["identity", "loss"]], on="identity", suffixes=("", "_stored")
        )
    return both.assign(ratio=both["loss"] / both["loss_stored"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train, compare and render: the whole answer.")
    parser.add_argument("--out", type=Path, default=Path("kandle-out"))
    parser.add_argument("--results", default="results", help="the stored results")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    given = parser.parse_args(arguments)
    live, joined = given.out / "live", given.out / "store"

    print("1. Training small models live; the stored results hold the same runs.", flush=True)
    began = time.perf_counter()
    plans = live_plans()
    for plan in plans:
        study.run(plan, live, command="make demo")
    seconds = time.perf_counter() - began
    compared = agreement(live, Path(given.results))
    print(_agreement_text(compared))

    print("\n2. Rendering tables, figures and the explorer from the results and the live runs.")
    shutil.rmtree(joined, ignore_errors=True)
    with Store.open(joined, "w") as target:
        for source in (given.results, live):
            with Store.open(source) as opened:
                merge(target, opened)
    missing = []
    for name in given.targets:
        try:
            files, _ = render(TARGETS[name], None, joined, given.out)
            print(f"   {files[0]}   {TARGETS[name].what}", flush=True)
        except UserError as error:
            missing.append(name)
            print(f"   {name}: {error}", file=sys.stderr, flush=True)
    try:
        print(f"   {explorer(joined, given.out)}   the explorer: open it in a browser")
    except MissingExtra as error:
        print(f"   no explorer: {error}")

    print("\n3. Summary")
    trained = sum(plan.runs for plan in plans)
    print(f"   Trained live: {trained} models of 2,000 steps in {seconds:.0f} s.")
    found = claims(joined)
    for verdict, count in summary(found).items():
        if count:
            print(f"   {count} claims of the paper: {verdict}.")
    for claim in found:
        if claim.verdict == "does not hold":
            print(f"     does not hold: {claim.text}: {claim.ours} ({claim.shown_in})")
    if missing:
        print(f"   Not rendered, because the results lack their runs: {', '.join(missing)}.")
    print(f"   Look at {given.out}/explorer.html, {given.out}/table1.txt and docs/results.md.")
    return 0


def _agreement_text(compared: pd.DataFrame) -> str:
    if compared.empty:
        return "   The stored results have none of these runs."
    equal = int(compared["ratio"].eq(1).sum())
    within = int(compared["ratio"].between(0.5, 2.0).sum())
    middle = float(np.median(compared["ratio"]))
    return (
        f"   {len(compared)} runs are also stored: {equal} equal to the bit, {within} within a "
        f"factor of two, median ratio {middle:.3f}. Other processors round differently."
    )


if __name__ == "__main__":
    raise SystemExit(main())
