"""A partial differential equation to be solved from its residual and its conditions."""

import contextlib
import dataclasses
import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kandle._errors import UserError, must, unknown
from kandle.problems import _pde_checks as checks
from kandle.problems._condition import Condition, Named, Operator
from kandle.problems._points import Inside, Points, Resample, is_inside
from kandle.problems._sampling import Interval, checked_domain, mesh, permutation
from kandle.problems._uniqueness import warn_if_underdetermined
from kandle.problems._units import Units, scaled

# Arrays that only some conditions have, by the names of their attributes.
_OPTIONAL_ROLES = ("partner", "quadrature")

Solution = Callable[..., Any]
"""u(x₁, …, xₙ) of broadcastable float64 arrays, one per input."""


class Group(NamedTuple):
    """One mean square of the loss, as a training needs it: everything but the arrays.

    - `name`: "pde" for the equation, "bc" for all plain conditions, or the name of a condition;
    - `operator`: None is u itself;
    - `reads`: multi-indices of the derivatives that it reads;
    - `columns`: values of the operator per point;
    - `arrays`: the names of its arrays by role: points, values, partner, quadrature.
    """

    name: str
    operator: Operator | None
    reads: tuple[tuple[int, ...], ...]
    columns: int
    weight: float
    arrays: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class PDE:
    """Solve residual(x, d) = 0 in a domain, subject to conditions.

    The residual, and the operator of a condition, is a function of points x (N, n_in) and of the
    field's derivatives `d` there (`kandle.nn.Derivatives`), in JAX:

    - `d.value` is u, `d[t]`, `d[x, x]`, `d[x, y]`, `d[x, x, x]` are its derivatives by index or by
      name ("x"), each (N, n_out); `d.first[i]` and `d.second[i]` are ∂u/∂xᵢ and ∂²u/∂xᵢ²;
    - `u, v = d.outputs` are the same, of arrays (N,), per output;
    - `d.coefficients["k"]` is a trainable coefficient.

    Args:
        name: keys the points that are drawn.
        residual: returns (N,), or (N, q) for a system of q equations.
        domain: (low, high) per input. Inputs enter the network as they are, and its splines live on
            [-1, 1] by default: `scaled()` maps every input to [-1, 1].
        conditions: see `Condition`, `side`, `periodic` and `integral`.
        first, second: the inputs along which the residual reads ∂u/∂xᵢ and ∂²u/∂xᵢ².
        derivatives: any other derivatives that it reads, such as [("x", "y"), (1, 1, 1)]. With
            none of the three, the residual is traced once to find them.
        collocation: where the residual is to vanish: the number of points per input (64) of a grid
            with both ends, a `Points` strategy, an array (N, n_in), or a function without arguments
            that returns one.
        inside: of a domain that is not a box: from one array per input to booleans.
        resample: a `Resample` that draws the collocation points again during training.
        inputs: names of the inputs, such as ("t", "x").
        n_out: number of outputs of the network.
        transform: from points and the network's outputs (N, n_out) to u (N, n_out), so that
            conditions hold exactly: `lambda x, v: g(x) + distance(x) * v`.
        coefficients: a `Coefficient`, or its initial value, by name.
        reference: u(x₁, …, xₙ), called with broadcastable arrays on the grid of `n_evaluation`
            points (200) per input; returns an array, or one per output. Without a reference no
            error is reported.
        alternatives: references by name, for `with_reference`.

    Example:
        >>> import jax.numpy as jnp
        >>> from kandle import problems
        >>> box = [(0, 1), (-1, 1)]
        >>> heat = problems.PDE(
        ...     "heat",
        ...     lambda x, d: d["t"] - 0.1 * d["x", "x"],
        ...     box,
        ...     [
        ...         problems.side("start", box, axis=0, at=0, value=lambda t, x: np.sin(np.pi * x)),
        ...         problems.side("left", box, axis=1, at=-1),
        ...         problems.side("right", box, axis=1, at=1),
        ...     ],
        ...     inputs=("t", "x"),
        ... )
        >>> heat.reads
        ((0,), (1, 1))
        >>> heat.arrays()["collocation"].shape
        (4096, 2)
    """

    name: str
    residual: Operator
    domain: Sequence[Interval]
    conditions: Sequence[Condition] = ()
    first: Sequence[int] | None = None
    second: Sequence[int] | None = None
    reference: Solution | None = None
    alternatives: Mapping[str, Solution] = field(default_factory=dict)
    latex: str = ""
    collocation: Any = ()
    n_evaluation: Sequence[int] = ()
    n_out: int = 1
    default_steps: int = 5000
    derivatives: Sequence[Any] | None = None
    inside: Inside | None = None
    resample: Resample | None = None
    inputs: Sequence[str] = ()
    transform: Callable[[Any, Any], Any] | None = None
    coefficients: Mapping[str, Any] = field(default_factory=dict)
    units: Units | None = None

    kind: ClassVar[str] = "pde"

    def __post_init__(self):
        set_field = functools.partial(object.__setattr__, self)
        domain = checked_domain(self.domain, self._what)
        set_field("domain", domain)
        if not callable(self.residual):
            requirement = "a function of points and derivatives"
            raise must(f"'residual' of {self._what}", requirement, self.residual)
        if not isinstance(self.n_out, numbers.Integral) or self.n_out < 1:
            raise must(f"'n_out' of {self._what}", "an integer of at least 1", self.n_out)
        set_field("inputs", checks.checked_inputs(self))
        set_field("coefficients", checks.checked_coefficients(self))
        set_field("conditions", checks.checked_kinds(self))
        if isinstance(self.collocation, Sequence) and not len(self.collocation):
            set_field("collocation", (64,) * len(domain))
        set_field("n_evaluation", checks.checked_counts(self, "n_evaluation", 200))
        if self._is_grid:
            set_field("collocation", checks.checked_counts(self, "collocation", 64))
        checks.check_sampling(self)
        checks.check_conditions(self)
        checks.check_transform(self)
        first, second, reads = checks.checked_reads(self)
        declared = self.derivatives is not None
        if declared or self.first is None:
            set_field("derivatives", reads)
        set_field("first", first)
        set_field("second", second)
        if declared:
            # Where only `first` and `second` are declared this waits until a training begins:
            # tracing imports JAX, which a list of the built-in problems does not need.
            self._columns_of_residual()
        for c in self.conditions:
            self._of_condition(c)

    @property
    def _what(self) -> str:
        return f"PDE {self.name!r}"

    @property
    def _is_grid(self) -> bool:
        """Whether `collocation` gives numbers of points, rather than points or a strategy."""
        collocation = self.collocation
        return not (isinstance(collocation, Points | np.ndarray) or callable(collocation))

    # --- what a training needs ------------------------------------------------------------------

    @property
    def n_in(self) -> int:
        return len(self.domain)

    @property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """The multi-indices of all derivatives that the residual reads, as declared or traced."""
        if self.derivatives is not None:
            return tuple(self.derivatives)
        first, second = self.first or (), self.second or ()
        return (*((i,) for i in first), *((i, i) for i in second))

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The mean squares that the loss consists of: of the equation and of its conditions."""
        columns = self._columns_of_residual()
        points = (("points", "collocation"),)
        groups = [Group("pde", self.residual, self.reads, columns, 1.0, points)]
        if any(c.plain for c in self.conditions):
            arrays = (("points", "points"), ("values", "values"))
            groups.append(Group("bc", None, (), self.n_out, 1.0, arrays))
        for c in self.conditions:
            if not c.plain:
                roles = ["points", "values"]
                roles += [role for role in _OPTIONAL_ROLES if getattr(c, role) is not None]
                arrays = tuple((role, f"{c.name}/{role}") for role in roles)
                reads, columns = self._of_condition(c)
                groups.append(Group(c.name, c.operator, reads, columns, c.weight or 1.0, arrays))
        return tuple(groups)

    def _columns_of_residual(self) -> int:
        """The number of equations, or an error if the residual reads what is not declared."""
        traced = checks.traced(self, self.residual, f"The residual of {self._what}")
        for index in traced.reads:
            if index not in self.reads:
                label = ", ".join(self.inputs[i] if self.inputs else str(i) for i in index)
                along = " and ".join(str(i) for i in dict.fromkeys(index))
                raise UserError(
                    f"The residual of {self._what} reads d[{label}], a derivative along input "
                    f"{along} that is not declared: add it to 'first', 'second' or 'derivatives', "
                    "or declare none."
                )
        return traced.columns

    def _of_condition(self, c: Condition) -> tuple[tuple[tuple[int, ...], ...], int]:
        """The derivatives that a condition reads, and its columns."""
        if c.operator is None:
            return (), self.n_out
        what = f"The operator of condition {c.name!r} of {self._what}"
        return checks.traced(self, c.operator, what)

    def arrays(self, dtype: DTypeLike = "float32") -> dict[str, np.ndarray]:
        """The data of a training.

        `collocation` (N, n_in); `points` (M, n_in) and `values` (M, n_out) of all plain conditions,
        one after the other; `NAME/points`, `NAME/values`, … of every other condition.
        """
        data = {"collocation": self._collocation_points}
        plain = [c for c in self.conditions if c.plain]
        if plain:
            data["points"] = np.concatenate([c.points for c in plain])
            data["values"] = np.concatenate([c.values_of(self.n_out) for c in plain])
        for c in self.conditions:
            if not c.plain:
                data[f"{c.name}/points"] = c.points
                data[f"{c.name}/values"] = c.values_of(self._of_condition(c)[1])
                for role in _OPTIONAL_ROLES:
                    if getattr(c, role) is not None:
                        data[f"{c.name}/{role}"] = getattr(c, role)
        return {name: array.astype(dtype) for name, array in data.items()}

    @functools.cached_property
    def _collocation_points(self) -> np.ndarray:
        if isinstance(self.collocation, Points):
            return self.collocation.draw(f"{self.name}/collocation", self.domain, self.inside)
        if self._is_grid:
            x = mesh(_axes(self.domain, self.collocation))
            if self.inside is not None:
                x = x[is_inside(self.inside, x, self.name)]
            if not len(x):
                raise UserError(
                    f"'inside' of {self._what} accepts none of the {self.collocation} points of "
                    "the grid: choose a smaller domain around the geometry, or more points."
                )
            return x
        x = self.collocation
        if callable(x):
            x = x()
        x = np.asarray(x, np.float64)
        if x.ndim != 2 or x.shape[1] != self.n_in or not len(x) or not np.isfinite(x).all():
            requirement = f"finite points (N, {self.n_in})"
            raise must(f"'collocation' of {self._what}", requirement, x.shape)
        return x

    def candidates(self, step: int) -> np.ndarray:
        """The points among which a `Resample` chooses at a step, (M, n_in)."""
        assert self.resample is not None
        n = self.resample.candidates * len(self._collocation_points)
        return Points("uniform", n).draw(f"{self.name}/resample/{step}", self.domain, self.inside)

    def warn_if_underdetermined(self) -> None:
        """Warn where an input has fewer conditions on its two sides than the equation's order."""
        _ = self.groups  # what cannot be evaluated is an error first
        warn_if_underdetermined(self)

    # --- what a solution is judged by -----------------------------------------------------------

    @property
    def reference_name(self) -> str:
        """The name of the reference in use, empty where there is only one."""
        return next((n for n, u in self.alternatives.items() if u is self.reference), "")

    def with_reference(self, name: str) -> "PDE":
        """The same training judged against another solution."""
        if name not in self.alternatives:
            raise unknown(f"reference of {self.name}", name, self.alternatives)
        return dataclasses.replace(self, reference=self.alternatives[name])

    def evaluation(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Where a solution is judged, (M, n_in), and the reference there, (M, n_out) or None."""
        return self._evaluation

    @functools.cached_property
    def _evaluation(self) -> tuple[np.ndarray, np.ndarray | None]:
        axes = _axes(self.domain, self.n_evaluation)
        x = mesh(axes)
        u = None
        if self.reference is not None:
            u = self._reference_on(axes)
        if self.inside is not None:
            inside = is_inside(self.inside, x, self.name)
            x = x[inside]
            # Outside of the domain the reference may be anything.
            if u is not None:
                u = u[inside]
        if u is not None:
            if not np.isfinite(u).all():
                raise UserError(f"The reference of {self._what} is not finite everywhere.")
            u.flags.writeable = False
        x.flags.writeable = False
        return x, u

    def _reference_on(self, axes: list[np.ndarray]) -> np.ndarray:
        """The reference on a grid, (points, n_out)."""
        assert self.reference is not None
        u = self.reference(*np.meshgrid(*axes, indexing="ij", sparse=True))
        shape: tuple[int, ...] = tuple(len(axis) for axis in axes)
        try:
            if isinstance(u, list | tuple):
                outputs = [np.broadcast_to(np.asarray(output), shape) for output in u]
                u = np.stack(outputs, axis=-1)
            u = np.asarray(u, np.float64)
            full = (*shape, self.n_out) if self.n_out > 1 else shape
            return np.broadcast_to(u, full).reshape(-1, self.n_out)
        except ValueError:
            requirement = f"values on the grid, {shape}, per output"
            if isinstance(u, list | tuple):  # which may have no shape as a whole
                got: Any = [np.shape(output) for output in u]
            else:
                got = np.shape(u)
            raise must(f"'reference' of {self._what}", requirement, got) from None

    def solution(self, model: Callable[[Any], Any]) -> Callable[[ArrayLike], np.ndarray]:
        """The field that a trained network represents: from points (N, n_in) to u (N, n_out).

        The points are those of the equation, also of a scaled problem.
        """

        def field(x: ArrayLike) -> np.ndarray:
            from kandle._compat import enable_x64

            z = np.asarray(x, np.float64) if self.units is None else self.units.to_network(x)
            double = getattr(model, "dtype", None) == np.float64
            with enable_x64(True) if double else contextlib.nullcontext():
                return self.transformed(z, np.asarray(model(z)))

        return field

    def transformed(self, x: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """u from a network's outputs at points x: the outputs, unless there is a transform."""
        if self.transform is None:
            return outputs
        return np.asarray(self.transform(np.asarray(x, outputs.dtype), outputs))

    def ntk_residual(self) -> Operator:
        """The residual for a tangent kernel, of derivatives without names, or an error.

        Tangent kernels exist for residuals of u, ∂u/∂xᵢ and ∂²u/∂xᵢ², with conditions on u.
        """
        pure = all(len(index) <= 2 and len(set(index)) == 1 for index in self.reads)
        if (
            not pure
            or self.transform
            or self.coefficients
            or not any(c.plain for c in self.conditions)
        ):
            raise UserError(
                f"A tangent kernel of {self._what} is not available: it must have a condition on "
                "u, no transform and no coefficients, and read only ∂u/∂xᵢ and ∂²u/∂xᵢ²."
            )
        return Named(self.residual, tuple(self.inputs)) if self.inputs else self.residual

    def ntk_points(self, residual: int = 256, condition: int = 32) -> dict[str, np.ndarray]:
        """Rows of `arrays()` for a tangent kernel: drawn without replacement by the problem's name.

        `collocation` indexes the collocation points, `points` the condition points; both ascend.
        """
        n = len(self._collocation_points)
        m = sum(len(c.points) for c in self.conditions if c.plain)
        return {
            "collocation": np.sort(permutation(f"{self.name}/ntk/collocation", n)[:residual]),
            "points": np.sort(permutation(f"{self.name}/ntk/points", m)[:condition]),
        }

    def scaled(self) -> "PDE":
        """The same problem with every input mapped to [-1, 1]: z_i = (x_i - mid_i) / half_i.

        The residual and the conditions still read x and the derivatives along x, by the chain rule.
        The network, `arrays()` and `evaluation()` are in terms of z; `solution` takes x.
        """
        return scaled(self)


def _axes(domain: Sequence[Interval], counts: Sequence[int]) -> list[np.ndarray]:
    return [np.linspace(lo, hi, n) for (lo, hi), n in zip(domain, counts, strict=True)]
