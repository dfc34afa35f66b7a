"""Double precision within, whatever the model and the program around it are in."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from kandle._compat import enable_x64
from kandle._errors import UserError, must
from kandle.nn import KAN


@contextlib.contextmanager
def double() -> Iterator[None]:
    """JAX computes in float64 inside, and as before after it."""
    with enable_x64(True):
        yield


def doubled(model: Any) -> KAN:
    """The model with its weights as float64."""
    if not isinstance(model, KAN):
        raise must("'model'", "a KAN", type(model).__name__)
    weights = [np.asarray(leaf) for leaf in jax.tree.leaves(model)]
    if not all(np.isfinite(w).all() for w in weights):
        raise UserError("A weight of the model is not finite: it has no tangent kernel.")
    return jax.tree.unflatten(jax.tree.structure(model), [w.astype(np.float64) for w in weights])


def points(x: Any, model: KAN, name: str = "x") -> np.ndarray:
    """Points as a finite float64 matrix (N, n_in), or an error that says what they are."""
    try:
        x = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise must(f"'{name}'", "numbers", x) from None
    n_in = model.widths[0]
    if x.ndim != 2 or x.shape[1] != n_in or len(x) == 0:
        wanted = f"points of the model's {n_in} inputs, (N, {n_in}) with N of at least 1"
        raise must(f"'{name}'", wanted, x.shape)
    if not np.isfinite(x).all():
        raise UserError(f"'{name}' must be finite. Row {_first_bad(x)} is not.")
    return x


def _first_bad(x: np.ndarray) -> int:
    return int(np.argmin(np.isfinite(x).all(axis=1)))
