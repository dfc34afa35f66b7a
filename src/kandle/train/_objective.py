"""What a training minimizes: a function from a model and data to a loss."""

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from kandle import kernels
from kandle.kernels import Route
from kandle.nn import KAN, squared_error
from kandle.ntk._tangents import Directions
from kandle.problems import Group

# Arrays by name. A population holds them with an axis of models in front, an objective sees those
# of one model.
Data = dict[str, Array]
Aux = dict[str, Array]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["x", "y", "weight"],
    meta_fields=["residual", "directions"],
)
@dataclass(frozen=True)
class Term:
    """One part Σ_nq w_nq (q(x_n) - y_nq)² of a loss that is a sum of weighted squares.

    The quantities q are the network's outputs, or a residual of its derivatives.

    Attributes:
        x: points, (N, n_in).
        y: target values, (N, Q).
        weight: weights of the squares, (N, Q).
        residual: (points, derivatives) -> (N,) or (N, Q), or None for the outputs themselves.
        directions: the derivatives that the residual reads.
    """

    x: Float[Array, "N n_in"]
    y: Float[Array, "N Q"]
    weight: Float[Array, "N Q"]
    residual: Callable[[Any, Any], Any] | None = None
    directions: Directions = Directions()  # noqa: RUF009 (immutable)


class Objective(abc.ABC):
    """The loss of a model on data: a hashable object, equal to others that compile the same.

    All data are arguments, so that one compiled program serves every problem of a kind. An
    objective of your own has `arrays` and `loss`; everything else has a default. Least squares
    needs more: `squares`, and `terms`, or `groups` with `residual`.

    Attributes:
        squares: how least squares obtains the Jacobian of the residuals: "by layer" from `terms`,
            or "by row" by automatic differentiation of the `residual` of each of its `groups`; None
            where the loss is no sum of squares.
        penalized: whether the loss has a `penalty_matrix`.
        groups: the parts of the loss, where `squares` is "by row".
    """

    squares: ClassVar[Literal["by layer", "by row"] | None] = None
    penalized: ClassVar[bool] = False
    groups: tuple[Group, ...]

    @property
    @abc.abstractmethod
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays that the loss reads, the network's inputs first."""

    @abc.abstractmethod
    def loss(self, model: Any, data: Data, aux: Aux, backend: str) -> tuple[Float[Array, ""], Aux]:
        """The loss, and what the objective remembers for the next update.

        Args:
            model: the model.
            data: its data.
            aux: what the objective remembers, such as the attention weights of points.
            backend: of the kernels, for sums over points (`kernels.total`).
        """

    def start(self, data: Data) -> Aux:
        """What the objective remembers before the first update."""
        return {}

    def measure(self, model: Any, data: Data, backend: str) -> Float[Array, " k"]:
        """Measures of a model on other data, such as held-out rows; the first is to be low."""
        return self.loss(model, data, self.start(data), backend)[0][None]

    def route(self, model: Any, data: Data) -> Route:
        """How the loss and its gradient are computed, see `kandle.kernels.route`."""
        values = kernels.route(self.network_of(model), data[self.arrays[0]])
        return values.without_one_call("the loss is no squared error of the outputs")

    def explain_nan(self, model: Any, data: Data) -> None:  # noqa: B027 (nothing to explain)
        """Raise an error if a formula of this objective is the reason for a NaN at the start."""

    # --- what trains beside the network's weights -----------------------------------------------

    def model_of(self, network: KAN, unknowns: Float[Any, " k"] | None = None) -> Any:
        """What is trained: the network, or the network together with other unknowns.

        Without `unknowns` these begin where the objective wants them to.
        """
        return network

    def network_of(self, model: Any) -> KAN:
        """The network of a model."""
        return model

    @property
    def n_unknowns(self) -> int:
        """How many other unknowns there are."""
        return 0

    def unknowns(self, model: Any) -> Float[Any, "... k"]:
        """The other unknowns of a model, which are recorded after every update."""
        return np.zeros(0)

    def values_of(self, unknowns: Float[Any, "... k"]) -> dict[str, Any]:
        """The other unknowns by name, as the problem means them."""
        return {}

    # --- as a sum of squares --------------------------------------------------------------------

    def terms(self, data: Data, aux: Aux) -> tuple[Term, ...]:
        """The parts of the loss, where `squares` is "by layer"; `aux` are constants of the step."""
        raise NotImplementedError

    def residual(self, group: Group, model: Any, data: Data) -> Float[Array, " N"]:
        """The residuals of one group without weights, all points and columns in one vector."""
        raise NotImplementedError

    def attention(self, residuals: Sequence[Array], aux: Aux) -> Aux:
        """What the objective remembers for the next update, from the residuals of each part."""
        return aux

    def penalty_matrix(self, model: KAN, data: Data) -> Float[np.ndarray, "P P"] | None:
        """Ω of a penalty θᵀ Ω θ in the loss, with θ in the order of `Layout`, if `penalized`."""
        return None


@dataclass(frozen=True)
class Fit(Objective):
    """The mean squared error between model and samples, 1/N Σ_n |u(x_n) - y_n|²."""

    squares = "by layer"

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y")

    def loss(self, model: KAN, data: Data, aux: Aux, backend: str) -> tuple[Float[Array, ""], Aux]:
        x, y = data["x"], data["y"]
        fused = squared_error(model, x, y, jnp.full(len(y), 1 / y.size, y.dtype))
        if fused is not None:
            return fused, aux
        error = jnp.ravel(model(x) - y)
        return kernels.total(error * error, backend) / error.size, aux

    def route(self, model: KAN, data: Data) -> Route:
        return kernels.route(model, data["x"], data["y"])

    def terms(self, data: Data, aux: Aux) -> tuple[Term, ...]:
        y = data["y"]
        return (Term(data["x"], y, jnp.full_like(y, 1 / y.size)),)


@dataclass(frozen=True)
class FitRows(Objective):
    """The weighted squared error, Σ_n w_n |u(x_n) - y_n|².

    Padding with rows of weight zero lets one compiled program serve any number of samples.
    """

    squares = "by layer"

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y", "weight")

    def loss(self, model: KAN, data: Data, aux: Aux, backend: str) -> tuple[Float[Array, ""], Aux]:
        x, y, weight = data["x"], data["y"], data["weight"]
        fused = squared_error(model, x, y, weight)
        if fused is not None:
            return fused, aux
        error = model(x) - y
        return kernels.total(jnp.ravel(weight[:, None] * error * error), backend), aux

    def route(self, model: KAN, data: Data) -> Route:
        return kernels.route(model, data["x"], data["y"])

    def terms(self, data: Data, aux: Aux) -> tuple[Term, ...]:
        x, y, weight = data["x"], data["y"], data["weight"]
        return (Term(x, y, jnp.broadcast_to(weight[:, None], y.shape)),)


@dataclass(frozen=True)
class Classify(Objective):
    """The weighted cross-entropy, Σ_n w_n (log Σ_j exp u_j(x_n) - Σ_j y_nj u_j(x_n)).

    `y` is one-hot, (N, classes): the probability of class j is softmax_j u(x).
    """

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y", "weight")

    def loss(self, model: KAN, data: Data, aux: Aux, backend: str) -> tuple[Float[Array, ""], Aux]:
        u = model(data["x"])
        u = u - lax.stop_gradient(jnp.max(u, axis=-1, keepdims=True))
        log_sum = jnp.log(kernels.total(jnp.exp(u), backend))  # (N,)
        chosen = kernels.total(data["y"] * u, backend)
        return kernels.total(data["weight"] * (log_sum - chosen), backend), aux
