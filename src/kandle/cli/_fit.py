"""`kandle fit`: train a network on a table."""

import argparse
import csv
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from kandle.tabular import FitSettings, TableFit


INPUTS = "columns to predict from (default: all others that have a name)"

# What settings are called on the command line, for messages.
OPTIONS = {
    "layers": "--layers",
    "grid": "--grid",
    "grids": "--grids",
    "steps": "--steps",
    "optimizer": "--optimizer",
    "learning_rate": "--rate",
    "batch_size": "--batch-size",
    "smoothness": "--smoothness",
    "weight_decay": "--weight-decay",
    "networks": "--networks",
    "validation_fraction": "--validation-fraction",
    "patience": "--patience",
}


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "fit",
        help="train a network on a table",
        description="Train networks to predict a column of a CSV, TSV or Parquet file from the "
        "others, compare their average with simple answers on rows that were not used for "
        "training, and save it with its scaling. Large Parquet files are read by row groups.",
    )
    add_data(parser)
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help="settings to begin with: default, quick (or fast), thorough, accurate (least squares "
        "on two grids), paper, or noise-free (no validation, one network); the options below "
        "replace them one by one",
    )
    parser.add_argument(
        "--init",
        metavar="SCHEME",
        help="initialization, such as glorot or power-law:0.25,1.75 (default: power-law)",
    )
    parser.add_argument("--layers", type=layers, help="widths of hidden layers (default: 16)")
    parser.add_argument("--grid", type=whole, help="spline intervals (default: 5)")
    parser.add_argument(
        "--grids",
        type=grids,
        metavar="G,G,...",
        help="in place of --grid: train on these grids one after the other, such as 5,10,20",
    )
    parser.add_argument("--steps", type=whole, help="most updates per grid (default: 2000)")
    parser.add_argument(
        "--optimizer", metavar="NAME", help="adam (the default) or levenberg-marquardt"
    )
    add_rate(parser, "0.01")
    parser.add_argument(
        "--batch-size", type=auto(whole), help="rows per update (default: auto, all up to 512)"
    )
    parser.add_argument(
        "--no-early-stopping",
        action="store_true",
        help="hold out no rows, make all updates (default: stop when held-out rows get no better)",
    )
    parser.add_argument(
        "--validation-fraction",
        type=real,
        help="share of the training rows that each network holds out (default: 0.1)",
    )
    parser.add_argument(
        "--patience", type=whole, help="updates without improvement to stop after (default: 200)"
    )
    parser.add_argument(
        "--smoothness",
        type=auto(real),
        help="penalty on the curvature of edge functions (default: auto, chosen by validation)",
    )
    parser.add_argument("--weight-decay", type=real, help="penalty on squared weights (default: 0)")
    parser.add_argument(
        "--networks", type=whole, help="networks whose average is the result (default: 5)"
    )
    parser.add_argument(
        "--seed", type=whole, default=0, help="of weights, test and held-out rows (default: 0)"
    )
    parser.add_argument("--out", required=True, metavar="MODEL.safetensors", help="file to write")
    parser.set_defaults(run=run)


