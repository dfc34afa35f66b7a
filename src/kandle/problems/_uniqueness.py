"""Whether a PDE has enough conditions for a unique solution, as far as this can be known."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kandle.problems._condition import Condition
from kandle.problems._points import Points

if TYPE_CHECKING:
    from kandle.problems._pde import PDE

_TIME = ("t", "time")
_SLACK = 1e-9  # of the width of the box, as where conditions are checked to be in the domain
_PROBES = 16  # points at which formulas are evaluated
_VANISHES = 1e-2  # relative to the largest value inside


class Side(NamedTuple):
    """The side of the box where input `axis` is `at`."""

    axis: int
    at: float


def warn_if_underdetermined(pde: "PDE") -> None:
    """Warn where an input has fewer conditions on its two sides than the equation's order in it.

    An equation of order p in time, or of order p ≥ 2 in any other input, needs p conditions on the
    two sides of that input: Dirichlet or Neumann conditions on both, u and u_t at the start, a
    periodic u and its slope. On one side, conditions on u alone count once, each condition on a
    derivative along the input counts for itself, and an output transform counts for what it fixes.

    Nothing is said where this rule does not decide: in other geometries than a box, where a
    condition is an integral or has points inside (sensors), for first-order terms in space (the
    inflow decides), and for a side on which the coefficient of the highest derivative is zero or
    the residual is singular, as that of u_rr + u_r / r is at r = 0.
    """
    low, high = np.asarray(pde.domain).T
    if any(c.quadrature is not None for c in pde.conditions):
        return
    if not all(_is_on_the_boundary(c, low, high) for c in pde.conditions):
        return
    for axis in range(pde.n_in):
        order = max((index.count(axis) for index in pde.reads), default=0)
        is_time = bool(pde.inputs) and pde.inputs[axis] in _TIME
        if not is_time and (order < 2 or not _is_box(pde)):
            continue
        sides = [Side(axis, float(low[axis])), Side(axis, float(high[axis]))]
        on = {side: [c for c in pde.conditions if _covers(c, side, low, high)] for side in sides}
        fixed = {side: _fixed_by_transform(pde, side, order) for side in sides}
        count = _count(pde, on, fixed)
        if count >= order:
            continue
        empty = [side for side in sides if not on[side] and not fixed[side]]
        # Conditions in time belong to the start.
        needed = sides[:1] if is_time else empty or sides
        degenerate = [side for side in needed if _is_degenerate(pde, side, order)]
        if count + len(degenerate) < order:
            names = [repr(c.name) for side in sides for c in on[side]]
            if any(fixed.values()):
                names.append("the transform")
            missing = [side for side in empty if side in needed and side not in degenerate]
            _warn(pde, axis, order, count, list(dict.fromkeys(names)), missing)


def _warn(
    pde: "PDE", axis: int, order: int, count: int, names: Sequence[str], missing: Sequence[Side]
) -> None:
    """Warn of `count` conditions, those of these `names`, and of sides that have none."""
    offset, scale = 0.0, 1.0
    if pde.units is not None:
        offset, scale = pde.units.offset[axis], pde.units.scale[axis]
    name = quoted = f"input {axis}"
    if pde.inputs:
        name = pde.inputs[axis]
        quoted = repr(name)
    conditions = "1 condition" if count == 1 else f"{count or 'no'} conditions"
    listed = f" ({', '.join(names)})" if names else ""
    ends = " or ".join(f"{name} = {offset + scale * side.at:g}" for side in missing)
    none = f", and none at {ends}" if ends and count else ""
    warnings.warn(
        f"{pde._what} is of order {order} in {quoted}, but has {conditions} at the ends of "
        f"{quoted}{listed}{none}: its solution is not unique.",
        stacklevel=5,
    )


def _is_box(pde: "PDE") -> bool:
    """Whether the equation is to hold in all of the box."""
    return pde.inside is None and (pde._is_grid or isinstance(pde.collocation, Points))


# --- which conditions are where -----------------------------------------------------------------


def _all_points(c: Condition) -> list[np.ndarray]:
    return [c.points] if c.partner is None else [c.points, c.partner]


def _at_ends(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Per point and input, whether the point is at an end of that input."""
    slack = _SLACK * (high - low)
    return (np.abs(x - low) <= slack) | (np.abs(x - high) <= slack)


def _is_on_the_boundary(c: Condition, low: np.ndarray, high: np.ndarray) -> bool:
    return all(_at_ends(x, low, high).any(axis=1).all() for x in _all_points(c))


