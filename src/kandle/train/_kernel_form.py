"""The Levenberg-Marquardt method for many weights: an iteration in terms of the kernel J Jᵀ.

It minimizes ‖J δ + ρ‖² + λ s ‖δ - μ δ'‖² for the residuals ρ of a batch:

    (J Jᵀ + λ s I) z = -ρ - μ J δ',        δ = Jᵀ z + μ δ',        s = mean diag(J Jᵀ)

The system has as many unknowns as the batch has residuals, whatever the number of weights. Usually
the batch holds all residuals and μ = 0: this is the damped Gauss-Newton step. Where they are too
many, each iteration draws some, and the momentum μ carries over what earlier batches contributed
through the previous step δ' (as in SPRING).

J Jᵀ needs no J. With the jets of a layer's features F = (B_1(x_i), …, B_M(x_i), R(x_i), 1) over all
inputs i, one component C for values and one for every derivative, and h = ∂q/∂y of its output jets,

    (J Jᵀ)_nn' = Σ_layers Σ_CC' [Σ_j h_nj⁽ᶜ⁾ h_n'j⁽ᶜ'⁾] [Σ_f F_nf⁽ᶜ⁾ F_n'f⁽ᶜ'⁾]

because the weights are those of `Layout`, where the scales c are one.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle.nn import KAN, KANLayer
from kandle.ntk._layerwise import _inputs
from kandle.ntk._tangents import Directions, Tangent, tangents
from kandle.train._levenberg_marquardt import (
    LevenbergMarquardt,
    Linearized,
    Solution,
    Step,
    Vector,
    factorized,
)
from kandle.train._normal_equations import features_by_order
from kandle.train._objective import Term

# Iterations on batches without a lower loss after which training stops.
_PATIENCE = 10

# Rows of the kernel that are computed together, so that temporaries stay small.
_ROWS = 512


class Carried(NamedTuple):
    """What iterations on batches pass on: the last step δ', and two counters."""

    direction: Vector
    iterations: int = 0
    failures: int = 0


class KernelEquations:
    """A system that is solved by the equations above, on one batch of its residuals.

    Args:
        network: θ -> the network.
        loss: θ -> ‖ρ‖² over all points.
        values: (θ, terms) -> ρ of these terms.
        push: (θ, δ, terms) -> J δ.
        pull: (θ, z, terms) -> Jᵀ z.
        second: (θ, δ, terms) -> ∂²ρ/∂δ².
        terms: all terms of the loss.
        carried: what the iterations before passed on.
        settings: of the method.
    """

    def __init__(
        self,
        *,
        network: Callable[[Vector], KAN],
        loss: Callable[[Vector], float],
        values: Callable[[Vector, Any], Vector],
        push: Callable[[Vector, Vector, Any], Vector],
        pull: Callable[[Vector, Vector, Any], Vector],
        second: Callable[[Vector, Vector, Any], Vector],
        terms: Sequence[Term],
        carried: Carried,
        settings: LevenbergMarquardt,
    ):
        self._network, self.loss, self._values = network, loss, values
        self._push, self._pull, self._second = push, pull, second
        self._carried, self._settings = carried, settings
        self._batch = batch_of(terms, settings.batch, carried.iterations)
        # A batch of all residuals predicts how the loss falls, and needs no momentum.
        self._whole = _size(self._batch) == _size(terms)
        self._ended = False  # whether no step can lower the loss

    def linearize(self, theta: Vector) -> Linearized | None:
        linearized = self._linearize(theta)
        self._ended = linearized is None or linearized.solve is None
        return linearized

    def _linearize(self, theta: Vector) -> Linearized | None:
        from scipy.linalg import cho_solve

        batch, whole = self._batch, self._whole
        loss, rho = self.loss(theta), self._values(theta, batch)
        if not (math.isfinite(loss) and np.isfinite(rho).all()):
            return None
        kernel = tangent_kernel(self._network(theta), batch)
        if not np.isfinite(np.diagonal(kernel)).all():
            return None
        scale = np.diagonal(kernel).mean()
        if loss == 0 or scale == 0:
            return Linearized(loss, None)
        if whole:
            largest = np.max(np.abs(self._pull(theta, rho, batch)))
            if largest < self._settings.gradient_tolerance * math.sqrt(scale * loss):
                return Linearized(loss, None)

        momentum = np.zeros_like(theta)
        if not whole:
            momentum = self._settings.momentum * self._carried.direction

        def solve(damping: float) -> Solution | None:
            nonlocal momentum
            factor = factorized(kernel, damping * scale)
            if factor is None:
                return None
            # The momentum of a rejected step is dropped: the next damping tries without it.
            before, momentum = momentum, np.zeros_like(theta)
            right = -rho
            if before.any():
                right = right - self._push(theta, before, batch)
            z = cho_solve(factor, right, check_finite=False)
            step = self._pull(theta, z, batch) + before
            # Without momentum ρ + J δ = -λ s z. A batch does not predict the loss over all points.
            predicted = 0.0
            if whole:
                predicted = float(rho @ rho - (damping * scale) ** 2 * (z @ z))

            def bend() -> Vector:
                second = self._second(theta, step, batch)
                return -self._pull(theta, cho_solve(factor, second, check_finite=False), batch)

            return Solution(step, predicted, bend)

        return Linearized(loss, solve)

    def after(self, theta: Vector, step: Step) -> tuple[Step, Carried]:
        """A step from θ as this form judges it, and what the next iteration carries on.

        On batches a small step is no sign of convergence, but many failures in a row are.
        """
        if self._ended:
            return step, self._carried
        taken = step.theta - theta
        failures = 0 if taken.any() else self._carried.failures + 1
        if not self._whole:
            step = step._replace(converged=failures >= _PATIENCE)
        return step, Carried(taken, self._carried.iterations + 1, failures)


