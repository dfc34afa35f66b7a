"""`kandle predict`: apply a fitted network to a table."""

import argparse
import os
import sys


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "predict",
        help="apply a fitted network to a table",
        description="Predict from the rows of a CSV or Parquet file with a network that "
        "`kandle fit` or an estimator saved. Input columns are found by name.",
    )
    parser.add_argument("model", metavar="MODEL.safetensors")
    parser.add_argument("data", metavar="DATA", help="a CSV or Parquet file")
    parser.add_argument("--out", required=True, metavar="FILE.csv", help="file to write")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import must
    from kandle.cli._files import check_writable, write_whole

    out = check_writable(arguments.out, (".csv",))
    if out.exists() and os.path.exists(arguments.data) and out.samefile(arguments.data):
        raise must("--out", "another file than DATA, which it would replace", arguments.out)
    import pandas as pd

    from kandle._errors import UserError
    from kandle.estimators import load_fitted
    from kandle.problems import numbers, read_frame

    fitted = load_fitted(arguments.model)
    frame = read_frame(arguments.data)
    expected = fitted.inputs.columns
    if fitted.extra.get("named") is False and not set(expected) <= set(frame.columns):
        raise UserError(
            f"{arguments.model} was fitted to an array, whose columns have no names: "
            f"{arguments.data} must have the columns {', '.join(expected)}. "
            f"It has {', '.join(map(str, frame.columns))}."
        )
    x = numbers(frame, expected)
    if fitted.target is not None:
        names = list(fitted.target.columns)
        frame = pd.DataFrame(dict(zip(names, fitted.values(x).T, strict=True)))
    else:
        classes = list(fitted.classes or ())
        p = fitted.probabilities(x)
        frame = pd.DataFrame({"class": [classes[i] for i in p.argmax(axis=1)]})
        for name, column in zip(classes, p.T, strict=True):
            frame[f"p({name})"] = column
    write_whole(out, frame.to_csv(index=False))
    print(f"wrote {len(frame)} predictions to {out}")
    if beyond := fitted.beyond(x):
        print(
            f"kandle: note: {beyond} rows lie outside the range of the data the network was "
            "fitted to: it extrapolates there.",
            file=sys.stderr,
        )
    return 0