def _covers(c: Condition, side: Side, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether a condition has points on a side, other than those on the edge of another side.

    The condition at t = 0 has points at both ends of x, and is no condition there.
    """
    i, at = side
    for x in _all_points(c):
        here = np.abs(x[:, i] - at) <= _SLACK * (high[i] - low[i])
        elsewhere = np.delete(_at_ends(x, low, high), i, axis=1).any(axis=1)
        if here.all() or (here & ~elsewhere).any():
            return True
    return False


def _count(pde: "PDE", on: Mapping[Side, Sequence[Condition]], fixed: Mapping[Side, int]) -> int:
    """How many values and derivatives along an input are given on its two sides."""
    count = 0
    paired: set[str] = set()  # a periodic condition is on both sides, and counts once
    for side, conditions in on.items():
        values, derivatives = min(fixed[side], 1), max(fixed[side] - 1, 0)
        for c in conditions:
            if c.name in paired:
                continue
            if c.partner is not None:
                paired.add(c.name)
            reads, columns = pde._of_condition(c)
            if any(side.axis in index for index in reads):
                derivatives += math.ceil(columns / pde.n_out)
            else:
                values = 1
        count += values + derivatives
    return count


# --- what the formulas say ----------------------------------------------------------------------


def _fixed_by_transform(pde: "PDE", side: Side, order: int) -> int:
    """How many of u, ∂u/∂xᵢ, …, ∂ᵖ⁻¹u/∂xᵢᵖ⁻¹ on a side do not depend on the network's outputs v.

    u = g + d v fixes u where d = 0, and ∂u/∂xᵢ as well where ∂d/∂xᵢ = 0.
    """
    if pde.transform is None:
        return 0
    import jax
    import jax.numpy as jnp

    transform, x = pde.transform, _probes(pde)
    one, other = (_random((len(x), pde.n_out), seed) for seed in (1, 2))
    direction = jnp.zeros_like(x).at[:, side.axis].set(1.0)

    def along(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: jax.jvp(f, (x,), (direction,))[1]

    def between(x):
        return transform(x, one) - transform(x, other)

    change: Callable[[Any], Any] = between
    for count in range(order):
        here = jnp.abs(change(x.at[:, side.axis].set(side.at))).max(axis=0)
        inside = jnp.abs(change(x)).max(axis=0)
        # Outputs that are free do not undo that another one is fixed.
        if not bool((here <= _VANISHES * inside).any()):
            return count
        change = along(change)
    return order


def _is_degenerate(pde: "PDE", side: Side, order: int) -> bool:
    """Whether the highest derivative has the coefficient 0 on a side, or the residual a pole."""
    import jax
    import jax.numpy as jnp

    from kandle.nn import Derivatives

    highest = [index for index in pde.reads if index.count(side.axis) == order]
    x = _probes(pde)
    shape = (len(x), pde.n_out)
    table = {index: _random(shape, seed) for seed, index in enumerate(((), *pde.reads))}
    numbers = {name: c.initial for name, c in pde.coefficients.items()}

    def residual_and_coefficient(x):
        def residual(derivative):
            d = Derivatives(
                table[()],
                further={i: table[i] for i in pde.reads} | dict.fromkeys(highest, derivative),
                inputs=pde.inputs,
                coefficients=numbers,
            )
            return pde.residual(x, d)

        both = jax.jvp(residual, (table[highest[0]],), (jnp.ones(shape, jnp.float32),))
        return (float(jnp.abs(one).max()) for one in both)

    here, coefficient_here = residual_and_coefficient(x.at[:, side.axis].set(side.at))
    inside, coefficient_inside = residual_and_coefficient(x)
    # Written so that NaN counts as a pole.
    regular = here * _VANISHES <= inside and coefficient_here * _VANISHES <= coefficient_inside
    return not regular or coefficient_here <= _VANISHES * coefficient_inside


def _probes(pde: "PDE") -> Any:
    """Points in the interior of the box, (_PROBES, n_in)."""
    import jax.numpy as jnp

    low, high = np.asarray(pde.domain).T
    inside = np.random.default_rng(0).uniform(0.05, 0.95, (_PROBES, pde.n_in))
    return jnp.asarray(low + (high - low) * inside, jnp.float32)


def _random(shape: tuple[int, ...], seed: int) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, shape), jnp.float32)
