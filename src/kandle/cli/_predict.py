"""`kandle predict`: apply a fitted network to a table."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from kandle.tabular import Fitted


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "predict",
        help="apply a fitted network to a table",
        description="Predict from the rows of a CSV, TSV or Parquet file with a network that "
        "`kandle fit` or an estimator saved: values, or classes with their probabilities. Input "
        "columns are found by name.",
    )
    parser.add_argument("model", metavar="MODEL.safetensors")
    parser.add_argument("data", metavar="DATA", help="a CSV, TSV or Parquet file")
    parser.add_argument(
        "--separator", help="between columns: a character or 'tab' (default: found out)"
    )
    parser.add_argument("--out", required=True, metavar="FILE.csv", help="file to write")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import UserError, must
    from kandle.cli._files import check_writable, write_whole
    from kandle.cli._fit import separator

    out = check_writable(arguments.out, (".csv",))
    if out.exists() and os.path.exists(arguments.data) and out.samefile(arguments.data):
        raise must("--out", "another file than DATA, which it would replace", arguments.out)
    if arguments.data.endswith(".safetensors"):
        raise UserError("MODEL.safetensors comes first and DATA second: they are swapped.")
    from kandle.tabular import load_fitted, read_frame

    fitted = load_fitted(arguments.model)
    frame = read_frame(arguments.data, separator(arguments.separator))
    x = inputs(fitted, frame, arguments)
    predictions = predict(fitted, x)
    write_whole(out, predictions.to_csv(index=False))
    count = "1 prediction" if len(predictions) == 1 else f"{len(predictions)} predictions"
    print(f"wrote {count} to {out}")
    if beyond := fitted.beyond(x):
        rows = "1 row lies" if beyond == 1 else f"{beyond} rows lie"
        print(
            f"kandle: note: {rows} outside the range of the data the network was fitted to: "
            "it extrapolates there.",
            file=sys.stderr,
        )
    return 0


def inputs(fitted: "Fitted", frame: "pd.DataFrame", arguments: argparse.Namespace) -> "np.ndarray":
    """The network's inputs in the data's units, or an error that lists the missing columns."""
    from kandle._errors import UserError
    from kandle.tabular import numbers
    from kandle.tabular._read import listed

    encoder = fitted.encoder
    names = fitted.inputs.columns if encoder is None else [c.name for c in encoder.columns]
    known = set(frame.columns)
    if missing := [name for name in names if name not in known]:
        if fitted.extra.get("named") is False:
            raise UserError(
                f"{arguments.model} was fitted to an array, whose columns have no names: "
                f"{arguments.data} must have the columns {', '.join(names)}. "
                f"It has {listed(list(frame.columns))}."
            )
        raise UserError(
            f"{arguments.data} lacks {len(missing)} of the {len(names)} columns that "
            f"{arguments.model} predicts from: {listed(missing)}. "
            f"It has {listed(list(frame.columns))}."
        )
    if encoder is None:
        return numbers(frame, names)
    for column, values in encoder.unknown_categories(frame).items():
        print(
            f"kandle: note: column {column!r} has categories that the training rows did not have: "
            f"{listed(values, 5)}. They count as none of those known.",
            file=sys.stderr,
        )
    return encoder.apply(frame)


def predict(fitted: "Fitted", x: "np.ndarray") -> "pd.DataFrame":
    """Values of every target, or the class with the probability of every class."""
    import pandas as pd

    if fitted.target is not None:
        names = list(fitted.target.columns)
        return pd.DataFrame(dict(zip(names, fitted.values(x).T, strict=True)))
    classes = list(fitted.classes or ())
    p = fitted.probabilities(x)
    predictions = pd.DataFrame({"class": [classes[i] for i in p.argmax(axis=1)]})
    for name, column in zip(classes, p.T, strict=True):
        predictions[f"p({name})"] = column
    return predictions
