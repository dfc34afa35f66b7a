"""A partial differential equation to be solved from its residual and its conditions."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kandle._errors import UserError, must, unknown
from kandle.problems._sampling import Interval, checked_domain, mesh, permutation

if TYPE_CHECKING:
    from kandle.nn import Derivatives

Residual = Callable[[Any, "Derivatives"], Any]
Solution = Callable[..., ArrayLike]
"""u(x₁, …, xₙ) of broadcastable float64 arrays, one an input."""


@dataclass(frozen=True, eq=False)
class Condition:
    """u = `values` (n, n_out) at `points` (n, n_in): an initial or a boundary condition as data."""

    name: str
    points: np.ndarray
    values: np.ndarray


def side(
    name: str,
    domain: Sequence[Interval],
    *,
    axis: int,
    at: float,
    value: float | Solution,
    n: int = 64,
) -> Condition:
    """u = `value` on the side of a box where input `axis` is `at`, `n` points along every other.

    `value` is a number or a function of one array an input.

    >>> from kandle import problems
    >>> start = problems.side("initial", [(0, 1), (-1, 1)], axis=0, at=0.0, value=lambda t, x: x**2)
    >>> start.points.shape, start.values.shape
    ((64, 2), (64, 1))
    """
    box = checked_domain(domain, f"condition {name!r}")
    if not 0 <= axis < len(box):
        raise must(f"'axis' of condition {name!r}", f"an input, 0 to {len(box) - 1}", axis)
    lo, hi = box[axis]
    if not lo <= at <= hi:
        raise must(f"'at' of condition {name!r}", f"in the domain, {lo:g} to {hi:g}", at)
    axes = [np.linspace(lo, hi, n) for lo, hi in box]
    axes[axis] = np.array([float(at)])
    points = mesh(axes)
    u = np.asarray(value(*points.T) if callable(value) else value, np.float64)
    if u.shape not in ((), (1,), (len(points),)):
        requirement = f"a number, or one a point: {(len(points),)}"
        raise must(f"'value' of condition {name!r}", requirement, f"an array of {u.shape}")
    return Condition(name, points, np.broadcast_to(u, len(points))[:, None])


@dataclass(frozen=True, eq=False)
class PDE:
    """Solve residual(x, u, ∂u, ∂²u) = 0 in a box, with u given at the points of the conditions.

    - `residual(x, d)`: from points x (N, n_in) and the field's derivatives there to (N,), in JAX;
      `d.value`, `d.first[i]` = ∂u/∂xᵢ and `d.second[i]` = ∂²u/∂xᵢ² are (N, n_out) each;
    - `first`, `second`: the inputs along which it reads those derivatives;
    - `conditions`: see `side` and `Condition`; all share one mean in the loss;
    - `collocation`: points along each input (64) of the grid on which the residual is to vanish,
      ends included;
    - `reference`: u(x₁, …, xₙ), called with broadcastable arrays on the grid of `n_evaluation`
      points (200) along each input; without one there is no error to report;
    - `alternatives`: references by name, for `with_reference`.

    >>> import jax.numpy as jnp
    >>> from kandle import problems
    >>> box = [(0, 1), (-1, 1)]
    >>> heat = problems.PDE(
    ...     "heat",
    ...     lambda x, d: (d.first[0] - 0.1 * d.second[1])[..., 0],
    ...     box,
    ...     [
    ...         problems.side("start", box, axis=0, at=0, value=lambda t, x: np.sin(np.pi * x)),
    ...         problems.side("left", box, axis=1, at=-1, value=0.0),
    ...         problems.side("right", box, axis=1, at=1, value=0.0),
    ...     ],
    ...     first=(0, 1),
    ...     second=(1,),
    ... )
    >>> heat.arrays()["collocation"].shape
    (4096, 2)
    """

    name: str
    residual: Residual
    domain: Sequence[Interval]
    conditions: Sequence[Condition]
    first: tuple[int, ...]
    second: tuple[int, ...]
    reference: Solution | None = None
    alternatives: Mapping[str, Solution] = field(default_factory=dict)
    latex: str = ""
    collocation: Sequence[int] = ()
    n_evaluation: Sequence[int] = ()
    n_out: int = 1
    default_steps: int = 5000

    kind: ClassVar[str] = "pde"

    def __post_init__(self):
        what = f"PDE {self.name!r}"
        domain = checked_domain(self.domain, what)
        if not callable(self.residual):
            raise must(f"'residual' of {what}", "a function of points and field", self.residual)
        for several in ("first", "second", "collocation", "n_evaluation"):
            given = getattr(self, several)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise must(f"'{several}' of {what}", "a sequence of integers", given)
        set_field = functools.partial(object.__setattr__, self)
        set_field("domain", domain)
        set_field("conditions", tuple(self.conditions))
        set_field("collocation", tuple(self.collocation or (64,) * len(domain)))
        set_field("n_evaluation", tuple(self.n_evaluation or (200,) * len(domain)))
        if not self.conditions:
            raise must(f"'conditions' of {what}", "at least one condition", self.conditions)
        for axes in ("first", "second"):
            given = tuple(getattr(self, axes))
            if not set(given) <= set(range(len(domain))) or len(set(given)) < len(given):
                raise must(f"'{axes}' of {what}", f"distinct inputs, 0 to {len(domain) - 1}", given)
            set_field(axes, given)
        if not set(self.second) <= set(self.first):
            # A second derivative is carried along with the first one, never alone.
            raise must(f"'second' of {what}", f"among 'first', {self.first}", self.second)
        for counts in ("collocation", "n_evaluation"):
            given = getattr(self, counts)
            if len(given) != len(domain) or min(given) < 2:
                raise must(f"'{counts}' of {what}", "at least two points for each input", given)
        for c in self.conditions:
            points, values = (len(c.points), len(domain)), (len(c.points), self.n_out)
            if np.shape(c.points) != points or np.shape(c.values) != values:
                got = np.shape(c.points), np.shape(c.values)
                requirement = f"points {points} and values {values}"
                raise must(f"condition {c.name!r} of {what}", requirement, got)
            if not (np.isfinite(c.points).all() and np.isfinite(c.values).all()):
                raise UserError(f"Condition {c.name!r} of {what} has a value that is not finite.")

    @property
    def n_in(self) -> int:
        return len(self.domain)

    @property
    def reference_name(self) -> str:
        """The name of the reference in use, empty where there is but one."""
        return next((n for n, u in self.alternatives.items() if u is self.reference), "")

    def with_reference(self, name: str) -> "PDE":
        """The same training judged against another solution."""
        if name not in self.alternatives:
            raise unknown(f"reference of {self.name}", name, self.alternatives)
        return dataclasses.replace(self, reference=self.alternatives[name])

    def arrays(self, dtype: DTypeLike = "float32") -> dict[str, np.ndarray]:
        """The data of a training: `collocation` (N, n_in), `points` (M, n_in), `values` (M, n_out).

        `points` and `values` are the conditions', one after the other.
        """
        data = {
            "collocation": mesh(_axes(self.domain, self.collocation)),
            "points": np.concatenate([c.points for c in self.conditions]),
            "values": np.concatenate([c.values for c in self.conditions]),
        }
        return {name: array.astype(dtype) for name, array in data.items()}

    def evaluation(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Where a solution is judged, (M, n_in), and the reference there, (M, n_out) or None."""
        return self._evaluation

    @functools.cached_property
    def _evaluation(self) -> tuple[np.ndarray, np.ndarray | None]:
        axes = _axes(self.domain, self.n_evaluation)
        x = mesh(axes)
        x.flags.writeable = False
        if self.reference is None:
            return x, None
        u = np.asarray(self.reference(*np.meshgrid(*axes, indexing="ij", sparse=True)), np.float64)
        shape: tuple[int, ...] = tuple(len(axis) for axis in axes)
        if self.n_out > 1:
            shape = (*shape, self.n_out)
        try:
            u = np.broadcast_to(u, shape).reshape(-1, self.n_out)
        except ValueError:
            requirement = f"values on the grid, {shape}"
            raise must(f"'reference' of PDE {self.name!r}", requirement, u.shape) from None
        if not np.isfinite(u).all():
            raise UserError(f"The reference of PDE {self.name!r} is not finite everywhere.")
        u.flags.writeable = False
        return x, u

    def ntk_points(self, residual: int = 256, condition: int = 32) -> dict[str, np.ndarray]:
        """Rows of `arrays()` for a tangent kernel: drawn without replacement by the problem's name.

        `collocation` indexes the collocation points, `points` the condition points; both ascend.
        """
        n = int(np.prod(self.collocation))
        m = sum(len(c.points) for c in self.conditions)
        return {
            "collocation": np.sort(permutation(f"{self.name}/ntk/collocation", n)[:residual]),
            "points": np.sort(permutation(f"{self.name}/ntk/points", m)[:condition]),
        }


def _axes(domain: Sequence[Interval], counts: Sequence[int]) -> list[np.ndarray]:
    return [np.linspace(lo, hi, n) for (lo, hi), n in zip(domain, counts, strict=True)]
