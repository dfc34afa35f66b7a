"""`kandle table`: a table of the study from a store."""

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kandle.report.tables import Table


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "table",
        help="print a table of the study",
        description="Print a table made from the runs of a store: the paper's Tables 1-4 and C1, "
        "the favourable region of the power law's exponents, or, for any study, medians by the "
        "values of any column: 'compare --study S --by optimizer'.",
    )
    parser.add_argument("name", metavar="NAME", help="1, 2, 3, 4, C1, region or compare")
    parser.add_argument("--store", metavar="DIR", help="the store of runs (not needed for C1)")
    parser.add_argument(
        "--study", help="take the runs of this study instead of the one the paper's table is of"
    )
    parser.add_argument(
        "--pair",
        metavar="A,B",
        type=_pair,
        help="represent the power law by this one (alpha, beta), e.g. 0.25,1.0",
    )
    parser.add_argument(
        "--by", metavar="COLUMN", help="compare: the exported column whose values are the rows"
    )
    parser.add_argument(
        "--metric",
        choices=("loss", "l2", "test_mse"),
        help="compare: the result to show (default: loss)",
    )
    parser.add_argument(
        "--where",
        metavar="COLUMN=VALUE",
        action="append",
        default=[],
        help="keep only the runs with this value in an exported column; may be repeated",
    )
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "latex", "csv"),
        default="text",
        help="how to write it (default: text)",
    )
    parser.add_argument(
        "--paper", action="store_true", help="set the paper's figures beside ours, with notes"
    )
    parser.add_argument(
        "--tests",
        action="store_true",
        help="add the p values of the paired tests to the CSV of Tables 1 and 2",
    )
    parser.set_defaults(run=run)


def _pair(text: str) -> tuple[float, float]:
    try:
        alpha, beta = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be two numbers with a comma between, such as 0.25,1.0. Got {text!r} instead."
        ) from None
    return alpha, beta


def run(arguments: argparse.Namespace) -> int:
    from kandle import paper
    from kandle._errors import UserError

    if arguments.name == "compare":
        return _show(_compared(arguments), arguments.format)
    if arguments.by or arguments.metric:
        raise UserError("'--by' and '--metric' belong to 'kandle table compare'.")
    table = paper.table(
        arguments.name.removeprefix("table").removeprefix("-"),
        arguments.store,
        study=arguments.study,
        pair=arguments.pair,
        paper=arguments.paper,
        tests=arguments.tests,
        where=arguments.where,
    )
    return _show(table, arguments.format)


def _compared(arguments: argparse.Namespace) -> "Table":
    from kandle._errors import UserError
    from kandle.report import tables
    from kandle.report._load import open_store, restrict, study_runs

    if arguments.store is None or arguments.study is None:
        raise UserError("'kandle table compare' needs '--store' and '--study'.")
    if arguments.pair or arguments.paper or arguments.tests:
        raise UserError("'--pair', '--paper' and '--tests' belong to the paper's tables.")
    with open_store(arguments.store) as store:
        runs = restrict(study_runs(store, arguments.study), arguments.where)
    by, metric = arguments.by or "scheme", arguments.metric or "loss"
    return tables.compare_table(runs, arguments.study, by, metric)


def _show(table: "Table", format: str) -> int:
    from kandle.report import tables

    print(tables.render(table, format), end="")
    if format == "csv":
        # Tidy data has no place for prose, so the notes go to standard error.
        for note in (table.heading + ".", *table.notes):
            print(f"kandle: note: {note}", file=sys.stderr)
    return 0
