"""Parse the command line and run one command.

A command is a module here with `add(subparsers)`, which declares its options and sets `run=` to a
function of the parsed arguments. Nothing heavier than argparse is imported before a command runs:
help must be instant.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

import kandle
from kandle._errors import MissingExtra, UserError

_COMMANDS = (
    "_reproduce",
    "_bench",
    "_study",
    "_table",
    "_figure",
    "_explore",
    "_ntk",
    "_fit",
    "_predict",
    "_tune",
)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kandle",
        description="Train spline Kolmogorov-Arnold networks, and find out how they should start.",
    )
    parser.add_argument("--version", action="version", version=f"kandle {kandle.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        importlib.import_module(f"kandle.cli.{name}").add(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program: 0 for success, 1 for a finished command with failures, 2 for misuse."""
    arguments = build_parser().parse_args(argv)
    try:
        return arguments.run(arguments) or 0
    except (UserError, MissingExtra, OSError) as error:
        print(f"kandle: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("kandle: interrupted", file=sys.stderr)
        return 130
