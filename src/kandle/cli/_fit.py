"""`kandle fit`: train a network on a table."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kandle.estimators._table import Score
    from kandle.problems import Table


INPUTS = "columns to predict from (default: all others that have a name)"


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "fit",
        help="train a network on a table",
        description="Train a network to predict a column of a CSV or Parquet file from the others, "
        "compare it with the mean and with ridge regression on rows that neither the training nor "
        "the scaling saw, and save it with its scaling.",
    )
    parser.add_argument("data", metavar="DATA", help="a CSV or Parquet file")
    parser.add_argument("--target", required=True, help="the column to predict, or several: A,B")
    parser.add_argument("--inputs", metavar="A,B,...", help=INPUTS)
    parser.add_argument(
        "--init",
        default="power-law",
        metavar="SCHEME",
        help="how it starts, such as glorot or power-law:0.25,1.75 (default: power-law)",
    )
    parser.add_argument(
        "--layers", default=(8, 8), type=layers, help="widths of hidden layers (default: 8,8)"
    )
    parser.add_argument("--grid", type=int, default=5, help="spline intervals (default: 5)")
    parser.add_argument("--steps", type=int, default=2000, help="updates (default: 2000)")
    parser.add_argument("--rate", type=float, default=1e-2, help="learning rate (default: 0.01)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the weights and of the test rows (default: 0)"
    )
    parser.add_argument("--out", required=True, metavar="MODEL.safetensors", help="file to write")
    parser.set_defaults(run=run)


def read_table(arguments: argparse.Namespace, seed: int = 0) -> "Table":
    """The table of DATA, --target and --inputs, with a note on columns that were left out."""
    from pathlib import Path

    from kandle.problems import Table, read_frame

    frame = read_frame(arguments.data)
    target = columns(arguments.target, frame.columns)
    inputs = None if arguments.inputs is None else columns(arguments.inputs, frame.columns)
    name = Path(arguments.data).stem
    table = Table(frame, target, inputs=inputs, seed=seed, name=name)
    if inputs is None:
        known = {*table.target, *(table.inputs or ())}
        for i, column in enumerate(map(str, frame.columns), start=1):
            if column not in known:
                print(
                    f"kandle: note: column {i} has no name, as an index that was written beside "
                    f"the data, and is left out; --inputs can name it: {column!r}.",
                    file=sys.stderr,
                )
    return table


def columns(text: str, known: Iterable[str]) -> list[str]:
    """One column, whose name may hold commas, or several with commas between."""
    return [text] if text in known else [name.strip() for name in text.split(",")]


def scheme(text: str):
    """A scheme by name; the power law also with its exponents."""
    from kandle import init
    from kandle._errors import must

    name, colon, exponents = text.partition(":")
    if name != "power-law" or not colon:
        return init.get(text)
    try:
        alpha, beta = (float(part) for part in exponents.split(","))
    except ValueError:
        raise must("'--init'", "a scheme such as power-law:0.25,1.75", text) from None
    return init.PowerLaw(alpha, beta)


def layers(text: str) -> tuple[int, ...]:
    try:
        widths = tuple(int(part) for part in text.split(",")) if text.strip() else ()
        if any(width < 1 for width in widths):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be widths with commas between, such as 8,8. Got {text!r} instead."
        ) from None
    return widths


def run(arguments: argparse.Namespace) -> int:
    from kandle._seed import check_seed
    from kandle.cli._files import check_writable, progress

    seed = check_seed("--seed", arguments.seed)
    # Before anything is computed that could be lost.
    out = check_writable(arguments.out, (".safetensors",))
    from kandle.estimators import FitSettings, save_fitted
    from kandle.estimators._table import fit_table

    settings = FitSettings(
        layers=arguments.layers,
        grid=arguments.grid,
        init=scheme(arguments.init),
        steps=arguments.steps,
        learning_rate=arguments.rate,
        seed=seed,
    )
    table = read_table(arguments, seed)
    with progress("fit") as told:
        fitted, scores = fit_table(table, settings, told)

    data = table.arrays("float64")
    print(f"{', '.join(table.target)} from {', '.join(table.inputs or ())}")
    print(f"{len(data['x'])} rows to train, {len(data['x_test'])} to test; root mean square errors")
    if beyond := fitted.beyond(table.scaler.invert(data["x_test"])):
        print(f"{beyond} of the test rows lie outside the range of the training rows")
    print()
    show(scores)
    # Last, so that an error of the disk loses no more than the file.
    save_fitted(fitted, out)
    print(f"\nsaved {out}")
    return 0


def show(scores: "Sequence[Score]") -> None:
    """A table a target, and a word where a simpler answer is better."""
    targets = list(dict.fromkeys(score.target for score in scores))
    width = max(len(text) for score in scores for text in (score.name, score.target))
    verdicts = []
    for target in targets:
        own = [score for score in scores if score.target == target]
        title = target if len(targets) > 1 else ""
        print(f"{title:{width}}  {'train':>10}  {'test':>10}  {'test R²':>8}")
        for score in own:
            r2 = f"{score.r2:.4f}" if abs(score.r2) < 100 else f"{score.r2:.2g}"
            print(f"{score.name:{width}}  {score.train:10.4g}  {score.test:10.4g}  {r2:>8}")
        best = min(own, key=lambda score: score.test)
        if best is not own[-1]:
            which = f" for {target}" if len(targets) > 1 else ""
            verdicts.append(
                f"The network is no better on the test rows than {best.name}{which}: prefer that."
            )
        if len(targets) > 1 and target != targets[-1]:
            print()
    print("".join(f"\n{verdict}" for verdict in verdicts))
