"""`kandle explore`: one HTML page to look through a store with."""

import argparse


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "explore",
        help="write a page to look through a store with",
        description="Write one self-contained HTML file, to be opened by double click: heatmaps "
        "over the exponents, loss curves, kernel spectra, win rates and comparisons of a store.",
    )
    parser.add_argument("--store", metavar="DIR", required=True, help="the store of runs")
    parser.add_argument("--out", metavar="FILE.html", required=True, help="the page to write")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle.report.explorer import explore

    print(explore(arguments.store, arguments.out))
    return 0
