"""`kandle study`: plan and run grids of trainings, inspect and exchange their results."""

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kandle._errors import UserError
from kandle._text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from kandle.store import Gathered
    from kandle.study import Executor, Plan

_STORE = "kandle-out/store"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "study",
        help="plan and run grids of trainings, inspect and exchange their results",
        description="Plan and run grids of trainings into a store; inspect and exchange results.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="list the built-in studies")
    listing.set_defaults(run=_list)

    plan = actions.add_parser("plan", help="count runs and batches, without training")
    _add_selection(plan)
    plan.add_argument("--json", action="store_true", help="print JSON")
    plan.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine (about a minute) and estimate core-hours",
    )
    plan.set_defaults(run=_plan)

    run = actions.add_parser("run", help="train the runs that the store lacks")
    _add_selection(run)
    _add_store(run)
    run.add_argument("--workers", type=_positive, help="worker processes (default: one per core)")
    run.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="train on the Ray cluster at ADDRESS; without one, start a local cluster",
    )
    run.add_argument(
        "--batch-cpus", type=_resource, default=1, help="CPUs per batch on Ray (default: 1)"
    )
    run.add_argument(
        "--batch-gpus",
        type=_resource,
        default=0,
        help="GPUs per batch on Ray; a fraction shares one",
    )
    run.add_argument("--retry-failed", action="store_true", help="train failed runs again")
    run.set_defaults(run=_run)

    status = actions.add_parser("status", help="show what a store holds and how its sessions went")
    _add_store(status)
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)

    export = actions.add_parser("export", help="write rows as CSV or Parquet")
    _add_store(export)
    export.add_argument("--out", required=True, metavar="FILE", help="FILE.csv or FILE.parquet")
    export.add_argument("--study", help="only this study's rows")
    export.set_defaults(run=_export)

    importing = actions.add_parser("import", help="read rows from CSV or Parquet")
    importing.add_argument("file", metavar="FILE", help="FILE.csv or FILE.parquet")
    _add_store(importing)
    importing.set_defaults(run=_import)

    verify = actions.add_parser("verify", help="compare a store with its checksums")
    _add_store(verify)
    verify.add_argument(
        "--repair",
        action="store_true",
        help="drop damaged runs, so that the next run trains them again",
    )
    verify.set_defaults(run=_verify)

    merge = actions.add_parser("merge", help="copy the runs of other stores into one")
    merge.add_argument("sources", nargs="+", metavar="STORE", help="stores to read")
    _add_store(merge)
    merge.set_defaults(run=_merge)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="a built-in name, or a study file FILE.toml")
    parser.add_argument(
        "--scale", default="paper", help="smoke, quick, overnight or paper (default: paper)"
    )
    axes = parser.add_argument_group(
        "axes", "replace those of the study; separate several values by commas"
    )
    axes.add_argument(
        "--problems", type=_names, help="names or module:object (which runs its code)"
    )
    axes.add_argument("--architectures", type=_names, help="small, large")
    axes.add_argument("--grids", type=_numbers(int))
    axes.add_argument("--widths", type=_numbers(int))
    axes.add_argument("--depths", type=_numbers(int))
    axes.add_argument("--schemes", type=_names, help="names or module:Class (runs its code)")
    axes.add_argument("--alphas", type=_numbers(float))
    axes.add_argument("--betas", type=_numbers(float))
    axes.add_argument("--seeds", type=_positive, help="number of seeds per scheme")
    axes.add_argument("--steps", type=_positive)
    parser.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="part I of N equal parts, for a job array",
    )


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", default=_STORE, metavar="DIR", help=f"directory of the store (default: {_STORE})"
    )


def _list(arguments: argparse.Namespace) -> None:
    from kandle import study

    for name in study.names():
        found = study.get(name)
        counts = ", ".join(f"{scale} {len(found.at_scale(scale)):,}" for scale in study.SCALES)
        print(f"{name:<18}{found.description}\n{'':<18}runs: {counts}")


_AXES = (
    *("problems", "architectures", "grids", "widths", "depths"),
    *("schemes", "alphas", "betas", "seeds", "steps"),
)


