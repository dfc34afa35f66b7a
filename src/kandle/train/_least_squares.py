"""Least squares as a method of training: damped Gauss-Newton iterations, one model after the other.

An iteration of a model goes through these steps, in `LeastSquares._iterate`:

    arrays    the points, targets and weights of the residuals ρ, with this iteration's attention
    system    one of three ways to solve the linearized problem, see `_levenberg_marquardt`
    step      the first damping whose step lowers the loss
    restart   another warm-up by Adam, where iterations make no progress at a high loss
    reweight  attention weights for the next iteration, from this one's residuals

A model is one vector here, see `Layout`: scales c are absorbed, and the statistics of normalized
networks are frozen at the initialization, on the objective's first inputs, because rows of the
Jacobian must not depend on each other. The linear algebra is SciPy's in float64; residuals and
Jacobians are computed in the precision of the models.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from kandle import kernels
from kandle._errors import UserError, must
from kandle.kernels import Route
from kandle.nn import KAN
from kandle.train import _weighted_residuals as residuals
from kandle.train._first_order import FirstOrder
from kandle.train._kernel_form import Carried, KernelEquations
from kandle.train._layout import Layout
from kandle.train._levenberg_marquardt import LevenbergMarquardt, Normal, NormalEquations, iterate
from kandle.train._normal_equations import BLOCK, normal_equations
from kandle.train._objective import Aux, Data, Objective, Term
from kandle.train._optimizer import Optimizer
from kandle.train._row_jacobian import normal_equations_by_row
from kandle.train._training import Curves, Method, Population, State, of_model

_RESTARTS = 3


class Memory(NamedTuple):
    """What a method of least squares remembers of its models; all arrays are NumPy's.

    Attributes:
        damping: λ of the next iteration.
        converged: whether the iterations of a model have ended.
        first: the loss before the first iteration; NaN before it.
        restarts: restarts used.
        direction: the last step, where iterations use batches of residuals; otherwise empty.
        iterations, failures: on batches, and those in a row that lowered no loss.
    """

    damping: Float[np.ndarray, " P"]
    converged: Bool[np.ndarray, " P"]
    first: Float[np.ndarray, " P"]
    restarts: np.ndarray
    direction: Float[np.ndarray, "P n"]
    iterations: np.ndarray
    failures: np.ndarray


@dataclass(frozen=True)
class LeastSquares(Method):
    """Damped Gauss-Newton iterations on a loss that is a sum of squares.

    Attributes:
        layout: how a model is a vector: `State.weights` has them as rows.
        objective: what is minimized.
        settings: of the iterations.
        backend: of the kernels, "dense" where the Jacobian is computed by row.
        form: which of the three systems is solved.
        warm_up_backend: of the kernels during the warm-up.
    """

    layout: Layout
    objective: Objective
    settings: LevenbergMarquardt
    backend: str
    form: Literal["normal", "kernel", "by row"]
    warm_up_backend: str

    first_chunk: ClassVar[int] = 1  # an iteration may take seconds

    @classmethod
    def of(
        cls, model: Any, objective: Objective, settings: LevenbergMarquardt, backend: str
    ) -> "LeastSquares":
        """The method for models like this one, or an error if least squares does not apply."""
        if objective.squares is None:
            raise must(
                "The objective of 'levenberg-marquardt'",
                "a sum of squares (functions, tables with numeric targets, PDEs)",
                type(objective).__name__,
            )
        network = objective.network_of(model)
        by_row = objective.squares == "by row"
        layout = Layout.of(_prepared(network, None, by_row), objective.n_unknowns)
        if by_row:
            _check_by_row(settings)
            form = "by row"
        elif settings.uses_kernel(layout.n_weights) and not objective.penalized:
            # J Jᵀ has no place for a penalty.
            form = "kernel"
        else:
            form = "normal"
        if form != "kernel":
            check_memory(layout.n_trained)
        jacobian_backend = "dense" if by_row else backend
        return cls(layout, objective, settings, jacobian_backend, form, backend)

    # --- the methods of every method ------------------------------------------------------------

    def start(self, models: Sequence[Any], data: Data, before: State | None = None) -> State:
        count, objective = len(models), self.objective
        first = of_model(data, 0)
        aux = objective.start(first)
        if self.form == "kernel":
            residual_count = sum(term.y.size for term in objective.terms(first, aux))
            check_kernel_memory(min(self.settings.batch, residual_count))
        if before is None:
            models = self._warmed_up(models, data)
        x = first[objective.arrays[0]]
        rows = [self._vector(model, x) for model in models]

        damping, restarts = np.full(count, self.settings.damping), np.zeros(count, int)
        rba = {kind: jnp.broadcast_to(a, (count, *a.shape)).copy() for kind, a in aux.items()}
        if before is not None:
            # Damping and attention do not depend on the grid. A training that has been refined is
            # past the region that restarts are for.
            damping, rba = np.array(before.memory.damping), before.aux
            restarts += self._restarts
        on_batches = self.layout.n_weights if self.form == "kernel" else 0
        memory = Memory(
            damping=damping,
            converged=np.zeros(count, bool),
            first=np.full(count, np.nan),
            restarts=restarts,
            direction=np.zeros((count, on_batches)),
            iterations=np.zeros(count, int),
            failures=np.zeros(count, int),
        )
        return State(jnp.asarray(np.stack(rows)), memory, rba)

    def advance(self, state: State, data: Data, steps: int) -> tuple[State, Curves]:
        count = len(state.weights)
        vectors, memories, attention = [], [], []
        losses = np.empty((steps, count), np.asarray(state.weights).dtype)
        unknowns = np.empty((steps, count, self.layout.n_unknowns), losses.dtype)
        for p in range(count):
            vector = np.array(state.weights[p])
            memory = Memory(*(field[p] for field in state.memory))
            aux = of_model(state.aux, p)
            mine = of_model(data, p)
            settled = False  # whether the loss at the final weights has been recorded
            for i in range(steps):
                if settled:
                    losses[i, p] = losses[i - 1, p]
                else:
                    settled = memory.converged
                    vector, memory, aux, losses[i, p] = self._iterate(vector, memory, aux, mine)
                unknowns[i, p] = self.layout.unknowns(vector)
            vectors.append(vector)
            memories.append(memory)
            attention.append(aux)
        memory = Memory(*(np.stack(field) for field in zip(*memories, strict=True)))
        aux = {kind: jnp.stack([one[kind] for one in attention]) for kind in state.aux}
        return State(jnp.asarray(np.stack(vectors)), memory, aux), Curves(losses, unknowns)

    def models(self, state: State) -> Any:
        return jax.vmap(self.model)(state.weights)

    def route(self, model: Any, data: Data) -> Route:
        if self.form == "by row":
            reason = "the Jacobian is computed row by row in plain JAX"
            return Route("plain", {"one call": reason, "per layer": reason})
        values = kernels.route(self.objective.network_of(model), data[self.objective.arrays[0]])
        return values.without_one_call("the Jacobian is computed layer by layer")

    def converged(self, state: State) -> Bool[np.ndarray, " P"]:
        return np.asarray(state.memory.converged)

    # --- models, vectors and the arrays of their residuals --------------------------------------

    def model(self, vector: Float[ArrayLike, " n"]) -> Any:
        """The model with these weights."""
        row = jnp.asarray(vector)
        return self.objective.model_of(self.layout.network(row), self.layout.unknowns(row))

    def _vector(self, model: Any, x: Array) -> Float[np.ndarray, " n"]:
        network = _prepared(self.objective.network_of(model), x, self.form == "by row")
        return self.layout.vector(network, self.objective.unknowns(model))

    def arrays(self, data: Data, aux: Aux) -> Any:
        """What the weighted residuals are made of: terms, or data and attention weights."""
        if self.form == "by row":
            return data, aux
        return self.objective.terms(data, aux)

    # --- one iteration of one model -------------------------------------------------------------

    def _iterate(
        self, vector: np.ndarray, memory: Memory, aux: Aux, data: Data
    ) -> tuple[np.ndarray, Memory, Aux, float]:
        """The model, what is remembered of it, its attention weights, and the loss before."""
        arrays = self.arrays(data, aux)
        penalty = self.objective.penalty_matrix(self.layout.template, data)
        loss = functools.partial(self._loss, arrays=arrays, penalty=penalty)
        if memory.converged:
            return vector, memory, aux, loss(vector)

        # ---- the step of the system
        before = vector
        theta = before[: self.layout.n_trained].astype(np.float64)
        if self.form == "kernel":
            system = self._kernel_equations(before, memory, arrays)
        else:
            system = self._normal_equations(before, data, aux, penalty)
        step = iterate(system, theta, float(memory.damping), self.settings)
        if isinstance(system, KernelEquations):
            step, carried = system.after(theta, step)
            memory = memory._replace(**carried._asdict())
        vector = np.concatenate([step.theta, before[self.layout.n_trained :]]).astype(before.dtype)
        first = step.loss if np.isnan(memory.first) else float(memory.first)
        memory = memory._replace(damping=step.damping, converged=step.converged, first=first)

        # ---- a restart where iterations make no progress
        may_restart = memory.restarts < self._restarts
        if may_restart and self.settings.makes_no_progress(first, step.loss, loss(vector)):
            model = self.model(vector)
            [warm] = self._warmed_up([model], {name: array[None] for name, array in data.items()})
            memory = memory._replace(restarts=memory.restarts + 1)
            if warm is not model:  # it has a lower loss
                vector = self._vector(warm, data[self.objective.arrays[0]])
                memory = memory._replace(damping=self.settings.damping, converged=False)

        # ---- attention weights of the next iteration
        if aux:
            # By row the residuals are those after the step: stored runs have been trained so.
            at = vector if self.form == "by row" else before
            errors = residuals.errors(self, jnp.asarray(at), arrays)
            aux = self.objective.attention(errors, aux)
        return vector, memory, aux, step.loss

    def _loss(
        self, vector: ArrayLike, arrays: Any, penalty: Float[np.ndarray, "P P"] | None
    ) -> float:
        loss = float(residuals.total_loss(self, jnp.asarray(vector), arrays))
        if penalty is None:
            return loss
        theta = np.asarray(vector, np.float64)[: self.layout.n_trained]
        return loss + float(theta @ penalty @ theta)

    def _normal_equations(
        self,
        vector: np.ndarray,
        data: Data,
        aux: Aux,
        penalty: Float[np.ndarray, "P P"] | None,
    ) -> NormalEquations:
        """Normal equations, with the Jacobian by layer or by row."""
        full, arrays = self._completed(vector), self.arrays(data, aux)

        def normal(theta: np.ndarray) -> Normal:
            if self.form == "by row":
                return normal_equations_by_row(self, full(theta), data, aux)
            equations = normal_equations(self.layout, full(theta), arrays)
            if penalty is None:
                return equations
            loss, gram, gradient = equations
            slope = penalty @ theta
            return Normal(loss + float(theta @ slope), gram + penalty, gradient + slope)

        def loss(theta: np.ndarray) -> float:
            return self._loss(full(theta), arrays, penalty)

        def curvature(theta: np.ndarray, step: np.ndarray) -> np.ndarray:
            along = full(step, constants=0.0)
            bent = residuals.curvature(self, full(theta), along, arrays)
            return _double(bent)[: self.layout.n_trained]

        return NormalEquations(normal, loss, curvature, self.settings.gradient_tolerance)

    def _kernel_equations(
        self, vector: np.ndarray, memory: Memory, terms: tuple[Term, ...]
    ) -> KernelEquations:
        """The system of J Jᵀ, for the batch of residuals whose turn it is."""
        full, dtype, n = self._completed(vector), vector.dtype, self.layout.n_trained

        def values(theta: np.ndarray, batch: Any) -> np.ndarray:
            return _double(residuals.values(self, full(theta), batch))

        def push(theta: np.ndarray, step: np.ndarray, batch: Any) -> np.ndarray:
            direction = full(step, constants=0.0)
            return _double(residuals.push(self, full(theta), direction, batch))

        def pull(theta: np.ndarray, z: np.ndarray, batch: Any) -> np.ndarray:
            cotangent = jnp.asarray(z.astype(dtype))
            return _double(residuals.pull(self, full(theta), cotangent, batch))[:n]

        def second(theta: np.ndarray, step: np.ndarray, batch: Any) -> np.ndarray:
            direction = full(step, constants=0.0)
            return _double(residuals.second(self, full(theta), direction, batch))

        return KernelEquations(
            network=lambda theta: self.layout.network(full(theta)),
            loss=lambda theta: self._loss(full(theta), terms, None),
            values=values,
            push=push,
            pull=pull,
            second=second,
            terms=terms,
            carried=Carried(memory.direction, int(memory.iterations), int(memory.failures)),
            settings=self.settings,
        )

    def _completed(self, vector: np.ndarray) -> Callable[..., Array]:
        """From θ to a vector of the models' type, with the constants behind θ, or with a number."""
        present = vector[self.layout.n_trained :]

        def full(theta: np.ndarray, constants: float | None = None) -> Array:
            rest = present if constants is None else np.full_like(present, constants)
            return jnp.asarray(np.concatenate([theta, rest]).astype(vector.dtype))

        return full

    # --- the warm-up ----------------------------------------------------------------------------

    @property
    def _restarts(self) -> int:
        """How many restarts a model may have.

        By default none by row: PDEs of that kind trained without, and stored runs rely on it.
        """
        if self.settings.restarts is not None:
            return self.settings.restarts
        return 0 if self.form == "by row" else _RESTARTS

    def _warmed_up(self, models: Sequence[Any], data: Data) -> Sequence[Any]:
        """The models after some updates of Adam, or as they were where these do not help."""
        steps, rate = self.settings.warmup, self.settings.rate_of_warmup(self.form == "kernel")
        if steps == 0:
            return models
        adam = Optimizer("adam", rate, {"name": "cosine_decay", "decay_steps": steps})
        backend = self.warm_up_backend

        def method(model: Any) -> Method:
            return FirstOrder.of(model, self.objective, adam, backend)

        population = Population(models, data, self.objective, method)
        before = population.losses(data)
        population.advance(steps)
        better = population.losses(data) < before
        pairs = zip(models, population.models(), better, strict=True)
        return [warm if helps else model for model, warm, helps in pairs]


