"""`make demo`: train real models, compare them with the stored ones, render every output.

python tools/demo.py --out kandle-out
"""

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from claims import VERDICTS, Claim, claims, summary

from kandle import study
from kandle._errors import MissingExtra, UserError
from kandle.paper import TARGETS, explorer, render
from kandle.paper._design import FEYNMAN, FUNCTIONS, SMALL
from kandle.report import _names
from kandle.store import Store, merge

_LIVE = {"feynman": FEYNMAN, "curves-functions": FUNCTIONS, "curves-pdes": ("allen-cahn",)}
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
            and (spec.G, spec.width, spec.depth) == SMALL
            and (name != "curves-pdes" or spec.schedule == "constant")
        ]
        plans.append(replace(plan, specs=specs))
    return plans


def agreement(live: Path, stored: Path) -> pd.DataFrame:
    """Live and stored losses of the same runs, with their ratio."""
    with Store.open(live) as one, Store.open(stored) as other:
        columns = ["identity", "study", "problem", "scheme", "schedule", "loss"]
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
    out, live, joined = given.out, given.out / "live", given.out / "store"

    print("1. Training small models live; the stored results hold the same runs.", flush=True)
    shutil.rmtree(live, ignore_errors=True)
    began = time.perf_counter()
    plans = live_plans()
    for plan in plans:
        study.run(plan, live, command="make demo")
    seconds = time.perf_counter() - began
    compared = agreement(live, Path(given.results))
    compared.to_csv(out / "agreement.csv", index=False)
    print("\n".join(_agreement(compared)), flush=True)

    print("\n2. Rendering tables, figures and the explorer from the results and the live runs.")
    shutil.rmtree(joined, ignore_errors=True)
    with Store.open(joined, "w") as target:
        for source in (given.results, live):
            with Store.open(source) as opened:
                merge(target, opened)
    missing = _render_all(given.targets, joined, out)

    print("\n3. Summary")
    trained = sum(plan.runs for plan in plans)
    print(f"   Trained live: {trained} models at full length in {seconds:.0f} s.")
    print("\n".join(_verdicts(claims(joined))))
    if missing:
        print(f"   {len(missing)} of {len(given.targets)} targets lack their runs:")
        for reason in dict.fromkeys(missing.values()):
            print(f"     {', '.join(n for n, r in missing.items() if r == reason)}: {reason}")
    print(
        f"   Where to look: {out}/explorer.html (in a browser), {out}/table1.txt, {out}/fig1.png, "
        f"{out}/agreement.csv, docs/results.md."
    )
    return 0


def _render_all(targets: Sequence[str], store: Path, out: Path) -> dict[str, str]:
    """Write every target and the explorer; returns why those are missing that are."""
    missing = {}
    for name in targets:
        try:
            files, _ = render(TARGETS[name], None, store, out)
            print(f"   {files[0]}   {TARGETS[name].what}", flush=True)
        except UserError as error:
            # What the store has instead stands in the summary and on the results page.
            missing[name] = str(error).split(". ")[0].rstrip(".").replace(f" {store}", "")
    try:
        print(f"   {explorer(store, out)}   the explorer: open it in a browser")
    except MissingExtra as error:
        print(f"   no explorer: {error}", file=sys.stderr)
    return missing


def _agreement(compared: pd.DataFrame) -> list[str]:
    """Live beside stored losses, one line per study and scheme."""
    if compared.empty:
        return ["   The stored results have none of these runs."]
    lines = [
        f"   {'study':18}{'scheme':18}{'runs':>5}{'median loss live':>18}{'stored':>10}"
        f"{'ratio':>16}  equal bits"
    ]
    for (name, scheme), part in compared.groupby(["study", "scheme"], sort=False):
        low, high = part["ratio"].min(), part["ratio"].max()
        lines.append(
            f"   {name:18}{_names.scheme(str(scheme)):18}{len(part):>5}"
            f"{part['loss'].median():>18.2e}{part['loss_stored'].median():>10.2e}"
            f"{f'{low:.3g} – {high:.3g}':>16}{part['ratio'].eq(1).sum():>6} of {len(part)}"
        )
    within = int(compared["ratio"].between(0.5, 2.0).sum())
    lines.append(
        f"   {within} of {len(compared)} runs agree within a factor of two. Other processors round "
        "differently, and the last loss of a run depends on last bits."
    )
    return lines


def _verdicts(found: Sequence[Claim]) -> list[str]:
    """How many claims have each verdict, and which."""
    counts: Mapping[str, int] = summary(found)
    lines = [f"   {len(found)} claims of the paper, judged by the stored and live runs:"]
    for verdict, count in counts.items():
        lines.append(f"   {count:>4}  {verdict}")
        shown = [c for c in found if c.verdict == verdict in VERDICTS]
        lines += [f"           {c.text}: {c.ours}, {c.shown_in}" for c in shown]
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
