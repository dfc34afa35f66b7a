"""`kandle reproduce`: the paper's tables and figures, from training to files."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

_SCALES = ("smoke", "quick", "overnight", "paper")


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "reproduce",
        help="train and render the paper's tables and figures",
        description="Train what the tables and figures of the paper need and the store lacks, "
        "then write them, with a page to explore the runs. Targets: table1-table4, tableC1, "
        "fig1-fig4, figC1, figC2, figD1-figD7, figE1, figE2, figN1-figN8, or all (the default): "
        "all that the scale covers.",
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument(
        "--scale",
        choices=_SCALES,
        default="quick",
        help="smoke: everything in three minutes, training cut short; quick: five minutes of real "
        "training (the default); overnight: about ten hours; paper: the whole study",
    )
    parser.add_argument(
        "--store", metavar="DIR", help="directory of the store (default: OUT/store)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="where to write (default: kandle-out/SCALE)",
    )
    parser.add_argument("--workers", type=int, help="worker processes (default: one per core)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle import paper
    from kandle._errors import needs_extra

    # Before training what could not be rendered afterwards.
    with needs_extra("'kandle reproduce'", "study"):
        import matplotlib  # noqa: F401
        import pandas  # noqa: F401
    targets = paper.chosen(arguments.targets)
    work = paper.work(targets, arguments.scale)
    out = Path(arguments.out or Path("kandle-out") / arguments.scale)
    store = Path(arguments.store or out / "store")
    for line in _announced(work):
        print(line)
    failed = _train(work, store, _command(arguments), arguments.workers)
    if failed is None:
        return 130
    missing = _render(work, store, out)
    for line in _closing(work):
        print(line)
    if failed:
        print(f"{failed:,} runs failed: 'kandle study status --store {store}' lists the reasons.")
    return 1 if failed or missing else 0


def _announced(work: Any) -> list[str]:
    names = ", ".join(target.name for target, _ in work.covered) or "nothing"
    runs = f"{work.runs:,} runs of {len(work.plans)} studies"
    return [f"Scale {work.scale}: {runs}, for {names}.", *_closing(work)]


def _closing(work: Any) -> list[str]:
    return [line for line in (_not_covered(work), _shortened(work)) if line]


def _not_covered(work: Any) -> str:
    if not work.left:
        return ""
    larger = _SCALES[_SCALES.index(work.scale) + 1 :]
    instead = f"--scale {' or '.join(larger)} does" if larger else "no scale does"
    names = ", ".join(target.name for target in work.left)
    return f"Scale {work.scale} does not cover {names}: {instead}."


def _shortened(work: Any) -> str:
    if not work.shortened:
        return ""
    steps_run = "; ".join(
        f"{study} {' or '.join(f'{n:,}' for n in steps)}" for study, steps in work.shortened
    )
    return (
        f"TRAINING WAS SHORTENED at scale {work.scale}: these numbers show that everything works, "
        f"not how well anything learns. Steps: {steps_run}; the paper has 2,000 for functions and "
        "5,000 for PDEs."
    )


def _command(arguments: argparse.Namespace) -> str:
    words = ["kandle", "reproduce", *arguments.targets, "--scale", arguments.scale]
    for name in ("store", "out", "workers"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def _train(work: Any, store: Path, command: str, workers: int | None) -> int | None:
    """Train what is missing; how many runs failed, or None if interrupted."""
    from kandle import paper, study
    from kandle.store import Store

    try:
        ended = paper.train(
            work.plans,
            store,
            executor=lambda: study.LocalExecutor(workers),
            command=command,
            begun=lambda plan: print(f"\n{plan.study.name}: {plan.study.description}", flush=True),
        )
    except KeyboardInterrupt:
        stored = 0
        if (store / "runs.sqlite").exists():
            specs = [spec for plan in work.plans for spec in plan.specs]
            with Store.open(store) as opened:
                stored = len(specs) - len(opened.missing(specs))
        print(
            f"Stopped: {stored:,} of {work.runs:,} runs are stored in {store}. "
            f"Go on with: {command}",
            file=sys.stderr,
        )
        return None
    return sum(progress.failed + progress.failed_before for progress in ended.values())


def _render(work: Any, store: Path, out: Path) -> list[str]:
    """Write all that is covered, print tables and paths; the targets that could not be made."""
    from kandle import paper
    from kandle._errors import MissingExtra, UserError

    written, missing = [], []
    for target, steps in work.covered:
        try:
            files, text = paper.render(target, steps, store, out)
        except UserError as error:
            # Where runs failed, one table may lack its data and the others need not.
            print(f"kandle: {target.name} could not be made: {error}", file=sys.stderr)
            missing.append(target.name)
            continue
        written.append((target, files))
        if text and target.study is not None:
            print(f"\n{text}")
    print("\nWritten:")
    for target, (first, *others) in written:
        also = "".join(f" {file.suffix}" for file in others)
        print(f"  {first}{also}   {target.what}")
    if work.plans:
        try:
            print(f"  {paper.explorer(store, out)}   the explorer: open it in a browser")
        except MissingExtra as error:
            print(f"  no explorer: {error}")
    return missing
