"""Conditions of a PDE: any operator of the field that is to have given values on given points."""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kandle._errors import must
from kandle.problems._sampling import Interval, checked_domain, mesh

if TYPE_CHECKING:
    from kandle.nn import Derivatives

Operator = Callable[[Any, "Derivatives"], Any]
"""From points x (N, n_in) and the field's derivatives there to (N,) or (N, q), in JAX."""

Value = float | Sequence[float] | Callable[..., Any]
"""A number, one number per output, or a function of one array per input."""


@dataclass(frozen=True)
class Named:
    """An operator that may refer to inputs by name, for derivatives without names."""

    operator: Operator
    inputs: tuple[str, ...]

    def __call__(self, x: Any, d: "Derivatives") -> Any:
        return self.operator(x, d.described(self.inputs))


@dataclass(frozen=True, eq=False)
class Condition:
    """operator(x, d) = `values` at `points`; without an operator u = `values`.

    An operator is written like a residual: `lambda x, d: d["x"]` for a Neumann condition,
    `lambda x, d: d["x"] + 2 * d.value` for a Robin condition, `lambda x, d: d.value[:, :1]` for a
    condition on the first output alone.

    - `points`: (n, n_in); `values`: a number, (n,) or (n, q) of an operator with q columns;
    - `weight`: of the mean square in the loss. Conditions without an operator and without a weight
      share one mean square; any other has its own, with weight 1 if none is given;
    - `partner`: points (n, n_in) at which the operator is to be larger by `values`: 0 makes the
      field periodic;
    - `quadrature`: weights (m, n / m): `values` are those of m integrals of the operator, over
      n / m consecutive points each.

    >>> sensors = Condition("sensors", [[0.5, 0.1], [0.5, 0.9]], [1.0, 2.0])
    >>> sensors.values.shape
    (2, 1)
    """

    name: str
    points: Any
    values: Any = 0.0
    operator: Operator | None = None
    weight: float | None = None
    partner: Any = None
    quadrature: Any = None

    def __post_init__(self):
        what = f"condition {self.name!r}"
        points = np.asarray(self.points, np.float64)
        if points.ndim != 2 or not len(points):
            raise must(
                f"'points' of {what}", "an array (n, n_in) of at least one point", points.shape
            )
        rows = len(points)
        object.__setattr__(self, "points", points)
        if self.partner is not None:
            partner = np.asarray(self.partner, np.float64)
            if partner.shape != points.shape:
                raise must(f"'partner' of {what}", f"points {points.shape}", partner.shape)
            object.__setattr__(self, "partner", partner)
        if self.quadrature is not None:
            quadrature = np.atleast_2d(np.asarray(self.quadrature, np.float64))
            if quadrature.size != rows:
                requirement = f"one weight per point, (m, {rows} / m)"
                raise must(f"'quadrature' of {what}", requirement, quadrature.shape)
            object.__setattr__(self, "quadrature", quadrature)
            rows = len(quadrature)
        values = np.asarray(self.values, np.float64)
        if values.ndim == 1 and len(values) == rows:
            values = values[:, None]
        if values.ndim not in (0, 2) or (values.ndim == 2 and len(values) != rows):
            requirement = f"a number, or one per point: ({rows},) or ({rows}, q)"
            raise must(f"'values' of {what}", requirement, f"an array of {values.shape}")
        object.__setattr__(self, "values", values)
        if self.operator is not None and not callable(self.operator):
            raise must(
                f"'operator' of {what}", "a function of points and derivatives", self.operator
            )
        if self.weight is not None and not (
            isinstance(self.weight, numbers.Real) and 0 < self.weight < math.inf
        ):
            raise must(f"'weight' of {what}", "a positive finite number", self.weight)

    @property
    def plain(self) -> bool:
        """Whether it shares the mean square of all conditions u = values."""
        special = (self.operator, self.weight, self.partner, self.quadrature)
        return all(attribute is None for attribute in special)

    def values_of(self, columns: int) -> np.ndarray:
        """The values as (n, columns), of an operator with so many columns."""
        rows = len(self.points if self.quadrature is None else self.quadrature)
        if self.values.ndim == 2 and self.values.shape[1] != columns:
            requirement = f"an array ({rows}, {columns})"
            raise must(f"'values' of condition {self.name!r}", requirement, self.values.shape)
        return np.broadcast_to(self.values, (rows, columns))


