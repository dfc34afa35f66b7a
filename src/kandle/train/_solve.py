"""The objective of a PDE: mean squares of its residual and of its conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle import kernels
from kandle._errors import UserError
from kandle.kernels import Route
from kandle.nn import KAN, Derivatives, Transform, field_derivatives
from kandle.ntk._tangents import Directions
from kandle.problems import PDE, Coefficient, Group, Named
from kandle.train._objective import Aux, Data, Objective, Term
from kandle.train._rba import ETA, GAMMA, Variant, attend, share

if TYPE_CHECKING:
    from kandle.train._training import Population

COLLOCATION = "collocation"

# Values beyond which a residual may overflow: then it is the training that diverged.
_MODERATE = 1e6
_SMALL = 1e3  # powers of larger values may overflow to infinity


class WithCoefficients(eqx.Module):
    """A network together with the trainable coefficients of an equation.

    Attributes:
        network: the network.
        theta: the unconstrained numbers θ of the coefficients, (n,), the last of all weights.
    """

    network: KAN
    theta: Float[Array, " n"]

    @property
    def dtype(self) -> Any:
        return self.network.dtype


def groups_of(problem: Any) -> tuple[Group, ...]:
    """The groups of a PDE, or of any problem with the arrays and attributes of a simple one."""
    if isinstance(problem, PDE):
        return problem.groups
    reads = (*((i,) for i in problem.first), *((i, i) for i in problem.second))
    points = (("points", "points"), ("values", "values"))
    return (
        Group("pde", problem.residual, reads, 1, 1.0, (("points", COLLOCATION),)),
        Group("bc", None, (), problem.n_out, 1.0, points),
    )


@dataclass(frozen=True)
class Solve(Objective):
    """The weighted mean squared residuals of a PDE and of its conditions (Eq. C12).

        L = Σ_g w_g / N_g Σ_i |α_gi r_gi|²

    The groups g are the equation ("pde"), all plain conditions together ("bc"), and every other
    condition by its name; the attention weights α are those of the group. Each group is one batch:
    a LeCun-normalized model takes its statistics from each separately.

    Args:
        groups: the groups.
        rba: variant of residual-based attention.
        inputs: names of the inputs.
        transform: from points and outputs of the network to the field, or None.
        coefficients: trainable coefficients by name.
        resampled: whether every model has collocation points of its own.
    """

    groups: tuple[Group, ...]
    rba: Variant
    inputs: tuple[str, ...] = ()
    transform: Transform | None = None
    coefficients: tuple[tuple[str, Coefficient], ...] = ()
    resampled: bool = False

    @classmethod
    def of(cls, problem: Any, rba: Variant, balance: float = 1.0) -> "Solve":
        """The objective of a problem; `balance` multiplies the weights of all conditions."""
        equation, *conditions = groups_of(problem)
        groups = (equation, *(c._replace(weight=balance * c.weight) for c in conditions))
        if not isinstance(problem, PDE):
            return cls(groups, rba)
        problem.warn_if_underdetermined()
        return cls(
            groups,
            rba,
            tuple(problem.inputs),
            problem.transform,
            tuple(problem.coefficients.items()),
            problem.resample is not None,
        )

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays that the loss reads, the collocation points first."""
        return tuple(name for group in self.groups for _, name in group.arrays)

    # --- models with coefficients ---------------------------------------------------------------

    def model_of(self, network: KAN, unknowns: Float[Any, " n"] | None = None) -> Any:
        if not self.coefficients:
            return network
        if unknowns is None:
            unknowns = [coefficient.theta for _, coefficient in self.coefficients]
        return WithCoefficients(network, jnp.asarray(unknowns, network.dtype))

    def network_of(self, model: Any) -> KAN:
        return model.network if isinstance(model, WithCoefficients) else model

    @property
    def n_unknowns(self) -> int:
        return len(self.coefficients)

    def unknowns(self, model: Any) -> Float[Any, "... n"]:
        """The unconstrained numbers θ of the coefficients."""
        return model.theta if self.coefficients else jnp.zeros(0)

    def values_of(self, unknowns: Float[Any, "... n"]) -> dict[str, Any]:
        """The coefficients by name from their unconstrained numbers θ."""
        return {name: c.value(unknowns[..., i]) for i, (name, c) in enumerate(self.coefficients)}

    def _parts(self, model: Any) -> tuple[KAN, dict[str, Array]]:
        if isinstance(model, WithCoefficients):
            return model.network, self.values_of(model.theta)
        return model, {name: jnp.asarray(c.initial) for name, c in self.coefficients}

    # --- residuals ------------------------------------------------------------------------------

    def derivatives(self, group: Group, model: Any, x: Float[Array, "N n_in"]) -> Derivatives:
        """The field with the derivatives that a group reads."""
        network, numbers = self._parts(model)
        d = field_derivatives(network, x, group.reads, self.transform)
        return d.described(self.inputs, numbers)

    def residual(self, group: Group, model: Any, data: Data) -> Float[Array, " N"]:
        """The residuals of one group, all points and columns in one vector."""
        arrays = {role: data[name] for role, name in group.arrays}
        r = self._operator(group, model, arrays["points"])
        if "partner" in arrays:
            r = self._operator(group, model, arrays["partner"]) - r
        if "quadrature" in arrays:
            w = arrays["quadrature"]
            r = jnp.einsum("mn,mnq->mq", w, r.reshape(*w.shape, group.columns))
        if "values" in arrays:
            r = r.reshape(arrays["values"].shape) - arrays["values"]
        return jnp.ravel(r)

    def _operator(self, group: Group, model: Any, x: Float[Array, "N n_in"]) -> Array:
        d = self.derivatives(group, model, x)
        return d.value if group.operator is None else group.operator(x, d)

    def residuals(self, model: Any, data: Data) -> dict[str, Float[Array, " N"]]:
        """The residuals by group: `pde`, `bc`, and those of other conditions by name."""
        return {group.name: self.residual(group, model, data) for group in self.groups}

    # --- the loss -------------------------------------------------------------------------------

    def start(self, data: Data) -> Aux:
        """The attention weights of every group: ones, or none without attention."""
        if self.rba == "off":
            return {}
        dtype = data[COLLOCATION].dtype
        aux = {}
        for group in self.groups:
            arrays = dict(group.arrays)
            rows = len(data[arrays.get("values", COLLOCATION)])
            aux[group.name] = jnp.ones(rows * group.columns, dtype)
        return aux

    def loss(self, model: Any, data: Data, aux: Aux, backend: str) -> tuple[Float[Array, ""], Aux]:
        total, updated = jnp.zeros((), model.dtype), dict(aux)
        for group in self.groups:
            r = self.residual(group, model, data)
            part, alpha = attend(r, aux.get(group.name), self.rba, backend)
            total = total + (part if group.weight == 1.0 else group.weight * part)
            if alpha is not None:
                updated[group.name] = alpha
        return total, updated

    # --- as a sum of squares --------------------------------------------------------------------

    @property
    def plain(self) -> bool:
        """Whether all residuals are functions of u, ∂u/∂x_i and ∂²u/∂x_i² at one point."""
        pointwise = all(
            {role for role, _ in group.arrays} <= {"points", "values"}
            and all(len(index) <= 2 and len(set(index)) == 1 for index in group.reads)
            for group in self.groups
        )
        return pointwise and not (self.transform or self.coefficients or self.resampled)

    @property
    def squares(self) -> Literal["by layer", "by row"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "by layer" if self.plain else "by row"

    def terms(self, data: Data, aux: Aux) -> tuple[Term, ...]:
        return tuple(self._term(group, data, aux.get(group.name)) for group in self.groups)

    def _term(self, group: Group, data: Data, alpha: Array | None) -> Term:
        arrays = dict(group.arrays)
        x = data[arrays["points"]]
        y = data.get(arrays.get("values", ""), jnp.zeros((len(x), group.columns), x.dtype))
        weight = jnp.full_like(y, group.weight / y.size)
        if alpha is not None:
            weight = weight * alpha.reshape(y.shape) ** 2
        if group.operator is None:
            return Term(x, y, weight)
        first = tuple(i[0] for i in group.reads if len(i) == 1)
        second = tuple(i[0] for i in group.reads if len(i) == 2)
        return Term(x, y, weight, Named(group.operator, self.inputs), Directions(first, second))

    def attention(self, residuals: Sequence[Array], aux: Aux) -> Aux:
        return {
            group.name: GAMMA * aux[group.name] + ETA * share(jnp.ravel(r), "dense")
            for group, r in zip(self.groups, residuals, strict=True)
            if group.name in aux
        }

    # --- during training ------------------------------------------------------------------------

    def route(self, model: Any, data: Data) -> Route:
        orders = [len(index) for group in self.groups for index in group.reads]
        if max(orders, default=0) > 2:
            reason = "derivatives above order two are computed in plain JAX"
            return Route("plain", {"one call": reason, "per layer": reason})
        values = kernels.route(self.network_of(model), data[self.arrays[0]])
        return values.without_one_call("derivatives pass through the layers one by one")

    def explain_nan(self, model: Any, data: Data) -> None:
        """Raise an error if a formula is not finite although its arguments are moderate."""
        network = self.network_of(model)
        for group in self.groups:
            points = data[dict(group.arrays)["points"]]
            d = self.derivatives(group, model, points)
            if self.transform is not None:
                outputs = np.asarray(network(points))
                _check_finite(d.value, "transform", "the outputs of the network", outputs, points)
            r = jnp.reshape(self.residual(group, model, data), (-1, group.columns))
            what = "residual" if group.name == "pde" else f"condition {group.name!r}"
            _check_finite(r, what, "u and its derivatives", d, points)


def _check_finite(values: Array, what: str, of: str, arguments: Any, points: Array) -> None:
    """Raise an error that says where a formula of moderate arguments is not finite.

    The values (m, q) may be fewer than the points, such as those of integrals.
    """
    largest = max(np.abs(np.asarray(leaf)).max() for leaf in jax.tree.leaves(arguments))
    for kind, is_so, bound in (
        ("NaN", np.isnan(values), _MODERATE),
        ("infinite", np.isinf(values), _SMALL),
    ):
        rows = np.flatnonzero(is_so.any(axis=1))
        if len(rows) and largest < bound:
            where = ", ".join(f"{c:g}" for c in np.asarray(points)[rows[0] % len(points)])
            raise UserError(
                f"The {what} of the PDE is {kind} at ({where}) before training, although {of} are "
                "finite there: look for a division by zero, a logarithm or a root in it."
            )


class Resampled:
    """The data of a PDE whose collocation points move to where a model's residual is large.

    Every model has points of its own. After every `problem.resample.every` updates on a grid it
    draws them again from the problem's candidates, and the attention weight of each point becomes
    the mean of those before.

    Args:
        problem: the PDE, with a rule in `problem.resample`.
        objective: its objective.
        data: its arrays, as the models share them before the first update.
    """

    def __init__(self, problem: PDE, objective: Solve, data: Data):
        self._problem, self._objective = problem, objective
        self._data, self._first = data, data[COLLOCATION][0]

    @property
    def inputs(self) -> Float[Array, "N n_in"]:
        return self._first

    def batches(self, populations: Sequence["Population"]) -> Iterator[tuple[Data, float]]:
        rule = self._problem.resample
        assert rule is not None
        [population] = populations  # the points of one are not those of another
        while True:
            yield self._data, rule.every
            self._data = {**self._data, COLLOCATION: self._drawn(population)}
            aux = population.state.aux
            if "pde" in aux:
                mean = jnp.mean(aux["pde"], axis=1, keepdims=True)
                aux = {**aux, "pde": jnp.broadcast_to(mean, aux["pde"].shape).copy()}
                population.state = population.state._replace(aux=aux)

    def _drawn(self, population: "Population") -> Float[Array, "P N n_in"]:
        rule, step = self._problem.resample, population.steps
        assert rule is not None
        before = self._data[COLLOCATION]
        pool = self._problem.candidates(step)
        candidates = {COLLOCATION: jnp.asarray(pool, before.dtype)[None]}
        residuals = np.asarray(population.each(_equation, candidates))  # (P, M, q)
        sizes = np.abs(residuals).max(axis=-1)
        points = np.array(np.broadcast_to(before, (len(population), *before.shape[1:])))
        # A model that has diverged keeps its points.
        for p in np.flatnonzero(np.isfinite(sizes).all(axis=1)):
            key = f"{self._problem.name}/resample/{step}"
            points[p] = pool[rule.choose(key, sizes[p], points.shape[1])]
        return jnp.asarray(points, before.dtype)


def _equation(objective: Solve, model: Any, data: Data, backend: str) -> Float[Array, "M q"]:
    """The residual of the equation at any points."""
    return objective.residual(objective.groups[0], model, data).reshape(len(data[COLLOCATION]), -1)
