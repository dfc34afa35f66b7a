"""How much of the machine's arithmetic a step uses.

A cubic spline with its residual term has five non-zero taps, so an edge costs 5 fused multiply-adds
a sample for its value, 5 for the gradient in its input and 5 for the one in its weights: 15. At a
collocation point four components (u, u_t, u_x, u_xx) take that way, each with its own taps: 60. The
work on nodes (taps, SiLU, loss, Adam) is not counted, nor is the first layer's input gradient,
which nobody needs, left out: the count is nominal, and the same for every kernel.
"""

import os

from kandle.kernels import _library
from speed._cases import Case
from speed._runner import samples

VALUE, JET = 15, 60


def flops(case: Case) -> float:
    """Floating-point operations of one step of one network, two per fused multiply-add."""
    values, jets = samples(case)
    if case.predict:
        return 2.0 * case.edges * (VALUE // 3) * values
    return 2.0 * case.edges * (VALUE * values + JET * jets)


def cores() -> int:
    """The threads that XLA has here."""
    limit = os.environ.get("PJRT_NPROC")
    if limit:
        return int(limit)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def rate() -> float:
    """Fused multiply-adds per second of one core, the best of a few measurements."""
    return max(_library.fma_rate() for _ in range(3))


def share(case: Case, milliseconds: float, rate: float) -> float:
    """The part of all cores' rate that a step of so many milliseconds per network achieves."""
    return flops(case) / (1e-3 * milliseconds) / (rate * cores())
