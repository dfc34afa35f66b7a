"""A spectrum in words: what follows from its numbers, and nothing else."""

import math
import numbers

import numpy as np

from kandle._errors import must
from kandle.ntk._spectrum import Spectrum

# A mode is learned once a hundredth of its error is left, and has not moved while 9 tenths are.
LEARNED, UNMOVED = 0.01, 0.9


def reading(spectrum: Spectrum, steps: int, *, largest: float | None = None) -> str:
    """Which modes learn within so many steps, and which do not, as a paragraph.

    Under gradient descent on a kernel that stays as it is, the error along eigenvector i shrinks by
    1 - η λ_i a step, and η = 1/λ_1 is the rate at which the first mode is learned at once; so

        (1 - λ_i/λ_1)^steps

    of it is left. This takes no account of Adam, which scales every weight's step for itself, nor
    of the kernel's own change: it is what the spectrum by itself promises. Modes up to
    `Spectrum.floor` cannot be distinguished from zero and are never learned.

    `largest` stands in for λ_1 in the rate where this kernel is a block of a larger one.
    """
    if not isinstance(steps, numbers.Integral) or isinstance(steps, bool) or steps < 1:
        raise must("'steps'", "an integer of at least 1", steps)
    values = np.asarray(spectrum.eigenvalues)
    n = len(values)
    if values[0] <= 0:
        return "The kernel is zero: no weight changes the outputs, and nothing is learned."
    values = np.where(values > spectrum.floor, values, 0.0)
    largest = float(values[0]) if largest is None else largest
    ratio = np.clip(values / largest, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        left = np.exp(steps * np.log1p(-ratio))
    learned, moved = int(np.sum(left <= LEARNED)), int(np.sum(left < UNMOVED))
    alive = int(np.sum(values > 0))
    parts = [
        f"By gradient descent on this kernel, at the rate that the largest eigenvalue allows, "
        f"{_learned(learned, n)} within {steps:,} steps."
    ]
    if moved > learned:
        parts.append(f"{_range(learned + 1, moved, 'learn')} in part.")
    if moved < alive:
        parts.append(
            f"{_range(moved + 1, alive, 'keep')} more than 90 % of it and will not be learned in "
            f"this time ({_needed(ratio[alive - 1])} for the last)."
        )
    if alive < n:
        parts.append(
            f"{_range(alive + 1, n, 'cannot', 'cannot')} be distinguished from zero: no number of "
            "steps would do."
        )
    if spectrum.error_share is not None and sum(spectrum.error_share) > 0:
        share = np.asarray(spectrum.error_share)
        parts.append(
            f"Of the model's squared error {_percent(share[:learned].sum())} lies in the modes "
            f"that are learned, {_percent(share[learned:moved].sum())} in those between and "
            f"{_percent(share[moved:].sum())} in those that are not; "
            f"{_percent(float(share @ left**2))} of it would be left."
        )
    parts.append(
        f"{_percent(values[0] / values.sum())} of the kernel's trace is in its first mode, and the "
        f"effective rank is {spectrum.effective_rank:.3g} of {n}."
    )
    return " ".join(parts)


def _learned(count: int, n: int) -> str:
    if count == n:
        which = "the only mode loses" if n == 1 else f"all {n} modes lose"
    else:
        which = f"{count} of {n} modes lose{'s' if count == 1 else ''}"
    return f"{which} 99 % of the error in {'it' if count == 1 else 'them'}"


def _range(first: int, last: int, verb: str, singular: str | None = None) -> str:
    if first == last:
        return f"Mode {first} {singular or f'{verb}s'}"
    return f"Modes {first} to {last} {verb}"


def _needed(ratio: float) -> str:
    """Steps until a mode is learned."""
    return f"{math.log(LEARNED) / math.log1p(-min(ratio, 1 - 1e-16)):.1e} steps would be needed"


def _percent(part: float) -> str:
    percent = 100 * max(float(part), 0.0)
    return f"{percent:.0f} %" if percent >= 9.5 or percent == 0 else f"{percent:.2g} %"
