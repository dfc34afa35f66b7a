"""Parse the command line and run one command.

A command is a module here with `add(subparsers)`, which declares its options and sets `run=` to a
function of the parsed arguments. Nothing heavier than argparse is imported before a command runs:
help must be instant.
"""

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import kandle
from kandle._errors import MissingExtra, UserError
from kandle._text import printable

_COMMANDS = (
    "_reproduce",
    "_study",
    "_table",
    "_figure",
    "_explore",
    "_results",
    "_ntk",
    "_fit",
    "_predict",
    "_tune",
    "_plot",
    "_export",
)


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, like all commands."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {printable(message)} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="kandle",
        description="Train Kolmogorov-Arnold networks, and study how to initialize them.",
    )
    parser.add_argument("--version", action="version", version=f"kandle {kandle.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        importlib.import_module(f"kandle.cli.{name}").add(subparsers)
    return parser


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; an unknown option is an error of the command that it was given to."""
    arguments, unknown = build_parser().parse_known_args(argv)
    if unknown:
        Parser(prog=f"kandle {arguments.command}").error(
            f"unrecognized arguments: {' '.join(unknown)}"
        )
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program: 0 for success, 1 for a finished command with failures, 2 for misuse."""
    if argv is None:
        warnings.formatwarning = one_line_warning
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot print a character shows another instead of ending the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        arguments = parse(argv)
        code = arguments.run(arguments) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader, such as `head`, has enough. Nothing must be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UserError, MissingExtra, OSError) as error:
        print(f"kandle: error: {printable(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("kandle: interrupted", file=sys.stderr)
        if argv is None:
            _leave(130)
        return 130


def one_line_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """A warning as a line of the program; where in the code it was raised helps no user of it."""
    if category is UserWarning:
        return f"kandle: warning: {printable(message)}\n"
    return f"{filename}:{lineno}: {category.__name__}: {printable(message)}\n"


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt where it is not swallowed.

    JAX hooks into garbage collection, and Python ignores exceptions within such a hook: a Ctrl-C
    during a long compilation would be lost. While JAX is imported, an exception in the midst of
    its C++ modules would crash the process. In both cases it is sent again shortly after.
    """
    in_hook = frame is not None and frame.f_code.co_name == "_xla_gc_callback"
    if in_hook or _is_being_imported("jax"):
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
        return
    raise KeyboardInterrupt


def _is_being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)


def _leave(code: int) -> None:
    """End the process immediately: XLA may still be computing, and would crash if the interpreter
    shut down around it.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
