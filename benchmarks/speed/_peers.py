"""The libraries that Kandle is compared with, as far as they are installed."""

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kandle._errors import MissingExtra, must, unknown
from speed._cases import Case
from speed._runner import Runner


@dataclass(frozen=True)
class Peer:
    """A library, and what drives it.

    Args:
        name: of the peer and, if it has a `version`, of its package on the package index.
        version: the release meant; None if there is none to check.
        module, runner: what makes a runner of a case.
        pdes: whether it trains the PDE cases.
        by_path: whether it must be found in a folder, because no package index has it.
        most_values: numbers that it may hold per layer: rows times edges times functions.
    """

    name: str
    label: str
    version: str | None
    module: str
    runner: str
    pdes: bool = False
    by_path: bool = False
    most_values: float = float("inf")

    def covers(self, case: Case) -> bool:
        widest = max(a * b for a, b in zip(case.widths, case.widths[1:], strict=False))
        fits = case.rows * widest * (case.grid + 3) <= self.most_values
        return fits and (self.pdes or not case.pde)

    def load(self) -> Callable[[Case], Runner]:
        """What makes a runner of a case; `MissingExtra` if the library cannot be imported."""
        try:
            with quiet():
                module = importlib.import_module(self.module)
        except ImportError as error:
            if (error.name or "").startswith(("kandle", "speed")):
                raise
            raise MissingExtra(f"{self.label} ({error})", "bench") from error
        made = getattr(module, self.runner)

        def make(case: Case) -> Runner:
            with quiet():
                return made(case)

        return make

    def installed(self) -> str:
        return importlib.metadata.version(self.name)


_TORCH = "speed._torch"

PEERS = {
    peer.name: peer
    for peer in (
        Peer("jaxkan", "jaxKAN", "0.3.7", "speed._jaxkan", "JaxkanRunner", pdes=True),
        Peer(
            "pykan", "pykan", "0.2.8", "speed._pykan", "PykanRunner", most_values=1e8
        ),  # it holds every edge's functions at every row
        Peer("efficient-kan", "efficient-kan", None, _TORCH, "efficient_kan", by_path=True),
        Peer("fast-kan", "FastKAN", None, _TORCH, "fast_kan", by_path=True),
        Peer("mlp-jax", "MLP (JAX)", None, "speed._mlp", "MlpRunner"),
        Peer("mlp-torch", "MLP (PyTorch)", None, _TORCH, "mlp"),
    )
}

# The package that the folder of a peer must contain, itself or in `src`.
PACKAGES = {"efficient-kan": "efficient_kan", "fast-kan": "fastkan"}


def quiet() -> contextlib.AbstractContextManager:
    """Keep what a library prints out of our standard output."""
    return contextlib.redirect_stdout(sys.stderr)


def find(
    names: tuple[str, ...] = tuple(PEERS), paths: Mapping[str, str] | None = None
) -> tuple[dict[str, Callable], list[str]]:
    """Makers of runners by peer, and a note on each that is missing or of another release.

    `paths` are the folders of checkouts of peers that no package index has, by peer.
    """
    found, notes = {}, []
    for name, folder in (paths or {}).items():
        sys.path.insert(0, str(_package_folder(name, folder)))
    for name in names:
        peer = PEERS[name]
        if peer.by_path and name not in (paths or {}):
            notes.append(f"left out: {peer.label}, whose folder --peer-path {name}=DIR gives")
            continue
        try:
            found[name] = peer.load()
        except MissingExtra as error:
            notes.append(f"left out: {error}")
            continue
        if peer.version is not None and (version := peer.installed()) != peer.version:
            notes.append(
                f"{peer.label} {version} is installed, the comparison is for {peer.version}"
            )
    return found, notes


def _package_folder(name: str, folder: str) -> Path:
    if name not in PACKAGES:
        raise unknown("peer of --peer-path", name, PACKAGES)
    for candidate in (Path(folder), Path(folder) / "src"):
        if (candidate / PACKAGES[name] / "__init__.py").is_file():
            return candidate
    raise must(f"--peer-path {name}", f"a folder that contains {PACKAGES[name]}/", folder)