def _size(terms: Sequence[Term]) -> int:
    return sum(term.y.size for term in terms)


def batch_of(terms: Sequence[Term], size: int, iteration: int) -> tuple[Term, ...]:
    """At most about `size` residuals of all terms, weighted so that the mean loss is the same."""
    total = _size(terms)
    if total <= size:
        return tuple(terms)
    random = np.random.default_rng(iteration)
    chosen = []
    for term in terms:
        n = len(term.x)
        count = min(n, max(1, round(size * n / total)))
        rows = np.sort(random.permutation(n)[:count])
        weight = term.weight[rows] * (n / count)
        chosen.append(dataclasses.replace(term, x=term.x[rows], y=term.y[rows], weight=weight))
    return tuple(chosen)


# ---- the kernel ----------------------------------------------------------------------------------


class _Segment(NamedTuple):
    """The rows of one quantity of one term: tangents of all layers, and √weight."""

    places: np.ndarray
    tangents: tuple[Tangent, ...]
    directions: Directions
    root: Float[np.ndarray, " N"]


def tangent_kernel(model: KAN, terms: Sequence[Term]) -> Float[np.ndarray, "B B"]:
    """J Jᵀ of the weighted residuals of all terms, quantities the faster; the upper triangle."""
    segments = _segments(model, terms)
    ends = np.cumsum([0, *(len(s.places) for s in segments)])
    K = np.zeros((ends[-1], ends[-1]))
    for place, layer in enumerate(model.layers):
        parts = [_part(layer, s.tangents[place], s) for s in segments]
        for i, (a, start) in enumerate(zip(parts, ends, strict=False)):
            for b, column in zip(parts[i:], ends[i:], strict=False):
                _add_products(K, start, a, column, b)
    order = np.argsort(np.concatenate([s.places for s in segments]), kind="stable")
    if (np.diff(order) == 1).all():
        return K
    # Several quantities at a point: their rows go where the residuals have them.
    K = np.triu(K) + np.triu(K, 1).T
    return K[np.ix_(order, order)]


def _segments(model: KAN, terms: Sequence[Term]) -> list[_Segment]:
    found, start = [], 0
    for term in terms:
        root = np.sqrt(np.asarray(term.weight, np.float64)).reshape(len(term.x), -1)
        of_quantities = _tangents(model, term.x, term.residual, term.directions)
        for q, layers in enumerate(of_quantities):
            places = start + q + len(of_quantities) * np.arange(len(term.x))
            found.append(_Segment(places, layers, term.directions, root[:, q]))
        start += root.size
    return found


class _Part(NamedTuple):
    """One layer's h and F of a segment, in float64; h has the weights of the residuals."""

    h: Float[np.ndarray, "C N n_out"]
    F: Float[np.ndarray, "C N n_features"]


def _part(layer: KANLayer, tangent: Tangent, segment: _Segment) -> _Part:
    h = np.asarray(tangent.cotangent, np.float64) * segment.root[:, None]
    return _Part(h, np.asarray(_features(layer, tangent, segment.directions), np.float64))


def _add_products(K: np.ndarray, start: int, a: _Part, column: int, b: _Part) -> None:
    """Add Σ_CC' (h hᵀ) ∘ (F Fᵀ) to the block of two segments; on the diagonal above it only."""
    N, M = a.h.shape[1], b.h.shape[1]
    for top in range(0, N, _ROWS):
        rows = slice(top, min(top + _ROWS, N))
        left = top if start == column else 0
        block = K[start + rows.start : start + rows.stop, column + left : column + M]
        for h_a, F_a in zip(a.h, a.F, strict=True):
            for h_b, F_b in zip(b.h, b.F, strict=True):
                product = F_a[rows] @ F_b[left:].T
                product *= h_a[rows] @ h_b[left:].T
                block += product


@functools.partial(jax.jit, static_argnums=(2, 3))
def _tangents(model: KAN, x: Array, residual: Any, directions: Directions) -> Any:
    return tangents(model, x, residual, directions)


@functools.partial(jax.jit, static_argnums=2)
def _features(
    layer: KANLayer, tangent: Tangent, directions: Directions
) -> Float[Array, "C N n_features"]:
    """The jets of B_m(x_i) and R(x_i) for all inputs, and of the constant 1 if there is a bias."""
    orders = features_by_order(layer, _inputs(layer, tangent, directions))  # (N, n_in, M + 1)
    x, n = tangent.x[..., None], len(directions.along)
    jet = [orders[0], *(orders[1] * x[1 + d] for d in range(n))]
    for d in range(len(directions.second)):
        jet.append(orders[2] * x[1 + d] ** 2 + orders[1] * x[1 + n + d])
    F = jnp.stack(jet).reshape(len(jet), x.shape[1], -1)
    if layer.bias is None:
        return F
    one = jnp.zeros((*F.shape[:2], 1), F.dtype).at[0].set(1.0)
    return jnp.concatenate([F, one], axis=-1)
