"""A partial differential equation to be solved from its residual and its conditions."""

import contextlib
import dataclasses
import functools
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kandle._errors import UserError, must, unknown
from kandle.problems._coefficient import Coefficient
from kandle.problems._condition import Condition, Named, Operator
from kandle.problems._points import Inside, Points, Resample, is_inside
from kandle.problems._sampling import Interval, checked_domain, mesh, permutation
from kandle.problems._trace import trace
from kandle.problems._units import InUnits, TransformInUnits, Units

Solution = Callable[..., Any]
"""u(x₁, …, xₙ) of broadcastable float64 arrays, one per input."""

_TIME = ("t", "time")


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
        set_field("inputs", self._checked_inputs())
        set_field("coefficients", self._checked_coefficients())
        set_field("conditions", tuple(self.conditions))
        if isinstance(self.collocation, Sequence) and not len(self.collocation):
            set_field("collocation", (64,) * len(domain))
        set_field("n_evaluation", self._checked_counts("n_evaluation", self.n_evaluation, 200))
        if self._is_grid:
            set_field("collocation", self._checked_counts("collocation", self.collocation, 64))
        self._check_sampling()
        self._check_conditions()
        self._check_transform()
        first, second, reads = self._checked_reads()
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

    # --- checks ---------------------------------------------------------------------------------

    @property
    def _what(self) -> str:
        return f"PDE {self.name!r}"

    def _checked_inputs(self) -> tuple[str, ...]:
        names = tuple(self.inputs)
        if names and (len(set(names)) != self.n_in or not all(isinstance(n, str) for n in names)):
            raise must(f"'inputs' of {self._what}", f"{self.n_in} distinct names", self.inputs)
        return names

    def _checked_coefficients(self) -> dict[str, Coefficient]:
        return {
            name: given if isinstance(given, Coefficient) else Coefficient(given)
            for name, given in self.coefficients.items()
        }

    def _checked_counts(self, name: str, given: Any, default: int) -> tuple[int, ...]:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise must(f"'{name}' of {self._what}", "a sequence of integers", given)
        counts = tuple(given) or (default,) * self.n_in
        if len(counts) != self.n_in or min(counts) < 2:
            raise must(f"'{name}' of {self._what}", "at least two points for each input", counts)
        return counts

    @property
    def _is_grid(self) -> bool:
        given = self.collocation
        return not (isinstance(given, Points | np.ndarray) or callable(given))

    def _check_sampling(self) -> None:
        if self.inside is not None and not callable(self.inside):
            raise must(f"'inside' of {self._what}", "a function to booleans", self.inside)
        if self.resample is None:
            return
        if not isinstance(self.resample, Resample):
            raise must(f"'resample' of {self._what}", "a Resample", self.resample)
        if isinstance(self.collocation, np.ndarray) or callable(self.collocation):
            raise UserError(
                f"'resample' of {self._what} needs points that can be drawn again: give "
                "'collocation' as Points, and the geometry as 'inside'."
            )

    def _check_conditions(self) -> None:
        if not self.conditions and self.transform is None:
            raise must(f"'conditions' of {self._what}", "at least one condition", self.conditions)
        low, high = np.asarray(self.domain).T
        slack = 1e-9 * (high - low)
        names = [c.name for c in self.conditions]
        for c in self.conditions:
            what = f"condition {c.name!r} of {self._what}"
            if names.count(c.name) > 1 or c.name in ("pde", "bc"):
                raise must(f"The name of {what}", "unique, and neither 'pde' nor 'bc'", c.name)
            rows = len(c.points)
            if c.points.shape != (rows, self.n_in) or (
                c.operator is None and c.values.ndim and c.values.shape[1] != self.n_out
            ):
                got = c.points.shape, c.values.shape
                requirement = f"points {(rows, self.n_in)} and values {(rows, self.n_out)}"
                raise must(what, requirement, got)
            for points in (c.points, c.points if c.partner is None else c.partner):
                if not (np.isfinite(points).all() and np.isfinite(c.values).all()):
                    raise UserError(f"C{what[1:]} has a value that is not finite.")
                outside = ((points < low - slack) | (points > high + slack)).any(axis=1)
                if outside.any():
                    where = tuple(points[outside.argmax()].tolist())
                    raise UserError(f"C{what[1:]} has a point outside the domain: {where}.")

    def _check_transform(self) -> None:
        if self.transform is None:
            return
        import jax
        import jax.numpy as jnp

        x, u = (jax.ShapeDtypeStruct((7, n), jnp.float32) for n in (self.n_in, self.n_out))
        what, requirement = f"'transform' of {self._what}", "a function (x, v) to (N, n_out)"
        try:
            got = jax.eval_shape(self.transform, x, u).shape
        except Exception as error:
            raise must(what, requirement, f"{type(error).__name__}: {error}") from error
        if got != (7, self.n_out):
            raise must(what, requirement, f"an array of {got} from (7, {self.n_out})")

    def _checked_reads(self):
        """(first, second, all multi-indices) as declared, or as the residual reads them."""
        if self.first is None and self.second is None and self.derivatives is None:
            reads = self._traced(self.residual, f"The residual of {self._what}").reads
        else:
            for axes in ("first", "second"):
                given = () if getattr(self, axes) is None else getattr(self, axes)
                if isinstance(given, str) or not isinstance(given, Iterable):
                    raise must(f"'{axes}' of {self._what}", "a sequence of integers", given)
            first, second = tuple(self.first or ()), tuple(self.second or ())
            for axes, given in (("first", first), ("second", second)):
                if not set(given) <= set(range(self.n_in)) or len(set(given)) < len(given):
                    requirement = f"distinct inputs, 0 to {self.n_in - 1}"
                    raise must(f"'{axes}' of {self._what}", requirement, given)
            if self.derivatives is None and not set(second) <= set(first):
                # A second derivative is carried along with the first one, never alone.
                raise must(f"'second' of {self._what}", f"among 'first', {first}", second)
            reads = (*((i,) for i in first), *((i, i) for i in second))
            reads += tuple(self._multi_index(given) for given in self.derivatives or ())
            reads = tuple(dict.fromkeys(reads))
        first = tuple(index[0] for index in reads if len(index) == 1)
        second = tuple(i[0] for i in reads if len(i) == 2 and i[0] == i[1])
        return first, second, reads

    def _multi_index(self, given: Any) -> tuple[int, ...]:
        inputs = given if isinstance(given, tuple) else (given,)
        known = {name: i for i, name in enumerate(self.inputs)} | {i: i for i in range(self.n_in)}
        if not inputs or not all(one in known for one in inputs):
            names = ", ".join(map(str, known))
            raise must(f"'derivatives' of {self._what}", f"tuples of inputs ({names})", given)
        return tuple(sorted(known[one] for one in inputs))

    def _traced(self, operator: Operator, what: str):
        return trace(
            operator,
            what,
            n_in=self.n_in,
            n_out=self.n_out,
            inputs=self.inputs,
            coefficients=self.coefficients,
        )

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
                given = ("points", "values", "partner", "quadrature")
                roles = [role for role in given if getattr(c, role) is not None]
                arrays = tuple((role, f"{c.name}/{role}") for role in roles)
                reads, columns = self._of_condition(c)
                groups.append(Group(c.name, c.operator, reads, columns, c.weight or 1.0, arrays))
        return tuple(groups)

    def _columns_of_residual(self) -> int:
        """The number of equations, or an error if the residual reads what is not declared."""
        traced = self._traced(self.residual, f"The residual of {self._what}")
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
        found = self._traced(c.operator, f"The operator of condition {c.name!r} of {self._what}")
        return found.reads, found.columns

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
                for role in ("partner", "quadrature"):
                    if getattr(c, role) is not None:
                        data[f"{c.name}/{role}"] = getattr(c, role)
        return {name: array.astype(dtype) for name, array in data.items()}

    @functools.cached_property
    def _collocation_points(self) -> np.ndarray:
        if isinstance(self.collocation, Points):
            return self.collocation.draw(f"{self.name}/collocation", self.domain, self.inside)
        if self._is_grid:
            x = mesh(_axes(self.domain, self.collocation))
            return x if self.inside is None else x[is_inside(self.inside, x, self.name)]
        given = self.collocation() if callable(self.collocation) else self.collocation
        x = np.asarray(given, np.float64)
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
        """Warn where an evolution equation has fewer conditions in time than its order in time."""
        low, high = np.asarray(self.domain).T
        inputs = self.inputs or ("",) * self.n_in
        for i in (i for i, name in enumerate(inputs) if name in _TIME):
            order = max((index.count(i) for index in self.reads), default=0)
            at = [c for c in self.conditions if (c.points[:, i] == c.points[0, i]).all()]
            on_ends = [c for c in at if c.points[0, i] in (low[i], high[i])]
            interior = len(at) < len(self.conditions) and any(
                not _on_a_side(c, low, high) for c in self.conditions
            )
            found = sum(math.ceil(self._of_condition(c)[1] / self.n_out) for c in on_ends)
            if order <= found or self.transform is not None or interior:
                continue
            names = ", ".join(repr(c.name) for c in on_ends) or "none"
            warnings.warn(
                f"{self._what} is of order {order} in {inputs[i]!r}, but has {found} condition(s) "
                f"at the ends of {inputs[i]!r} ({names}): its solution is not unique.",
                stacklevel=3,
            )

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
        inside = None if self.inside is None else is_inside(self.inside, x, self.name)
        u = None if self.reference is None else self._reference_on(axes)
        if inside is not None:
            x, u = x[inside], None if u is None else u[inside]
        x.flags.writeable = False
        if u is not None:
            if not np.isfinite(u).all():
                raise UserError(f"The reference of {self._what} is not finite everywhere.")
            u.flags.writeable = False
        return x, u

    def _reference_on(self, axes: list[np.ndarray]) -> np.ndarray:
        """The reference on a grid, (points, n_out)."""
        assert self.reference is not None
        u = self.reference(*np.meshgrid(*axes, indexing="ij", sparse=True))
        shape: tuple[int, ...] = tuple(len(axis) for axis in axes)
        try:
            if isinstance(u, list | tuple):
                u = np.stack([np.broadcast_to(np.asarray(one), shape) for one in u], axis=-1)
            u = np.asarray(u, np.float64)
            full = (*shape, self.n_out) if self.n_out > 1 else shape
            return np.broadcast_to(u, full).reshape(-1, self.n_out)
        except ValueError:
            requirement = f"values on the grid, {shape}, per output"
            got = np.shape(u) if not isinstance(u, list | tuple) else [np.shape(one) for one in u]
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
        units = Units.of(self.domain)

        def in_z(f: Callable[..., Any] | None) -> Callable[..., Any] | None:
            if f is None:
                return None
            return lambda *z: f(*(o + s * c for o, s, c in zip(*columns, z, strict=True)))

        columns = (units.offset, units.scale)
        collocation = self.collocation
        if not (self._is_grid or isinstance(collocation, Points)):
            collocation = units.to_network(self._collocation_points)
        reference = self.reference_name
        alternatives = {name: in_z(f) for name, f in self.alternatives.items()}
        return dataclasses.replace(
            self,
            name=f"{self.name}-scaled",
            residual=InUnits(self.residual, units),
            domain=((-1.0, 1.0),) * self.n_in,
            conditions=[_condition_in(c, units) for c in self.conditions],
            first=None,
            second=None,
            derivatives=self.reads,
            collocation=collocation,
            inside=in_z(self.inside),
            transform=self.transform and TransformInUnits(self.transform, units),
            reference=alternatives[reference] if reference else in_z(self.reference),
            alternatives=alternatives,
            units=units,
        )


def _on_a_side(c: Condition, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether all points of a condition lie on one side of the box."""
    same = (c.points == c.points[0]).all(axis=0)
    return bool((same & ((c.points[0] == low) | (c.points[0] == high))).any())


def _condition_in(c: Condition, units: Units) -> Condition:
    return dataclasses.replace(
        c,
        points=units.to_network(c.points),
        partner=None if c.partner is None else units.to_network(c.partner),
        operator=c.operator and InUnits(c.operator, units),
    )


def _axes(domain: Sequence[Interval], counts: Sequence[int]) -> list[np.ndarray]:
    return [np.linspace(lo, hi, n) for (lo, hi), n in zip(domain, counts, strict=True)]
