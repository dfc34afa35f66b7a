"""`kandle tune`: find the power law's exponents for a task."""

import argparse

from kandle.cli._fit import layers


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "tune",
        help="find the power law's exponents for a task",
        description="Search the paper's grid of exponents by successive halving, for a problem or "
        "for a table of data.",
    )
    parser.add_argument("data", metavar="DATA", nargs="?", help="a CSV or Parquet file")
    parser.add_argument("--target", help="the column of DATA to predict")
    parser.add_argument("--problem", metavar="P", help="a problem, such as f3 or module:object")
    parser.add_argument(
        "--layers", default=(8, 8), type=layers, help="widths of hidden layers (default: 8,8)"
    )
    parser.add_argument("--grid", type=int, default=5, help="spline intervals (default: 5)")
    parser.add_argument("--steps", type=int, help="of a whole training (default: the problem's)")
    parser.add_argument("--seeds", type=int, default=3, help="starts of a pair (default: 3)")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate (default: 0.001)")
    parser.add_argument(
        "--budget",
        help="model-steps such as 2e6, or a time such as 5m (default: a fifth of all model-steps)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import UserError
    from kandle.cli._files import progress
    from kandle.problems import Table
    from kandle.train import Optimizer
    from kandle.tune import tune

    if (arguments.data is None) == (arguments.problem is None):
        raise UserError("Either DATA with --target or --problem must be given, and not both.")
    if (arguments.data is None) != (arguments.target is None):
        raise UserError("DATA and --target go together.")
    problem = arguments.problem or Table(arguments.data, arguments.target)
    with progress("tune") as told:
        tuned = tune(
            problem,
            layers=arguments.layers,
            grid=arguments.grid,
            steps=arguments.steps,
            seeds=arguments.seeds,
            budget=arguments.budget,
            optimizer=Optimizer(learning_rate=arguments.rate),
            progress=told,
        )
    show(tuned)
    return 0


def show(tuned) -> None:
    """The landscape, the finalists, the best pair and the line of code."""
    import numpy as np

    alphas, betas, losses = tuned.landscape()
    print(f"log10 of the loss after {tuned.plan.rungs[0].steps:,} steps, first seed\n")
    print("alpha\\beta" + "".join(f"{beta:>8g}" for beta in betas))
    finalists = {(c.alpha, c.beta) for c in tuned.finalists}
    for alpha, row in zip(alphas, losses, strict=True):
        cells = ""
        for beta, loss in zip(betas, row, strict=True):
            text = f"{np.log10(loss):.2f}" if np.isfinite(loss) else "-"
            cells += f"{text + ('*' if (alpha, beta) in finalists else ' '):>8}"
        print(f"{alpha:>10g}{cells}")

    best, seeds = tuned.best, len(tuned.best.losses)
    print(f"\n* trained for all {best.steps:,} steps from {seeds} seeds:\n")
    print(f"{'alpha':>6}  {'beta':>6}  {'median loss':>12}  {'least':>10}  {'most':>10}")
    for c in tuned.finalists[:10]:
        print(
            f"{c.alpha:>6g}  {c.beta:>6g}  {c.loss:>12.3e}  "
            f"{min(c.losses):>10.3e}  {max(c.losses):>10.3e}"
        )
    share = tuned.plan.model_steps / tuned.exhaustive
    print(f"\nbest: alpha = {best.alpha:g}, beta = {best.beta:g}")
    if len(tuned.finalists) > 1:
        print(
            f"how sure: its runs have the lower loss in {100 * tuned.confidence:.0f} % of "
            f"comparisons with the runner-up's ({seeds} seeds each; 50 % would be chance)"
        )
    print(f"cost: {tuned.plan.model_steps:,} model-steps, {100 * share:.0f} % of all\n")
    print(tuned.code())
