"""`kandle explore`: an interactive HTML page of a store."""

import argparse


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "explore",
        help="write an interactive page of a store",
        description="Write one self-contained HTML file that opens in any browser: heatmaps "
        "over the exponents, loss curves, kernel spectra, win rates and comparisons of a store.",
    )
    parser.add_argument("--store", metavar="DIR", required=True, help="the store of runs")
    parser.add_argument("--out", metavar="FILE.html", required=True, help="the page to write")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle.paper._design import STUDIES
    from kandle.report.explorer import explore

    print(explore(arguments.store, arguments.out, plain_studies=STUDIES))
    return 0
