"""`kandle results`: describe the results that come with the project."""

import argparse
from typing import Any


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "results",
        help="describe the results that come with the project",
        description="Verify the results that come with the project and describe them: runs per "
        "study, machine, version and command. Every table and figure can be made from them: "
        "'kandle table 1 --store results', 'kandle figure fig1 --store results --out fig1.png', "
        "'kandle explore --store results --out explorer.html'.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle.paper._results import describe, manifest
    from kandle.store import Store

    with Store.open("results") as store:
        count = len(store)
    print("\n".join(describe(manifest())))
    print(f"\nVerified: {count:,} runs. Pass '--store results' to table, figure and explore.")
    return 0
