"""The Levenberg-Marquardt method with geodesic acceleration, for any system of squares.

There are three systems, which differ in how they solve the linearized problem for one damping, and
one way to accept a step (`descend`):

    normal equations by layer    `_normal_equations`: networks, and plain PDEs
    the kernel J Jᵀ              `_kernel_form`: the same, with many weights
    normal equations by row      `_row_jacobian`: every other PDE, by automatic differentiation

`LeastSquares` chooses the system and trains by it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from kandle._errors import must, unknown

Vector = Float[np.ndarray, " P"]

# Dampings tried per iteration, and the range they may take relative to the scale of JᵀJ.
_TRIALS, _SMALLEST, _LARGEST = 12, 1e-18, 1e12

# A restart is due after an iteration to more than _SLOW of the loss before, if the loss is above
# _POOR of the first.
_SLOW, _POOR = 0.95, 0.1

FORMS = ("auto", "normal", "kernel")
_MOST_WEIGHTS = 6000

# Marquardt's scaling keeps weights that no data reach from taking part: it has a floor.
_FLOOR = 1e-6


@dataclass(frozen=True)
class LevenbergMarquardt:
    """The settings of the method.

    An iteration minimizes a quadratic model of the loss ‖ρ‖² around θ,

        (JᵀJ + λ D) δ = -Jᵀρ,        D = √(diag(JᵀJ) · mean diag(JᵀJ))

    D lies between the identity (Levenberg) and diag(JᵀJ) (Marquardt). Geodesic acceleration adds
    the second-order term a with (JᵀJ + λD) a = -½ Jᵀ ∂²ρ/∂δ², if that lowers the loss. A step that
    does not lower the loss is rejected and λ multiplied by `grow`; after a step that does, λ is
    multiplied by `shrink`, unless the loss fell by much less than the model predicted.

    Args:
        damping: the initial λ.
        shrink: factor of λ after a successful step.
        grow: factor of λ after a rejected step.
        warmup: steps of Adam before the first iteration. They move the network out of the region
            where the quadratic model leads to poor minima, which singular targets need. Not
            counted as iterations.
        warmup_rate: the rate of Adam at the beginning of the warm-up, which falls to zero along a
            cosine. None is 1e-2, and 1e-3 in the kernel form: networks of many weights can
            interpolate, and how well they do between the points depends on where they begin.
        restarts: how often the warm-up may be repeated where the iterations make no progress: an
            iteration lowers the loss by less than 5 % although it is above a tenth of the first.
            The result is used if its loss is lower. None is 3, and 0 for PDEs whose Jacobian is
            computed by automatic differentiation.
        acceleration: whether to use geodesic acceleration.
        balance: weight of the mean square over a PDE's conditions, relative to its equation's.
        gradient_tolerance: stop when the largest |Jᵀρ| over √(D · loss) is below this.
        step_tolerance: stop when a successful step lowers the loss by less than this fraction.
        form: "normal" solves the equations above, of as many unknowns as weights; "kernel" those of
            J Jᵀ, of as many unknowns as residuals; "auto" is "kernel" for networks of more than
            6,000 weights.
        batch: the most residuals per iteration of the kernel form: if there are more, each
            iteration uses as many of them, drawn at random.
        momentum: μ of the kernel form, where an iteration does not use all residuals.
    """

    damping: float = 1e-2
    shrink: float = 0.25
    grow: float = 3.0
    warmup: int = 300
    warmup_rate: float | None = None
    restarts: int | None = None
    acceleration: bool = True
    balance: float = 100.0
    gradient_tolerance: float = 1e-12
    step_tolerance: float = 1e-12
    form: Literal["auto", "normal", "kernel"] = "auto"
    batch: int = 6000
    momentum: float = 0.9

    def __post_init__(self):
        for name, low, high in (
            ("damping", 0, math.inf),
            ("shrink", 0, 1),
            ("grow", 1, math.inf),
            ("balance", 0, math.inf),
            ("gradient_tolerance", -1, math.inf),
            ("step_tolerance", -1, 1),
            ("momentum", -1, 1),
        ):
            value = getattr(self, name)
            real = isinstance(value, int | float) and not isinstance(value, bool)
            if not real or not low < value < high:
                at_least = "at least 0" if low < 0 else f"above {low}"
                requirement = f"a number {at_least}" + (f" and below {high}" if high < 2 else "")
                raise must(f"'{name}' of LevenbergMarquardt", requirement, value)
        rate = self.warmup_rate
        if rate is not None and not (isinstance(rate, int | float) and 0 < rate < math.inf):
            raise must("'warmup_rate' of LevenbergMarquardt", "a number above 0, or None", rate)
        for name, least in (("warmup", 0), ("restarts", 0), ("batch", 1)):
            value = getattr(self, name)
            if name == "restarts" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                requirement = f"an integer of at least {least}"
                raise must(f"'{name}' of LevenbergMarquardt", requirement, value)
        if self.form not in FORMS:
            raise unknown("form of LevenbergMarquardt", str(self.form), FORMS)
        if not isinstance(self.acceleration, bool):
            raise must("'acceleration' of LevenbergMarquardt", "True or False", self.acceleration)

    def makes_no_progress(self, first: float, before: float, after: float) -> bool:
        """Whether an iteration from one loss to another calls for a restart."""
        return after > _SLOW * before and after > _POOR * first

    def rate_of_warmup(self, by_kernel: bool) -> float:
        """The rate at which the warm-up begins."""
        if self.warmup_rate is not None:
            return self.warmup_rate
        return 1e-3 if by_kernel else 1e-2

    def uses_kernel(self, n_weights: int) -> bool:
        """Whether a network of this many weights trains in the kernel form."""
        return self.form == "kernel" or (self.form == "auto" and n_weights > _MOST_WEIGHTS)


class Solution(NamedTuple):
    """The solution of the linearized problem for one damping.

    Attributes:
        step: δ.
        predicted: by how much the loss falls if the residuals are linear; 0 if unknown.
        bend: computes the second-order term a, of which one half is added to δ.
    """

    step: Vector
    predicted: float
    bend: Callable[[], Vector]


class Linearized(NamedTuple):
    """A system around one θ.

    Attributes:
        loss: ‖ρ‖² there.
        solve: from a damping λ to its solution, or to None if its matrix has no factorization. It
            is None as a whole where no step can lower the loss.
    """

    loss: float
    solve: Callable[[float], Solution | None] | None


class System(Protocol):
    """A loss ‖ρ(θ)‖² that can be linearized."""

    def loss(self, theta: Vector, /) -> float:
        """‖ρ‖²."""
        ...

    def linearize(self, theta: Vector) -> Linearized | None:
        """The system around θ, or None if it is not finite there."""
        ...


class Step(NamedTuple):
    """The outcome of one iteration: the loss before it, θ and λ after it, and whether to stop."""

    loss: float
    theta: Vector
    damping: float
    converged: bool


def iterate(system: System, theta: Vector, damping: float, settings: LevenbergMarquardt) -> Step:
    """One iteration; θ is unchanged if no damping gives a lower loss."""
    # A diverged network overflows here, which is a result and no reason to warn.
    with np.errstate(over="ignore", invalid="ignore"):
        linearized = system.linearize(theta)
    if linearized is None:
        return Step(math.nan, theta, damping, True)
    loss, solve = linearized
    if solve is None:
        return Step(loss, theta, damping, True)
    return descend(solve, system.loss, theta, loss, damping, settings)


class Normal(NamedTuple):
    """The normal equations of a system around one θ: ‖ρ‖², JᵀJ and Jᵀρ, in float64."""

    loss: float
    gram: Float[np.ndarray, "P P"]
    gradient: Vector


class NormalEquations:
    """A system that is solved by its normal equations (JᵀJ + λD) δ = -Jᵀρ.

    Args:
        normal: θ -> the normal equations.
        loss: θ -> ‖ρ‖².
        curvature: (θ, δ) -> Jᵀ ∂²ρ/∂δ².
        gradient_tolerance: no step is tried where the scaled gradient is below this.
    """

    def __init__(
        self,
        normal: Callable[[Vector], Normal],
        loss: Callable[[Vector], float],
        curvature: Callable[[Vector, Vector], Vector],
        gradient_tolerance: float = 1e-12,
    ):
        self._normal, self.loss, self._curvature = normal, loss, curvature
        self._tolerance = gradient_tolerance

    def linearize(self, theta: Vector) -> Linearized | None:
        from scipy.linalg import cho_solve

        loss, gram, gradient = self._normal(theta)
        finite = math.isfinite(loss) and np.isfinite(gradient).all() and np.isfinite(gram).all()
        if not finite:
            return None
        diagonal = np.diagonal(gram).copy()
        mean = diagonal.mean()
        if loss == 0 or mean == 0:
            return Linearized(loss, None)
        scale = np.sqrt(np.maximum(diagonal, _FLOOR * mean) * mean)
        if np.max(np.abs(gradient) / np.sqrt(scale * loss)) < self._tolerance:
            return Linearized(loss, None)

        def solve(damping: float) -> Solution | None:
            factor = factorized(gram, damping * scale)
            if factor is None:
                return None
            step = -cho_solve(factor, gradient, check_finite=False)
            # From (JᵀJ + λD) δ = -Jᵀρ: what the quadratic model says the loss falls by.
            predicted = float(damping * step @ (scale * step) - gradient @ step)

            def bend() -> Vector:
                return -cho_solve(factor, self._curvature(theta, step), check_finite=False)

            return Solution(step, predicted, bend)

        return Linearized(loss, solve)


def factorized(
    matrix: Float[np.ndarray, "n n"], added: Vector | float
) -> tuple[np.ndarray, bool] | None:
    """Cholesky factor of a symmetric matrix with a diagonal added, or None if there is none.

    Only the upper triangle is read.
    """
    from scipy.linalg import LinAlgError, cho_factor

    damped = matrix.copy()
    damped[np.diag_indices_from(damped)] += added
    try:
        # LAPACK is column-major: the transpose of a symmetric matrix avoids a copy.
        return cho_factor(damped.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None


def descend(
    solve: Callable[[float], Solution | None],
    loss_at: Callable[[Vector], float],
    theta: Vector,
    loss: float,
    damping: float,
    settings: LevenbergMarquardt,
) -> Step:
    """The first step, from the present damping upwards, that lowers the loss.

    Args:
        solve: λ -> the step of the damped problem, or None if its matrix has no factorization.
        loss_at: θ -> ‖ρ‖².
        theta, loss: where the step begins, and the loss there.
        damping: λ of the first trial.
        settings: of the method.
    """
    tried = damping
    for _ in range(_TRIALS):
        solution = solve(tried)
        if solution is None:
            tried = bounded(10 * tried)
            continue
        best = theta + solution.step
        after = loss_at(best)
        if settings.acceleration and math.isfinite(after):
            bent = best + 0.5 * solution.bend()
            if (bent_loss := loss_at(bent)) < after:
                best, after = bent, bent_loss
        if after < loss:
            gain = (loss - after) / solution.predicted if solution.predicted > 0 else 1.0
            change = settings.shrink if gain > 0.25 else math.sqrt(settings.grow)
            stalled = loss - after < settings.step_tolerance * loss
            return Step(loss, best, bounded(tried * change), stalled)
        tried = bounded(settings.grow * tried)
    return Step(loss, theta, tried, tried >= _LARGEST)


def bounded(damping: float) -> float:
    return min(max(damping, _SMALLEST), _LARGEST)
