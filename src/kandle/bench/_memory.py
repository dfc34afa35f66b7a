"""Peak memory of a training above that of an idle JAX process, each in a process of its own."""

import subprocess
import sys
from dataclasses import dataclass

from kandle._errors import UserError
from kandle.bench._cases import WIDE


@dataclass(frozen=True)
class Memory:
    """Bytes above `idle`; `jaxkan` is None where it was not asked for or is not installed.

    `wide` is of training the wide network, above a tiny one in the same program; `wide_state` of
    its weights, gradients and moments.
    """

    idle: int
    kandle: int
    wide: int
    jaxkan: int | None

    @property
    def ratio(self) -> float | None:
        return None if self.jaxkan is None else self.kandle / self.jaxkan

    @property
    def wide_state(self) -> int:
        weights = WIDE.edges * (WIDE.grid + 5) + sum(WIDE.widths[1:])
        return 4 * 4 * weights


def measure(peer: bool) -> Memory:
    idle = _peak("idle")
    wide = _peak("wide") - _peak("tiny")
    return Memory(idle, _peak("kandle") - idle, wide, _peak("jaxkan") - idle if peer else None)


def _peak(what: str) -> int:
    command = [sys.executable, "-m", "kandle.bench._peak", what]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"Measuring the memory of {what} failed: {last[0]}.")
    return int(ended.stdout.split()[-1])
