"""`kandle tune`: find settings for a table, or exponents of the power law for a problem."""

import argparse
import shlex
import time

from kandle.cli._fit import add_data, add_rate, data_options, layers, read_data, whole


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "tune",
        help="find settings for a table, or exponents for a problem",
        description="For DATA: search widths, grid, weight decay and then exponents by successive "
        "halving with cross-validation, and estimate the score on new rows by repeating the search "
        "on parts of the rows. The rows that `kandle fit` tests on take no part. For --problem: "
        "search the exponents of the power law by the training loss.",
    )
    add_data(parser, required=False)
    parser.add_argument("--problem", metavar="P", help="a problem, such as f3 or module:object")
    parser.add_argument(
        "--layers", type=layers, help="widths of hidden layers (default: 8,8; for DATA searched)"
    )
    parser.add_argument(
        "--grid", type=whole, help="spline intervals (default: 5; for DATA searched)"
    )
    parser.add_argument("--steps", type=whole, help="of a whole training (default: the problem's)")
    parser.add_argument("--seeds", type=whole, help="networks per pair for --problem (default: 3)")
    add_rate(parser, "0.001; for DATA 0.01")
    parser.add_argument(
        "--budget",
        help="a time such as 90s, 5min, 1h; for --problem also model-steps such as 2e6 "
        "(default: 5min for DATA, a fifth of all model-steps for --problem)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import UserError

    if (arguments.data is None) == (arguments.problem is None):
        raise UserError("Either DATA with --target or --problem must be given, and not both.")
    if (arguments.data is None) != (arguments.target is None):
        raise UserError("DATA and --target go together.")
    if arguments.data is None and arguments.inputs is not None:
        raise UserError("--inputs names columns of DATA and goes with it.")
    return run_problem(arguments) if arguments.data is None else run_table(arguments)


def run_problem(arguments: argparse.Namespace) -> int:
    from kandle.cli._files import progress
    from kandle.train import Optimizer
    from kandle.tune import tune

    rate = arguments.rate
    with progress("tune") as report:
        tuned = tune(
            arguments.problem,
            layers=(8, 8) if arguments.layers is None else arguments.layers,
            grid=5 if arguments.grid is None else arguments.grid,
            steps=arguments.steps,
            seeds=3 if arguments.seeds is None else arguments.seeds,
            budget=arguments.budget,
            optimizer=None if rate is None else Optimizer(learning_rate=rate),
            progress=report,
        )
    show(tuned)
    print(tuned.code())
    return 0


def run_table(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    from pathlib import Path

    from kandle._errors import UserError, must
    from kandle.cli._files import progress
    from kandle.cli._fit import OPTIONS
    from kandle.tabular import Encoder, FitSettings
    from kandle.tabular._fit_table import default_inputs, split
    from kandle.tabular._task import Task
    from kandle.tune import TableData, parse_budget, tune_table
    from kandle.tune._tables import GRIDS, LAYERS

    if arguments.seeds is not None:
        raise UserError("--seeds is for --problem: a table is searched by cross-validation.")
    try:
        seconds = parse_budget(arguments.budget or "5min").seconds
    except UserError:
        seconds = None
    if seconds is None:
        requirement = "a time such as 90s, 5min or 1h for DATA"
        raise must("--budget", requirement, arguments.budget)
    given = {"steps": arguments.steps, "learning_rate": arguments.rate}
    base = FitSettings.checked({k: v for k, v in given.items() if v is not None}, OPTIONS)
    frame, name = read_data(arguments), Path(arguments.data).stem
    options = data_options(arguments, list(frame.columns))
    inputs = options["inputs"] or default_inputs(frame, options["target"], name)
    task = Task.of(frame, options["target"], options["task"])
    train, _ = split(len(frame), 0, 0.2, name)
    rows = frame.iloc[train]
    encoder = Encoder.of(rows, inputs, options["categorical"], options["impute"])
    n_classes = None if task.classes is None else len(task.classes)
    data = TableData(encoder.apply(rows), task.targets(rows), n_classes)
    with progress("tune", "seconds") as report:
        tuned = tune_table(
            data,
            # Reading the table is part of it.
            seconds=seconds - (time.perf_counter() - began),
            base=base,
            layers=LAYERS if arguments.layers is None else [arguments.layers],
            grids=GRIDS if arguments.grid is None else [arguments.grid],
            progress=lambda used, total, loss: report(round(used), round(total) or 1, loss),
        )
    if task.reason:
        print(f"task: {task.name}, assumed because {task.reason} (--task decides otherwise)")
    show_table(tuned, "R²" if task.classes is None else "accuracy")
    print(fit_command(arguments, tuned))
    return 0


def fit_command(arguments: argparse.Namespace, tuned) -> str:
    """The command that trains on the same table with the best settings."""
    best = tuned.best.settings
    parts = ["kandle", "fit", arguments.data]
    for name in ("target", "inputs", "separator"):
        if (value := getattr(arguments, name)) is not None:
            # A name that begins with a dash would be taken for an option.
            parts += [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]
    if arguments.task != "auto":
        parts += ["--task", arguments.task]
    if arguments.categorical is not None:
        parts += ["--categorical", *([arguments.categorical] if arguments.categorical else [])]
    if arguments.missing != "error":
        parts += ["--missing", arguments.missing]
    parts += ["--init", described_scheme(best.init)]
    parts += ["--layers", ",".join(map(str, best.layers)), "--grid", str(best.grid)]
    parts += ["--weight-decay", f"{best.weight_decay:g}"]
    for name in ("steps", "rate"):
        if (value := getattr(arguments, name)) is not None:
            parts += [f"--{name}", str(value)]
    return shlex.join([*parts, "--out", "model.safetensors"])


def described_scheme(scheme) -> str:
    from kandle import init

    scheme = init.get(scheme)
    if isinstance(scheme, init.PowerLaw):
        return f"power-law:{scheme.alpha:g},{scheme.beta:g}"
    return scheme.name


def show_table(tuned, measure: str) -> None:
    """The best settings with their cross-validated scores, and what to expect on new rows."""
    if not tuned.complete:
        print("note: the time was too short for the whole search; a longer --budget completes it")
    print(f"{'layers':>10}  {'grid':>4}  {'decay':>7}  {'init':>20}  {'folds':>5}  {measure:>9}")
    for ranked in tuned.ranked[:10]:
        s = ranked.settings
        widths = ",".join(map(str, s.layers)) or "none"
        print(
            f"{widths:>10}  {s.grid:>4}  {s.weight_decay:>7g}  {described_scheme(s.init):>20}  "
            f"{len(ranked.losses):>5}  {ranked.score:>9.4f}"
        )
    if tuned.nested:
        spread = f"{min(tuned.nested):.4f} to {max(tuned.nested):.4f}"
        print(
            f"\nexpected on new rows: {measure} {tuned.expected:.4f} ({spread} over "
            f"{len(tuned.nested)} parts that the search did not see)\n"
        )


def show(tuned) -> None:
    """The landscape, the finalists, the best pair and how sure it is."""
    import numpy as np

    alphas, betas, losses = tuned.landscape()
    measure = "training loss" if tuned.held_out is None else "held-out mse"
    print(f"ranked by {tuned.ranked_by}")
    print(f"log10 of the {measure} after {tuned.plan.rungs[0].steps:,} steps, first seed\n")
    print("alpha\\beta" + "".join(f"{beta:>8g}" for beta in betas))
    finalists = {(c.alpha, c.beta) for c in tuned.finalists}
    for alpha, row in zip(alphas, losses, strict=True):
        cells = ""
        for beta, loss in zip(betas, row, strict=True):
            text = f"{np.log10(loss):.2f}" if np.isfinite(loss) else "-"
            cells += f"{text + ('*' if (alpha, beta) in finalists else ' '):>8}"
        print(f"{alpha:>10g}{cells}")

    best, seeds = tuned.best, len(tuned.best.losses)
    if tuned.cut is not None:
        print(f"\nnote: {tuned.cut}")
    all_steps = "all " if best.steps == tuned.steps else ""
    from_seeds = "one seed" if seeds == 1 else f"{seeds} seeds"
    print(f"\n* trained for {all_steps}{best.steps:,} steps from {from_seeds}:\n")
    print(f"{'alpha':>6}  {'beta':>6}  {'median ' + measure:>20}  {'least':>10}  {'most':>10}")
    for c in tuned.finalists[:10]:
        print(
            f"{c.alpha:>6g}  {c.beta:>6g}  {c.loss:>20.3e}  "
            f"{min(c.losses):>10.3e}  {max(c.losses):>10.3e}"
        )
    share = tuned.plan.model_steps / tuned.exhaustive
    print(f"\nbest: alpha = {best.alpha:g}, beta = {best.beta:g}")
    print(f"how sure: {how_sure(tuned)}")
    print(f"cost: {tuned.plan.model_steps:,} model-steps, {100 * share:.0f} % of all\n")


def how_sure(tuned) -> str:
    """In words, and no more than the seeds can tell."""
    finalists, seeds = len(tuned.finalists), len(tuned.best.losses)
    if finalists == 1:
        return "there was no other pair to compare it with"
    if seeds == 1:
        return "not known from one seed; --seeds 3 or more can tell"
    rows = "" if tuned.held_out is None else " with their held-out rows"
    return (
        f"it is the best of {finalists} finalists in {100 * tuned.confidence:.0f} % of resamples "
        f"of the {seeds} seeds{rows} (it was chosen on these losses, which flatters it)"
    )
