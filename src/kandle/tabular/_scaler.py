"""An affine change of units per column."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kandle._errors import UserError, must

# The scale of an input that is constant in the training rows: nothing was learned about any other
# value of it, so all values become 0. In float32 it has a reciprocal.
IGNORED = 1e30

# The scale of a target that is constant in the training rows: whatever the network's output is,
# the prediction is that constant.
CONSTANT = 1e-300


@dataclass(frozen=True)
class Scaler:
    """z = (x - offset) / scale for every column of x (N, n).

    >>> scaler = Scaler.to_interval([[0.0], [10.0]], ["x"])
    >>> scaler.apply([[5.0], [10.0]]).tolist()
    [[0.0], [1.0]]
    """

    columns: tuple[str, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self):
        sizes = len(self.columns), len(self.offset), len(self.scale)
        if len(set(sizes)) > 1:
            raise must("A Scaler", "one name, offset and scale per column", sizes)
        for column, offset, scale in zip(self.columns, self.offset, self.scale, strict=True):
            if not (np.isfinite(offset) and np.isfinite(scale) and scale > 0):
                raise must(
                    f"Column {column!r} of a Scaler",
                    "a finite offset and a finite scale above 0",
                    (offset, scale),
                )

    @classmethod
    def to_interval(
        cls,
        x: ArrayLike,
        columns: Sequence[str],
        low: float = -1.0,
        high: float = 1.0,
        flat: float | None = None,
    ) -> "Scaler":
        """Each column's smallest value goes to `low`, its largest to `high`.

        `flat` is the scale of a constant column; None makes such a column an error.
        """
        x = np.asarray(x, np.float64) if flat is not None else varying(x, columns)
        # Halves first: the sum or difference of two large numbers may overflow.
        half_sum = x.max(axis=0) / 2 + x.min(axis=0) / 2
        scale = (x.max(axis=0) / 2 - x.min(axis=0) / 2) / ((high - low) / 2)
        scale = _usable(x, columns, scale, flat)
        offset = half_sum - scale * (low + high) / 2
        return cls(tuple(columns), tuple(offset.tolist()), tuple(scale.tolist()))

    @classmethod
    def standard(
        cls,
        x: ArrayLike,
        columns: Sequence[str],
        flat: float | None = None,
        weight: ArrayLike | None = None,
    ) -> "Scaler":
        """Each column gets mean 0 and (population) standard deviation 1 over weighted rows.

        `flat` is as above; without `weight` all rows count the same.
        """
        x = np.asarray(x, np.float64) if flat is not None else varying(x, columns)
        weight = None if weight is None else np.asarray(weight, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            mean = np.average(x, axis=0, weights=weight)
            std = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
        std = _usable(x, columns, std, flat)
        return cls(tuple(columns), tuple(mean.tolist()), tuple(std.tolist()))

    def apply(self, x: ArrayLike) -> np.ndarray:
        """Scale values given in the data's units: (N, n) to (N, n)."""
        with np.errstate(over="ignore"):  # far beyond the data that the scale was made for
            return (np.asarray(x, np.float64) - self.offset) / self.scale

    def invert(self, z: ArrayLike) -> np.ndarray:
        """Back to the data's units: (N, n) to (N, n)."""
        return np.asarray(z, np.float64) * self.scale + self.offset

    def to_dict(self) -> dict[str, list]:
        return {name: list(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Scaler":
        """The inverse of `to_dict`; any other set of keys is an error."""
        expected = ("columns", "offset", "scale")
        if set(given) != set(expected):
            raise must("The keys of a Scaler", ", ".join(expected), sorted(given))
        columns, offset, scale = (given[key] for key in expected)
        return cls(tuple(map(str, columns)), tuple(map(float, offset)), tuple(map(float, scale)))


def varying(x: ArrayLike, columns: Sequence[str]) -> np.ndarray:
    """The columns as float64, if none of them is constant."""
    x = np.asarray(x, np.float64)
    for column, values, constant in zip(columns, x.T, _constant(x), strict=True):
        if constant:
            raise UserError(
                f"Column {column!r} is constant: rows 1 to {len(values)} are all {values[0]:g}. "
                "Nothing can be learned from it or about it."
            )
    return x


def in_float32(z: np.ndarray) -> np.ndarray:
    """Scaled values clipped to a range that float32 can represent."""
    return np.clip(z, -1e30, 1e30)


def _usable(
    x: np.ndarray, columns: Sequence[str], scale: np.ndarray, flat: float | None
) -> np.ndarray:
    """The scales, with `flat` for constant columns."""
    constant = _constant(x)
    for column, value, known in zip(columns, scale, constant, strict=True):
        # Numbers beyond 1e154 or below 1e-162 have no square.
        if not known and not 0 < value < np.inf:
            more = "less" if value == 0 else "more"
            raise UserError(
                f"Column {column!r} spreads over {more} than float64 can hold: another unit helps."
            )
    return scale if flat is None else np.where(constant, flat, scale)


def _constant(x: np.ndarray) -> np.ndarray:
    # Not the standard deviation, which rounding may leave above 0.
    return x.min(axis=0) == x.max(axis=0)
