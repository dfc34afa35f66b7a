"""The libraries that Kandle is compared with, as far as they are installed."""

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass

from kandle._errors import MissingExtra
from kandle.bench._cases import Case
from kandle.bench._runner import Runner


@dataclass(frozen=True)
class Peer:
    """A library by its name on the package index, the release meant, and what drives it."""

    name: str
    label: str
    version: str
    module: str
    runner: str
    pdes: bool

    def covers(self, case: Case) -> bool:
        return self.pdes or not case.pde

    def load(self) -> Callable[[Case], Runner]:
        """What makes a runner of a case; `MissingExtra` if the library cannot be imported."""
        try:
            with quiet():
                module = importlib.import_module(self.module)
        except ImportError as error:
            if (error.name or "").startswith("kandle"):
                raise
            raise MissingExtra(f"{self.label} ({error})", "bench") from error
        made = getattr(module, self.runner)

        def make(case: Case) -> Runner:
            with quiet():
                return made(case)

        return make

    def installed(self) -> str:
        return importlib.metadata.version(self.name)


PEERS = {
    peer.name: peer
    for peer in (
        Peer("jaxkan", "jaxKAN", "0.3.7", "kandle.bench._jaxkan", "JaxkanRunner", pdes=True),
        Peer("pykan", "pykan", "0.2.8", "kandle.bench._pykan", "PykanRunner", pdes=False),
    )
}


def quiet() -> contextlib.AbstractContextManager:
    """Keep what a library prints out of our standard output."""
    return contextlib.redirect_stdout(sys.stderr)


def find(names: tuple[str, ...] = tuple(PEERS)) -> tuple[dict[str, Callable], list[str]]:
    """Makers of runners by peer, and a note on each that is missing or of another release."""
    found, notes = {}, []
    for name in names:
        peer = PEERS[name]
        try:
            found[name] = peer.load()
        except MissingExtra as error:
            notes.append(f"left out: {error}")
            continue
        if (version := peer.installed()) != peer.version:
            notes.append(
                f"{peer.label} {version} is installed, the comparison is for {peer.version}"
            )
    return found, notes
