"""jaxKAN's two spline layers and their knots."""

from typing import Any

import numpy as np
from jaxkan.grids.BaseGrid import BaseGrid
from jaxkan.layers import BaseLayer
from jaxkan.layers import SplineLayer as EfficientLayer
from jaxtyping import Float

from kandle._errors import UserError

LAYERS = (BaseLayer, EfficientLayer)


def computes_as(part: Any, classes: tuple[type, ...], *methods: str) -> bool:
    """Whether a part is of one of the classes and has none of these methods from elsewhere."""
    return any(
        isinstance(part, cls)
        and all(getattr(type(part), name) is getattr(cls, name) for name in methods)
        for cls in classes
    )


def knots_of(part: Any) -> Float[np.ndarray, "n_in n_knots"]:
    """(n_in, G + 2k + 1): `BaseLayer` repeats them for every output, outputs first."""
    knots = np.asarray(part.grid.item, np.float64)
    if isinstance(part.grid, BaseGrid):
        knots = knots.reshape(part.n_out, part.n_in, -1)
        if not (knots == knots[0]).all():
            raise UserError("its outputs have grids that differ, and there is one an input here.")
        knots = knots[0]
    return knots