def _double(values: Array) -> Float[np.ndarray, " n"]:
    return np.asarray(values, np.float64)


def _prepared(network: KAN, x: Array | None, by_row: bool) -> KAN:
    """The network for a Jacobian: with statistics, and by row in plain JAX; x = None: any x."""
    if any(layer.normalized and layer.mean is None for layer in network.layers):
        network = network.freeze(np.zeros((1, network.widths[0])) if x is None else x)
    if not by_row:
        return network
    return KAN.from_layers([dataclasses.replace(y, backend="dense") for y in network.layers])


# ---- limits --------------------------------------------------------------------------------------


def _check_by_row(settings: LevenbergMarquardt) -> None:
    """Refuse settings of the kernel form where the Jacobian is computed by row."""
    default = LevenbergMarquardt()
    for name in ("form", "batch", "momentum"):
        value = getattr(settings, name)
        if value != getattr(default, name) and (name, value) != ("form", "normal"):
            raise UserError(
                f"'{name}' = {value!r} of LevenbergMarquardt does not apply to this PDE: the "
                "Jacobian of transforms, coefficients, pairs of points, resampled points and mixed "
                "or higher derivatives is computed row by row, which has the normal form alone. "
                f"Leave {name!r} out."
            )


def check_memory(n_weights: int, available: float | None = None) -> None:
    """Reject networks whose normal equations do not fit into half of the machine's memory."""
    if available is None:
        available = _half_of_memory()
    # JᵀJ, a buffer, its factor and one temporary, and a block of J with its temporaries.
    needed = 8 * (4 * n_weights**2 + 4 * BLOCK * n_weights)
    if needed <= available:
        return
    fits = int((math.sqrt(BLOCK**2 + available / 8) - BLOCK) / 2)
    raise UserError(
        f"'levenberg-marquardt' needs {needed / 2**30:.3g} GiB for the normal equations of "
        f"{n_weights} weights, but {available / 2**30:.3g} GiB may be used. Networks of up to "
        f"{fits} weights fit: reduce the width or the grid, or use another optimizer."
    )


def check_kernel_memory(n_residuals: int, available: float | None = None) -> None:
    """Reject batches whose kernel does not fit into half of the machine's memory."""
    if available is None:
        available = _half_of_memory()
    needed = 8 * 3 * n_residuals**2  # J Jᵀ, its factor and one temporary
    if needed > available:
        raise UserError(
            f"'levenberg-marquardt' needs {needed / 2**30:.3g} GiB for the kernel of {n_residuals} "
            f"residuals, but {available / 2**30:.3g} GiB may be used. "
            f"Set 'batch' to {int(math.sqrt(available / 24))} or less."
        )


def _half_of_memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
