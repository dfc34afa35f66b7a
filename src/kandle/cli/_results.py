"""`kandle results`: describe the results that come with the project."""

import argparse
from collections.abc import Mapping
from pathlib import Path
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
    from kandle.store import Store, read_manifest

    with Store.open("results") as store:
        count = len(store)
    print("\n".join(describe(read_manifest(Path("results")))))
    print(f"\nVerified: {count:,} runs. Pass '--store results' to table, figure and explore.")
    return 0


def describe(manifest: Mapping[str, Any]) -> list[str]:
    """The manifest as lines of text."""
    lines = [
        f"Trained by Kandle {', '.join(manifest['versions'])}, commit {manifest['commit'][:12]}, "
        f"in {manifest['core_hours']:,.1f} core-hours; packed {manifest['created']}.",
        f"Command: {manifest['command']}",
        *(f"Machine: {name} ({count:,} runs)" for name, count in manifest["machines"].items()),
        "",
        f"{'study':18}{'runs':>8}  {'overnight':>16}  {'paper':>18}",
    ]
    for name, part in manifest["studies"].items():
        night, whole = (f"{a:,} of {b:,}" for a, b in (part["overnight"], part["paper"]))
        complete = "  complete" if part["complete_at_overnight"] else ""
        lines.append(f"{name:18}{part['runs']:>8,}  {night:>16}  {whole:>18}{complete}")
    return lines
