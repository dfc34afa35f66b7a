"""`kandle tune`: find the power law's exponents for a task."""

import argparse
import shlex

from kandle.cli._fit import INPUTS, layers, read_table


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "tune",
        help="find the power law's exponents for a task",
        description="Search the paper's grid of exponents by successive halving, for a problem or "
        "for a table of data. Pairs are ranked by their training loss; for a table by the error "
        "on rows held out of the training rows, others for every seed. The rows that `kandle fit` "
        "tests on take no part.",
    )
    parser.add_argument("data", metavar="DATA", nargs="?", help="a CSV or Parquet file")
    parser.add_argument("--target", help="the column of DATA to predict")
    parser.add_argument("--inputs", metavar="A,B,...", help=INPUTS)
    parser.add_argument("--problem", metavar="P", help="a problem, such as f3 or module:object")
    parser.add_argument(
        "--layers", default=(8, 8), type=layers, help="widths of hidden layers (default: 8,8)"
    )
    parser.add_argument("--grid", type=int, default=5, help="spline intervals (default: 5)")
    parser.add_argument("--steps", type=int, help="of a whole training (default: the problem's)")
    parser.add_argument("--seeds", type=int, default=3, help="starts of a pair (default: 3)")
    parser.add_argument(
        "--rate",
        type=float,
        help="learning rate (default: 0.001; for DATA 0.01, falling to zero, as of `kandle fit`)",
    )
    parser.add_argument(
        "--budget",
        help="model-steps such as 2e6, or a time such as 90s, 5min, 1h "
        "(default: a fifth of all model-steps)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import UserError
    from kandle.cli._files import progress
    from kandle.tune import tune

    if (arguments.data is None) == (arguments.problem is None):
        raise UserError("Either DATA with --target or --problem must be given, and not both.")
    if (arguments.data is None) != (arguments.target is None):
        raise UserError("DATA and --target go together.")
    if arguments.data is None and arguments.inputs is not None:
        raise UserError("--inputs names columns of DATA and goes with it.")
    problem = arguments.problem if arguments.data is None else read_table(arguments)
    with progress("tune") as told:
        tuned = tune(
            problem,
            layers=arguments.layers,
            grid=arguments.grid,
            steps=arguments.steps,
            seeds=arguments.seeds,
            budget=arguments.budget,
            optimizer=optimizer(arguments),
            progress=told,
        )
    show(tuned)
    print(tuned.code() if arguments.data is None else fit_command(arguments, tuned))
    return 0


def optimizer(arguments: argparse.Namespace):
    """That of the task at another rate; None is that of the task."""
    from kandle.estimators import FitSettings
    from kandle.train import Optimizer

    if arguments.rate is None:
        return None
    if arguments.data is None:
        return Optimizer(learning_rate=arguments.rate)
    steps = FitSettings().steps if arguments.steps is None else arguments.steps
    return FitSettings(steps=steps, learning_rate=arguments.rate).optimizer()


def fit_command(arguments: argparse.Namespace, tuned) -> str:
    """The command that trains on the same table, in the same way, from the best pair."""
    parts = ["kandle", "fit", arguments.data]
    for name in ("target", "inputs"):
        if (value := getattr(arguments, name)) is not None:
            # A name that begins with a dash would be taken for an option.
            parts += [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]
    parts += ["--init", f"power-law:{tuned.best.alpha:g},{tuned.best.beta:g}"]
    parts += ["--layers", ",".join(map(str, arguments.layers)), "--grid", str(arguments.grid)]
    for name in ("steps", "rate"):
        if (value := getattr(arguments, name)) is not None:
            parts += [f"--{name}", str(value)]
    return shlex.join([*parts, "--out", "model.safetensors"])


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
