"""Parse the command line and run one command.

A command is a module here with `add(subparsers)`, which declares its options and sets `run=` to a
function of the parsed arguments. Nothing heavier than argparse is imported before a command runs:
help must be instant.
"""

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

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


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as all commands do."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
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
    if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        arguments = build_parser().parse_args(argv)
        return arguments.run(arguments) or 0
    except (UserError, MissingExtra, OSError) as error:
        print(f"kandle: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("kandle: interrupted", file=sys.stderr)
        if argv is None:
            _leave(130)
        return 130


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt where it is heard.

    JAX hooks into garbage collection, and Python drops whatever is raised within such a hook: a
    Ctrl-C during a long compilation would be lost. It is sent once more a moment later.
    """
    if frame is not None and frame.f_code.co_name == "_xla_gc_callback":
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
        return
    raise KeyboardInterrupt


def _leave(code: int) -> None:
    """End the process at once: XLA may be computing still, and crashes if Python is taken down
    around it.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