def add_data(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The options that say what is predicted from what, the same for `fit` and `tune`."""
    parser.add_argument(
        "data", metavar="DATA", nargs=None if required else "?", help="a CSV, TSV or Parquet file"
    )
    parser.add_argument(
        "--target", required=required, help="the column to predict, or several: A,B"
    )
    parser.add_argument("--inputs", metavar="A,B,...", help=INPUTS)
    parser.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="auto (the default) classifies text and whole numbers of few distinct values",
    )
    parser.add_argument(
        "--categorical",
        nargs="?",
        const="",
        metavar="A,B,...",
        help="one-hot encode these input columns, or all of text if none is named",
    )
    parser.add_argument(
        "--missing",
        choices=("error", "impute"),
        default="error",
        help="impute replaces missing numbers by their column's median (default: error)",
    )
    parser.add_argument(
        "--separator", help="between columns: a character or 'tab' (default: found out)"
    )


def add_rate(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--rate",
        "--learning-rate",
        type=real,
        help=f"learning rate of Adam (default: {default})",
    )


def read_data(arguments: argparse.Namespace) -> "pd.DataFrame":
    """The table of DATA, with a note on columns without a name, which are left out."""
    from kandle.tabular._read import read_frame, unnamed

    frame = read_frame(arguments.data, separator(arguments.separator))
    if arguments.inputs is None:
        for i, column in enumerate(map(str, frame.columns), start=1):
            if unnamed(column) and column not in columns(arguments.target, frame.columns):
                print(
                    f"kandle: note: column {i} has no name, as an index that was written beside "
                    f"the data, and is left out; --inputs can name it: {column!r}.",
                    file=sys.stderr,
                )
    return frame


def data_options(arguments: argparse.Namespace, known: Sequence[str]) -> dict[str, Any]:
    """Target, inputs, task and encoding as `fit_table` takes them."""
    categorical: Sequence[str] | None = ()
    if arguments.categorical is not None:
        categorical = columns(arguments.categorical, known) if arguments.categorical else None
    return {
        "target": columns(arguments.target, known),
        "inputs": None if arguments.inputs is None else columns(arguments.inputs, known),
        "task": arguments.task,
        "categorical": categorical,
        "impute": arguments.missing == "impute",
    }


def columns(text: str, known: Iterable[str]) -> list[str]:
    """One column, whose name may contain commas, or several with commas between.

    Among several, a name with a comma is put into quotation marks, as in a CSV file.
    """
    if text in known:
        return [text]
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def separator(text: str | None) -> str | None:
    from kandle._errors import must

    names = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
    text = names.get(text, text) if text is not None else None
    if text is not None and len(text) != 1:
        raise must("--separator", "one character, or 'tab'", text)
    return text


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
    return _counts(text, "widths with commas between, such as 16 or 8,8") if text.strip() else ()


def grids(text: str) -> tuple[int, ...]:
    return _counts(text, "spline intervals with commas between, such as 5,10,20")


def _counts(text: str, requirement: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
        if any(count < 1 for count in counts):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {requirement}. Got {text!r} instead.") from None
    return counts


def whole(text: str) -> int:
    """A whole number, which may be written as 1e3."""
    try:
        number = float(text)
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"must be a whole number, such as 1000 or 1e3. Got {text!r} instead."
        ) from None
    return int(text) if text.strip().lstrip("+-").isdigit() else int(number)


def real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number, such as 0.01 or 1e-3. Got {text!r} instead."
        ) from None


def auto(kind):
    """A value of this kind, or the word auto."""

    def parse(text: str):
        if text == "auto":
            return text
        try:
            return kind(text)
        except (ValueError, argparse.ArgumentTypeError):
            raise argparse.ArgumentTypeError(
                f"must be 'auto' or a number. Got {text!r} instead."
            ) from None

    return parse


def settings_of(arguments: argparse.Namespace, seed: int) -> "FitSettings":
    """The recipe, with what options say otherwise."""
    from kandle._errors import UserError
    from kandle.tabular import FitSettings
    from kandle.tabular._settings import with_recipe

    if arguments.grid is not None and arguments.grids is not None:
        raise UserError("--grids is a schedule in place of --grid: give one of them.")
    given = {
        field: value
        for field, option in OPTIONS.items()
        if (value := getattr(arguments, option[2:].replace("-", "_"))) is not None
    }
    values = {**with_recipe(arguments.recipe, given), "seed": seed}
    if arguments.no_early_stopping:
        values["early_stopping"] = False
    if arguments.init is not None:
        values["init"] = scheme(arguments.init)
    return FitSettings.checked(values, OPTIONS)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import UserError
    from kandle._seed import check_seed
    from kandle.cli._files import check_writable, progress

    seed = check_seed("--seed", arguments.seed)
    # Before anything is computed that could be lost.
    out = check_writable(arguments.out, (".safetensors",))
    from pathlib import Path

    from kandle.tabular import fit_parquet, fit_table, save_fitted
    from kandle.tabular._stream import is_streamed

    settings = settings_of(arguments, seed)
    if is_streamed(arguments.data):
        import pyarrow.parquet as pq

        options = data_options(arguments, pq.read_schema(arguments.data).names)
        if options.pop("impute") or options.pop("categorical") != ():
            raise UserError(
                f"{arguments.data} is read by row groups, since it is large. --categorical and "
                "--missing need a smaller file: encode it first."
            )
        print(f"{arguments.data} is large and read by row groups", file=sys.stderr)
        with progress("fit") as report:
            found = fit_parquet(arguments.data, settings=settings, report=report, **options)
    else:
        frame = read_data(arguments)
        options = data_options(arguments, list(frame.columns))
        with progress("fit") as report:
            name = Path(arguments.data).stem
            found = fit_table(frame, settings=settings, name=name, report=report, **options)
    show(found, settings)
    # Last, so that an error of the disk loses no more than the file.
    save_fitted(found.fitted, out)
    print(f"\nsaved {out}")
    return 0


def show(found: "TableFit", settings: "FitSettings") -> None:
    """What was assumed, how it was trained, and a table per target."""
    from kandle.tabular._read import listed

    task, outcome = found.task, found.outcome
    encoder = found.fitted.encoder
    assert encoder is not None
    print(f"{', '.join(task.target)} from {listed([c.name for c in encoder.columns])}")
    if task.reason:
        print(f"task: {task.name}, assumed because {task.reason} (--task decides otherwise)")
    errors = "root mean square errors" if task.classes is None else "shares of wrong classes"
    print(f"{found.n_train} rows to train, {found.n_test} to test; {errors}")
    average = f"the average of {n} networks" if (n := len(outcome.networks)) > 1 else "one network"
    if outcome.held_out:
        print(
            f"{average}, each validated on {outcome.held_out} held-out training rows: "
            f"{outcome.updates} of {settings.total_steps} updates, "
            f"smoothness {outcome.smoothness:g}"
        )
    else:
        print(f"{average}, {outcome.updates} updates without validation")
    if found.ignored:
        shown = ", ".join(found.ignored[:5]) + (", …" if len(found.ignored) > 5 else "")
        are = "inputs are" if len(found.ignored) > 1 else "input is"
        print(f"{len(found.ignored)} {are} constant in the training rows, and ignored: {shown}")
    if found.beyond:
        lie = "lies" if found.beyond == 1 else "lie"
        print(f"{found.beyond} of the test rows {lie} outside the range of the training rows")
    if found.hardly_varies and settings.weight_decay > 0:
        print(
            f"the predictions hardly vary: --weight-decay {settings.weight_decay:g} may be too "
            "large"
        )
    print()
    show_scores(found)


def show_scores(found: "TableFit") -> None:
    """A table per target, and a remark where a simpler answer is better."""
    scores, is_regression = found.scores, found.task.classes is None
    title_of_score = "test R²" if is_regression else "accuracy"
    targets = list(dict.fromkeys(score.target for score in scores))
    width = max(len(text) for score in scores for text in (score.name, score.target))
    verdicts = []
    for target in targets:
        own = [score for score in scores if score.target == target]
        title = target if len(targets) > 1 else ""
        print(f"{title:{width}}  {'train':>10}  {'test':>10}  {title_of_score:>8}")
        for score in own:
            value = f"{score.score:.4f}" if abs(score.score) < 100 else f"{score.score:.2g}"
            print(f"{score.name:{width}}  {score.train:10.4g}  {score.test:10.4g}  {value:>8}")
        best = min(own, key=lambda score: score.test)
        if best.test < own[-1].test:
            which = f" for {target}" if len(targets) > 1 else ""
            verdicts.append(
                f"The network is no better on the test rows than {best.name}{which}: prefer that."
            )
        if len(targets) > 1 and target != targets[-1]:
            print()
    for verdict in verdicts:
        print(f"\n{verdict}")
