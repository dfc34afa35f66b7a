"""Peak memory of a training above that of an idle JAX process, each in a process of its own.

`python -m speed._memory idle|kandle|wide|tiny|jaxkan` is such a process; it prints bytes.
"""

import resource
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from kandle import UserError
from speed._cases import MEMORY, WIDE

_STEPS = 3
_FOLDER = Path(__file__).parents[1]  # where `speed` is found


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
    idle = _measured("idle")
    wide = _measured("wide") - _measured("tiny")
    kandle = _measured("kandle") - idle
    jaxkan = _measured("jaxkan") - idle if peer else None
    return Memory(idle, kandle, wide, jaxkan)


def _measured(what: str) -> int:
    command = [sys.executable, "-m", "speed._memory", what]
    ended = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"Measuring the memory of {what} failed: {last[0]}.")
    return int(ended.stdout.split()[-1])


def main(what: str) -> None:
    """Train a little in this process, and print the most memory that it held."""
    import jax.numpy as jnp

    jnp.zeros(1).block_until_ready()
    if what == "kandle":
        from kandle.train import Architecture, train

        shape = Architecture(MEMORY.width, MEMORY.depth, MEMORY.grid)
        train(MEMORY.problem, shape, [("glorot", 0)], steps=_STEPS)
    elif what in ("wide", "tiny"):
        from speed._kandle import kandle_runner

        # The tiny network is the same program, with the same libraries, without the arrays.
        tiny = replace(WIDE, width=2, ends=(2, 1))
        kandle_runner(WIDE if what == "wide" else tiny).run(_STEPS)
    elif what != "idle":
        from speed._peers import PEERS

        PEERS[what].load()(MEMORY).run(_STEPS)
    print(peak())


def peak() -> int:
    """The most memory this process ever held, in bytes."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Not `ru_maxrss`: there Linux counts what the parent held before this program began.
        line = next(s for s in status.read_text().splitlines() if s.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


if __name__ == "__main__":
    main(sys.argv[1])