def _given_axes(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen = {name: getattr(arguments, name) for name in _AXES}
    return {name: value for name, value in chosen.items() if value is not None}


def _selected(arguments: argparse.Namespace) -> "Plan":
    from kandle import study

    axes = study.Axes.from_dict("option ", _given_axes(arguments))
    return study.plan(study.get(arguments.study), arguments.scale, axes, part=arguments.shard)


def _command(arguments: argparse.Namespace) -> str:
    """The command that resumes this one."""
    words = ["kandle", "study", "run", arguments.study, "--scale", arguments.scale]
    for name, value in _given_axes(arguments).items():
        text = ",".join(map(str, value if isinstance(value, list) else [value]))
        # With "=", a negative number is not mistaken for an option.
        words += [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
    words += ["--store", arguments.store]
    if arguments.shard:
        words += ["--shard", "{}/{}".format(*arguments.shard)]
    if arguments.workers:
        words += ["--workers", str(arguments.workers)]
    if arguments.ray is not None:
        words += ["--ray", *([arguments.ray] if arguments.ray else [])]
        words += ["--batch-cpus", f"{arguments.batch_cpus:g}"]
        words += ["--batch-gpus", f"{arguments.batch_gpus:g}"]
    if arguments.retry_failed:
        words.append("--retry-failed")
    return shlex.join(words)


def _plan(arguments: argparse.Namespace) -> None:
    from kandle import study
    from kandle.study._local import usable_cores

    found = _selected(arguments)
    batches = found.batches(usable_cores())
    counts: dict[str, Any] = {
        "study": found.study.name,
        "scale": found.scale,
        "runs": found.runs,
        "aggregated": found.aggregated,
        "final": found.final,
        "batches": len(batches),
        "runs_per_batch": max(map(len, batches), default=0),
    }
    if arguments.calibrate:
        model = study.calibrate(found.specs)
        counts["core_hours"] = float(f"{sum(map(model.run, found.specs)) / 3600:.4g}")
        counts["step_seconds"] = {
            "overhead": model.overhead,
            "function": model.function,
            "pde": model.pde,
        }
    if arguments.json:
        print(json.dumps(counts, indent=2))
        return
    part = f", part {arguments.shard[0]} of {arguments.shard[1]}" if arguments.shard else ""
    print(f"{counts['study']} at scale {counts['scale']}{part}")
    print(f"  {counts['runs']:>9,} runs")
    print(f"  {counts['aggregated']:>9,} configurations, not counting seeds")
    print(f"  {counts['final']:>9,} with the best exponents chosen")
    print(f"  {counts['batches']:>9,} batches of up to {counts['runs_per_batch']} runs")
    if arguments.calibrate:
        print(
            f"  {counts['core_hours']:>9,.1f} core-hours on this machine, "
            "estimated from a short measurement"
        )


def _run(arguments: argparse.Namespace) -> int:
    from kandle import study
    from kandle.store import Store, StoreError
    from kandle.study._display import clock

    found = _selected(arguments)
    command = _command(arguments)
    try:
        ended = study.run(
            found,
            arguments.store,
            executor=lambda: _executor(arguments),
            retry_failed=arguments.retry_failed,
            command=command,
        )
    except KeyboardInterrupt:
        try:
            with Store.open(arguments.store) as store:
                stored = len(found.specs) - len(store.missing(found.specs))
        except StoreError:  # stopped before there was one
            stored = 0
        print(
            f"Stopped: {stored:,} of {found.runs:,} runs are stored in {arguments.store}. "
            f"Resume with: {command}",
            file=sys.stderr,
        )
        return 130
    failed = ended.failed + ended.failed_before
    now = ""
    if ended.trained:
        busy = 100 * ended.busy / (ended.elapsed * ended.slots)
        now = (
            f"; {ended.trained:,} of them trained now in {clock(ended.elapsed)} "
            f"({ended.diverged:,} diverged, workers busy {busy:.1f} % of the time)"
        )
    stored = f"{ended.planned - failed:,} of {ended.planned:,} runs are stored"
    print(f"{found.study.name}: {stored} in {arguments.store}{now}")
    if failed:
        print(
            f"{failed:,} runs failed: 'kandle study status --store {arguments.store}' shows why; "
            "--retry-failed trains them again."
        )
    return 1 if failed else 0


def _executor(arguments: argparse.Namespace) -> "Executor":
    from kandle import study

    if arguments.ray is None:
        return study.LocalExecutor(arguments.workers)
    return study.RayExecutor(
        arguments.ray or None,
        workers=arguments.workers,
        cpus=arguments.batch_cpus,
        gpus=arguments.batch_gpus,
    )


def _status(arguments: argparse.Namespace) -> None:
    from kandle import study
    from kandle.store import Store
    from kandle.study._status import lines

    with Store.open(arguments.store) as store:
        found = study.status(store)
    print(json.dumps(found, indent=2) if arguments.json else "\n".join(lines(found)))


def _export(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from kandle import study
    from kandle.store import Store

    with Store.open(arguments.store) as store:
        rows = study.export(store, Path(arguments.out), arguments.study)
    print(f"{rows:,} rows in {arguments.out}")


def _import(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from kandle import study
    from kandle.store import Store

    rows = study.read_file(Path(arguments.file))  # a refused file leaves no store behind
    with Store.open(arguments.store, "w") as store:
        imported = rows.into(store)
    if imported.ignored:
        print(f"ignored columns: {printable(', '.join(imported.ignored))}")
    if imported.repeated:
        print(f"{imported.repeated:,} rows repeat a configuration and were stored as replicates")
    return _report(arguments.file, imported.gathered)


def _verify(arguments: argparse.Namespace) -> int:
    from kandle.store import repair, verify

    if arguments.repair:
        repaired = repair(arguments.store)
        for line in repaired.dropped:
            print(f"dropped {printable(line)}")
        where = f"; the damaged file is {repaired.backup}" if repaired.backup else ""
        print(f"{arguments.store}: {repaired.kept:,} intact runs{where}")
        return 0
    found = verify(arguments.store)
    for line in found.damaged:
        print(printable(line))
    unchecked = f" ({found.unchecked:,} without a checksum)" if found.unchecked else ""
    print(
        f"{arguments.store}: {found.intact:,} intact runs{unchecked}, "
        f"{len(found.damaged):,} damaged records"
    )
    return 1 if found.damaged else 0


def _merge(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from kandle.store import Store, check_runs, merge

    worst = 0
    for source in arguments.sources:
        if Path(source).resolve() == Path(arguments.store).resolve():
            raise UserError(f"The store {source} cannot be merged into itself.")
        with Store.open(source) as other:  # fails before anything is written
            check_runs(other)
    fresh = not Path(arguments.store).exists()
    try:
        with Store.open(arguments.store, "w") as store:
            for source in arguments.sources:
                with Store.open(source) as other:
                    worst = max(worst, _report(source, merge(store, other)))
    except UserError:  # a damaged curve, say, which is found only when it is read
        if fresh:
            _remove_if_empty(Path(arguments.store))
        raise
    return worst


def _remove_if_empty(directory: "Path") -> None:
    """Remove a store that was created here and into which nothing was put."""
    from kandle.store import Store

    with Store.open(directory) as store:
        empty = len(store) == 0
    if empty:
        shutil.rmtree(directory)


def _report(source: str, gathered: "Gathered") -> int:
    """Print what happened to the runs of a source, and return the exit code."""
    print(f"{source}: {gathered.added:,} runs added, {gathered.kept:,} were there already")
    if not gathered.conflicts:
        return 0
    shown = ", ".join(identity[:12] for identity in gathered.conflicts[:5])
    print(
        f"{source}: {len(gathered.conflicts):,} runs differ from those stored and were not added: "
        f"{shown}" + (", …" if len(gathered.conflicts) > 5 else ""),
        file=sys.stderr,
    )
    return 1


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _numbers(kind: type) -> Callable[[str], list]:
    def parse(text: str) -> list:
        return [kind(value) for value in text.split(",")]

    parse.__name__ = "list of whole numbers" if kind is int else "list of numbers"
    return parse


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def _resource(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number of at least 0, got {text}")
    return value


def _shard(text: str) -> tuple[int, int]:
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"must be I/N with 1 <= I <= N, got {text}")
    return int(index), int(count)
