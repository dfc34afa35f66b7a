"""The program `kandle`: one module a command, each imported when it is run."""

from kandle.cli._main import main

__all__ = ["main"]
