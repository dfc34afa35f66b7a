"""A process of its own that trains a little and prints the most memory it held, in bytes.

python -m kandle.bench._peak idle|kandle|wide|tiny|jaxkan
"""

import resource
import sys
from dataclasses import replace
from pathlib import Path

from kandle.bench._cases import MEMORY, WIDE

_STEPS = 3


def main(what: str) -> None:
    import jax.numpy as jnp

    jnp.zeros(1).block_until_ready()
    if what == "kandle":
        from kandle.train import Architecture, train

        shape = Architecture(MEMORY.width, MEMORY.depth, MEMORY.grid)
        train(MEMORY.problem, shape, [("glorot", 0)], steps=_STEPS)
    elif what in ("wide", "tiny"):
        from kandle.bench._kandle import kandle_runner

        # The tiny network is the same program, with the same libraries, without the arrays.
        tiny = replace(WIDE, width=2, ends=(2, 1))
        kandle_runner(WIDE if what == "wide" else tiny).run(_STEPS)
    elif what != "idle":
        from kandle.bench._peers import PEERS

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
