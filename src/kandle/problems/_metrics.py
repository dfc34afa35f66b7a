"""How far a prediction is from a reference."""

import numpy as np
from numpy.typing import ArrayLike

from kandle._errors import UserError


def relative_l2(prediction: ArrayLike, reference: ArrayLike) -> float:
    """‖prediction - reference‖₂ / ‖reference‖₂ over all points and outputs, in float64."""
    p, r = _same_shape(prediction, reference)
    error, size = float(np.linalg.norm(p - r)), float(np.linalg.norm(r))
    if size == 0.0:
        return 0.0 if error == 0.0 else float("inf")
    return error / size


def robust_error(prediction: ArrayLike, reference: ArrayLike) -> float:
    """The median of |prediction - reference| / |reference| where the reference is not 0.

    One point near a pole decides a relative L² error; it does not move a median.
    """
    p, r = _same_shape(prediction, reference)
    p, r = p[r != 0.0], r[r != 0.0]
    return float(np.median(np.abs((p - r) / r))) if r.size else float("nan")


def _same_shape(prediction: ArrayLike, reference: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p, r = np.asarray(prediction, np.float64), np.asarray(reference, np.float64)
    if p.shape != r.shape:
        # (N,) against (N, 1) would broadcast to (N, N) and give a number that means nothing.
        raise UserError(f"A prediction {p.shape} and its reference {r.shape} must have one shape.")
    return p, r