def side(
    name: str,
    domain: Sequence[Interval],
    *,
    axis: int,
    at: float,
    value: Value = 0.0,
    n: int = 64,
    operator: Operator | None = None,
    weight: float | None = None,
) -> Condition:
    """A condition on the side of a box where input `axis` is `at`, at `n` points per other input.

    `value` is a number, one number per output, or a function of one array per input that returns
    an array, or one array per output; see `Condition` for `operator` and `weight`.

    >>> from kandle import problems
    >>> start = problems.side("initial", [(0, 1), (-1, 1)], axis=0, at=0.0, value=lambda t, x: x**2)
    >>> start.points.shape, start.values.shape
    ((64, 2), (64, 1))
    """
    points = _side_points(name, domain, axis, at, n)
    # A number applies to every column of an operator; only the operator knows how many there are.
    number = isinstance(value, int | float) and operator is not None
    values = value if number else _values(value, points, name)
    return Condition(name, points, values, operator, weight)


def periodic(
    name: str,
    domain: Sequence[Interval],
    *,
    axis: int,
    n: int = 64,
    operator: Operator | None = None,
    weight: float | None = None,
) -> Condition:
    """The operator has one value on both ends of input `axis`, at `n` points per other input.

    Without an operator u and ∂u/∂x_axis are periodic.

    >>> from kandle import problems
    >>> ring = problems.periodic("ring", [(0, 1), (-1, 1)], axis=1)
    >>> ring.points[0].tolist(), ring.partner[0].tolist()
    ([0.0, -1.0], [0.0, 1.0])
    """
    lo, hi = checked_domain(domain, f"condition {name!r}")[_checked_axis(name, domain, axis)]
    points = _side_points(name, domain, axis, lo, n)
    partner = _side_points(name, domain, axis, hi, n)
    operator = operator or ValueAndSlope(axis)
    return Condition(name, points, 0.0, operator, weight, partner=partner)


@dataclass(frozen=True)
class ValueAndSlope:
    """(u, ∂u/∂x_axis): the operator of a periodic condition for a second-order equation."""

    axis: int

    def __call__(self, x, d: "Derivatives"):
        import jax.numpy as jnp

        return jnp.concatenate([d.value, d[self.axis]], axis=-1)


def integral(
    name: str,
    points: ArrayLike,
    quadrature: ArrayLike,
    value: float = 0.0,
    *,
    operator: Operator | None = None,
    weight: float | None = None,
) -> Condition:
    """Σ_j w_j operator(x_j) = `value`: the integral of the operator by a quadrature rule.

    >>> from kandle import problems
    >>> x, w = np.polynomial.legendre.leggauss(20)
    >>> mass = problems.integral("mass", x[:, None], w, 1.0)
    >>> mass.quadrature.shape
    (1, 20)
    """
    return Condition(name, points, value, operator, weight, quadrature=quadrature)


def _checked_axis(name: str, domain: Sequence[Interval], axis: int) -> int:
    if not isinstance(axis, numbers.Integral) or not 0 <= axis < len(domain):
        raise must(f"'axis' of condition {name!r}", f"an input, 0 to {len(domain) - 1}", axis)
    return int(axis)


def _side_points(name: str, domain: Sequence[Interval], axis: int, at: float, n: int) -> np.ndarray:
    box = checked_domain(domain, f"condition {name!r}")
    lo, hi = box[_checked_axis(name, box, axis)]
    if not lo <= at <= hi:
        raise must(f"'at' of condition {name!r}", f"in the domain, {lo:g} to {hi:g}", at)
    axes = [np.linspace(lo, hi, n) for lo, hi in box]
    axes[axis] = np.array([float(at)])
    return mesh(axes)


def _values(value: Value, points: np.ndarray, name: str) -> np.ndarray:
    """The values at the points, (n, q)."""
    n = len(points)
    if callable(value):
        value = value(*points.T)
    if isinstance(value, list | tuple):  # one per output
        outputs = [np.asarray(output, np.float64) for output in value]
        if all(output.shape in ((), (n,)) for output in outputs):
            return np.stack([np.broadcast_to(output, n) for output in outputs], axis=-1)
    u = np.asarray(value, np.float64)
    if u.ndim == 2 and len(u) == n:
        return u
    if u.shape not in ((), (1,), (n,)):
        requirement = f"a number, or one per point: {(n,)}"
        raise must(f"'value' of condition {name!r}", requirement, f"an array of {u.shape}")
    return np.broadcast_to(u, n)[:, None]
