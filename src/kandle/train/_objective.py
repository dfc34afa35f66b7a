"""What a training minimises: a function from a model and data to a loss.

An objective is a small frozen object, equal to another if it compiles to the same program: all data
are arguments. It has

    arrays            names of the problem's arrays that it reads, the inputs first
    start(data)       the residual-based weights before the first step
    loss(model, data, weights, backend) -> (loss, weights after the step)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from kandle import kernels
from kandle._errors import UserError, must
from kandle.nn import KAN
from kandle.train._rba import Variant, attend

Data = dict[str, Array]
Weights = dict[str, Array]


@dataclass(frozen=True)
class Fit:
    """The mean squared error between model and samples, 1/N Σ_n |u(x_n) - y_n|²."""

    arrays: ClassVar = ("x", "y")

    def start(self, data: Data) -> Weights:
        return {}

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        error = jnp.ravel(model(data["x"]) - data["y"])
        return kernels.total(error * error, backend) / error.size, weights


@dataclass(frozen=True)
class FitRows:
    """The weighted squared error, Σ_n w_n |u(x_n) - y_n|².

    Rows of weight zero fill samples of any number up to one that is already compiled for.
    """

    arrays: ClassVar = ("x", "y", "weight")

    def start(self, data: Data) -> Weights:
        return {}

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        error = model(data["x"]) - data["y"]
        return kernels.total(jnp.ravel(data["weight"][:, None] * error * error), backend), weights


@dataclass(frozen=True)
class Classify:
    """The weighted cross-entropy, Σ_n w_n (log Σ_j exp u_j(x_n) - Σ_j y_nj u_j(x_n)).

    `y` is one-hot, (N, classes): the probability of class j is softmax_j u(x).
    """

    arrays: ClassVar = ("x", "y", "weight")

    def start(self, data: Data) -> Weights:
        return {}

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        u = model(data["x"])
        u = u - lax.stop_gradient(jnp.max(u, axis=-1, keepdims=True))
        log_sum = jnp.log(kernels.total(jnp.exp(u), backend))  # (N,)
        chosen = kernels.total(data["y"] * u, backend)
        return kernels.total(data["weight"] * (log_sum - chosen), backend), weights


@dataclass(frozen=True)
class Solve:
    """The weighted mean squared residuals of a PDE and of its conditions (Eq. C12).

    All conditions share one mean and one maximum. A LeCun-normalized model takes its statistics
    from the collocation points and from the condition points each for themselves: they are two
    batches.

    Args:
        residual: of the equation, (points, derivatives) -> (N,).
        first, second: the derivatives it reads.
        rba: how points are weighted.
    """

    residual: Callable[[Any, Any], Any]
    first: tuple[int, ...]
    second: tuple[int, ...]
    rba: Variant

    arrays: ClassVar = ("collocation", "points", "values")

    def start(self, data: Data) -> Weights:
        if self.rba == "off":
            return {}
        sizes = {"pde": len(data["collocation"]), "bc": data["values"].size}
        dtype = data["values"].dtype
        return {kind: jnp.ones(size, dtype) for kind, size in sizes.items()}

    def residuals(self, model: KAN, data: Data) -> dict[str, Float[Array, " N"]]:
        """`pde` at the collocation points and `bc` at the condition points."""
        x = data["collocation"]
        try:
            pde = self.residual(x, model.derivatives(x, self.first, self.second))
        except KeyError as error:
            if error.args[0] not in range(x.shape[-1]):
                raise
            declared = f"first = {self.first}, second = {self.second}"
            raise UserError(
                f"The residual of the PDE reads a derivative along input {error} that is not "
                f"declared: {declared}."
            ) from None
        if jnp.shape(pde) not in ((len(x),), (len(x), 1)):
            raise must(
                "The residual of a PDE",
                f"one number a point, {(len(x),)} (u and its derivatives are (N, n_out): take "
                "[..., 0])",
                f"an array of {jnp.shape(pde)}",
            )
        return {"pde": jnp.ravel(pde), "bc": jnp.ravel(model(data["points"]) - data["values"])}

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        total, updated = jnp.zeros((), model.dtype), {}
        for kind, r in self.residuals(model, data).items():
            part, alpha = attend(r, weights.get(kind), self.rba, backend)
            total = total + part
            if alpha is not None:
                updated[kind] = alpha
        return total, updated


Objective = Fit | FitRows | Classify | Solve


def objective(problem: Any, rba: Variant) -> Objective:
    """The objective of a problem; `rba` matters to PDEs alone."""
    if problem.kind == "function":
        return Fit()
    return Solve(problem.residual, tuple(problem.first), tuple(problem.second), rba)
