"""Least-squares training: Jacobians against autodiff, and the method against what it promises."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares as scipy_least_squares

from kandle import KAN, UserError, init
from kandle.ntk._tangents import Directions
from kandle.study._study import OptimizerChoice
from kandle.train import (
    Architecture,
    Classify,
    Fit,
    FitRows,
    LevenbergMarquardt,
    Optimizer,
    Population,
    Term,
    method_of,
    objective,
    shared,
    train,
)
from kandle.train._kernel_form import tangent_kernel
from kandle.train._layout import Layout
from kandle.train._least_squares import LeastSquares, check_kernel_memory, check_memory
from kandle.train._levenberg_marquardt import Normal, NormalEquations, iterate
from kandle.train._normal_equations import jacobian, normal_equations
from kandle.train._weighted_residuals import values

PLAIN = LevenbergMarquardt(warmup=0)
NO_WARMUP = Optimizer("levenberg-marquardt", arguments={"warmup": 0})


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def on_device(problem):
    return {name: jnp.asarray(a) for name, a in problem.arrays("float64").items()}


# --- Jacobian and normal equations ---------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["glorot", "lecun-normalized"])
@pytest.mark.parametrize("options", [{}, {"residual": None, "bias": False}], ids=["full", "bare"])
@pytest.mark.parametrize("kind", ["tiny", "poisson"])
def test_jacobian_and_normal_equations_against_autodiff(kind, options, scheme, small, request):
    problem = request.getfixturevalue(kind)
    shape = Architecture(width=3, depth=1, grid=4, **options)
    model = shape.network(2, 1, init.get(scheme), 0, dtype="float64")
    data = on_device(problem)
    goal = objective(problem, "text", balance=7.0)
    # Attention weights that differ, so that a misplaced one shows.
    attention = {k: 1.0 + jnp.arange(len(a)) / 9 for k, a in goal.start(data).items()}
    method = LeastSquares.of(model, goal, PLAIN, "dense")
    [vector] = method.start([model], shared(data)).weights
    P = method.layout.n_weights

    def residuals(theta):
        network = method.layout.network(jnp.concatenate([theta, vector[P:]]))
        parts = goal.residuals(network, data) if kind == "poisson" else None
        if parts is None:
            return jnp.ravel(network(data["x"]) - data["y"]) / np.sqrt(len(data["x"]))
        weighted = {k: attention[k] * r / np.sqrt(len(r)) for k, r in parts.items()}
        return jnp.concatenate([weighted["pde"], np.sqrt(7.0) * weighted["bc"]])

    r, J = jax.jit(lambda theta: (residuals(theta), jax.jacrev(residuals)(theta)))(vector[:P])
    terms = goal.terms(data, attention)
    rows = jnp.concatenate([jacobian(method.layout, vector, term)[1] for term in terms])
    np.testing.assert_allclose(rows, J, rtol=1e-9, atol=1e-11 * float(jnp.abs(J).max()))
    loss, gram, gradient = normal_equations(method.layout, vector, terms)
    np.testing.assert_allclose(loss, jnp.vdot(r, r), rtol=1e-12)
    np.testing.assert_allclose(gram, J.T @ J, rtol=1e-8, atol=1e-10 * float(jnp.abs(gram).max()))
    np.testing.assert_allclose(gradient, J.T @ r, rtol=1e-8, atol=1e-10 * np.abs(gradient).max())


def test_blocks_do_not_change_the_normal_equations(tiny, small, monkeypatch):
    """48 points in blocks of 48, and of 10, where the last block is padded."""
    model = small.network(2, 1, init.Glorot(), 0, dtype="float64")
    data, layout = on_device(tiny), Layout.of(model)
    terms = Fit().terms(data, {})
    whole = normal_equations(layout, layout.vector(model), terms)
    monkeypatch.setattr("kandle.train._normal_equations.BLOCK", 11)
    cut = normal_equations(layout, layout.vector(model), terms)
    for a, b in zip(whole, cut, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("scheme", ["baseline", "glorot", "lecun-normalized"])
def test_the_vector_of_a_model_gives_the_same_function(tiny, small, scheme):
    x = tiny.arrays("float64")["x"]
    model = small.network(2, 1, init.get(scheme), 3, dtype="float64").freeze(x)
    layout = Layout.of(model)
    again = layout.network(jnp.asarray(layout.vector(model)))
    np.testing.assert_allclose(again(x), model(x), rtol=1e-12, atol=1e-13)
    assert all((np.asarray(layer.c) == 1).all() for layer in again.layers)


def test_weighted_rows_and_several_outputs(small):
    rng = np.random.default_rng(0)
    data = {
        "x": rng.uniform(-1, 1, (20, 2)),
        "y": rng.normal(size=(20, 3)),
        "weight": rng.random(20),
    }
    data = {k: jnp.asarray(v) for k, v in data.items()}
    model = small.network(2, 3, init.Glorot(), 0, dtype="float64")
    layout = Layout.of(model)
    vector = jnp.asarray(layout.vector(model))

    def loss(vector):
        return FitRows().loss(layout.network(vector), data, {}, "dense")[0]

    found = normal_equations(layout, vector, FitRows().terms(data, {}))
    np.testing.assert_allclose(found.loss, loss(vector), rtol=1e-12)
    np.testing.assert_allclose(2 * found.gradient, jax.grad(loss)(vector), rtol=1e-8, atol=1e-12)


# --- the method ----------------------------------------------------------------------------------


def system(residuals):
    """A system from a residual function, by autodiff."""
    J = jax.jacfwd(residuals)

    def normal(theta):
        r, j = np.asarray(residuals(theta)), np.asarray(J(theta))
        return Normal(float(r @ r), j.T @ j, j.T @ r)

    def curvature(theta, step):
        along = lambda t: jax.jvp(residuals, (t,), (jnp.asarray(step),))[1]  # noqa: E731
        second = jax.jvp(along, (jnp.asarray(theta),), (jnp.asarray(step),))[1]
        return np.asarray(J(theta)).T @ np.asarray(second)

    return NormalEquations(normal, lambda t: float(jnp.sum(residuals(t) ** 2)), curvature)


def test_a_linear_problem_is_solved_in_one_step():
    rng = np.random.default_rng(1)
    A, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    theta, *_ = np.linalg.lstsq(A, y, rcond=None)
    found = iterate(system(lambda t: A @ t - y), np.zeros(6), 1e-14, PLAIN)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-10)
    np.testing.assert_allclose(found.loss, y @ y, rtol=1e-12)


def test_one_layer_is_linear_and_solved_in_one_step(tiny):
    """A network without hidden layers is linear in θ: the minimum norm residual of NumPy."""
    shape = Architecture(width=1, depth=0, grid=4)
    data = on_device(tiny)
    model = shape.network(2, 1, init.Glorot(), 0, dtype="float64")
    options = {"warmup": 0, "damping": 1e-13}
    optimizer = Optimizer("levenberg-marquardt", arguments=options)
    method = method_of(optimizer, Fit(), "dense")
    losses = Population([model], shared(data), Fit(), method).advance(3)[:, 0]
    layout = Layout.of(model)
    [term] = Fit().terms(data, {})
    _, J = jacobian(layout, layout.vector(model), term)
    y = np.ravel(data["y"]) / np.sqrt(48)
    best = np.linalg.norm(y - J @ np.linalg.lstsq(np.asarray(J), y, rcond=None)[0]) ** 2
    np.testing.assert_allclose(losses[1:], best, rtol=1e-7)


def test_rosenbrock_is_solved_as_by_scipy():
    rosenbrock = lambda t: jnp.array([10 * (t[1] - t[0] ** 2), 1 - t[0]])  # noqa: E731
    theta, damping, losses = np.array([-1.2, 1.0]), 1e-2, []
    for _ in range(30):
        loss, theta, damping, converged = iterate(system(rosenbrock), theta, damping, PLAIN)
        losses.append(loss)
        if converged:
            break
    wanted = scipy_least_squares(lambda t: np.asarray(rosenbrock(t)), [-1.2, 1.0], method="lm").x
    np.testing.assert_allclose(theta, wanted, atol=1e-6)
    assert all(b <= a for a, b in itertools.pairwise(losses))


def test_a_rank_deficient_problem_is_no_problem():
    """Two equal columns and one of zeros: the damping chooses among the minimizers."""
    rng = np.random.default_rng(2)
    a, y = rng.normal(size=(20, 1)), rng.normal(size=20)
    A = np.concatenate([a, a, np.zeros((20, 1))], axis=1)
    found = iterate(system(lambda t: A @ t - y), np.zeros(3), 1e-10, PLAIN)
    best = np.linalg.lstsq(a, y, rcond=None)[1][0]
    np.testing.assert_allclose(np.sum((A @ found.theta - y) ** 2), best, rtol=1e-8)
    np.testing.assert_allclose(found.theta[2], 0.0, atol=1e-12)


def test_a_step_that_would_increase_the_loss_is_rejected():
    """The linearization of a steep exponential overshoots for small damping."""
    residuals = lambda t: jnp.exp(4 * t) - 1.0  # noqa: E731
    found = iterate(system(residuals), np.array([-2.0]), 1e-16, PLAIN)
    after = float(jnp.sum(residuals(found.theta) ** 2))
    assert after <= found.loss
    assert found.damping > 1e-16


def test_nan_ends_the_iteration_and_leaves_theta():
    theta = np.array([1.0])
    found = iterate(system(lambda t: jnp.log(-t)), theta, 1e-2, PLAIN)
    assert np.isnan(found.loss)
    assert found.converged
    assert found.theta is theta


@pytest.mark.parametrize("kind", ["tiny", "poisson"])
def test_the_loss_never_increases(kind, small, request):
    problem = request.getfixturevalue(kind)
    [result] = train(
        problem, small, [("glorot", 0)], steps=15, optimizer=NO_WARMUP, dtype="float64", curve="all"
    )
    assert (np.diff(result.curve_loss) <= 0).all()
    assert result.loss < 1e-2 * result.curve_loss[0]


# --- in training ---------------------------------------------------------------------------------


def test_a_training_by_name_beats_adam(tiny, small):
    options = {"dtype": "float64", "keep_weights": True}
    [adam] = train(tiny, small, [("glorot", 0)], steps=300, **options)
    seen = []
    [result] = train(
        *(tiny, small, [("glorot", 0)]),
        steps=12,
        optimizer="levenberg-marquardt",
        checkpoints=(0, 12),
        on_checkpoint=lambda step, models: seen.append((step, models[0].model)),
        **options,
    )
    assert result.loss < adam.loss / 100
    assert [step for step, _ in seen] == [0, 12]
    data = on_device(tiny)
    first, last = (float(Fit().loss(model, data, {}, "dense")[0]) for _, model in seen)
    np.testing.assert_allclose(result.curve_loss[0], first, rtol=1e-9)
    assert last <= result.loss
    assert result.status == "ok"


def test_several_models_train_as_alone(tiny, small):
    members = [("glorot", 0), ("lecun-normalized", 1), ("baseline", 2)]
    options = {"steps": 4, "optimizer": NO_WARMUP, "dtype": "float64"}
    together = train(tiny, small, members, **options)
    for member, result in zip(members, together, strict=True):
        [alone] = train(tiny, small, [member], **options)
        np.testing.assert_allclose(result.curve_loss, alone.curve_loss, rtol=1e-9)


def test_float32_stagnates_and_stays_finite(tiny, small):
    options = {"steps": 25, "optimizer": NO_WARMUP, "curve": "all"}
    [single] = train(tiny, small, [("glorot", 0)], **options)
    assert single.status == "ok"
    assert single.curve_loss.dtype == np.float32
    assert single.loss < single.curve_loss[0] / 100
    assert np.isfinite(single.l2)


def test_divergence_is_a_result(tiny, small):
    huge = init.PowerLaw(alpha=-200.0, beta=-200.0)
    options = {"steps": 3, "optimizer": NO_WARMUP, "dtype": "float64"}
    [result] = train(tiny, small, [(huge, 0)], **options)
    assert (result.status, result.diverged_at) == ("diverged", 1)
    assert np.isnan(result.loss)


def test_attention_reweights_the_points(poisson, small):
    options = {"steps": 6, "optimizer": NO_WARMUP, "dtype": "float64"}
    seen = []
    [with_attention] = train(
        *(poisson, small, [("glorot", 0)]),
        rba="text",
        checkpoints=(6,),
        on_checkpoint=lambda step, models: seen.extend(models),
        **options,
    )
    [without] = train(poisson, small, [("glorot", 0)], **options)
    assert with_attention.loss != without.loss
    assert seen[0].rba["pde"].shape == (36,)
    assert (seen[0].rba["pde"] != 1).all()


def test_the_balance_weights_the_conditions(poisson, small):
    model = small.network(2, 1, init.Glorot(), 0, dtype="float64")
    data = on_device(poisson)
    plain, heavy = (objective(poisson, "off", balance=b) for b in (1.0, 50.0))
    r = {k: np.asarray(v) for k, v in plain.residuals(model, data).items()}
    wanted = np.mean(r["pde"] ** 2) + 50 * np.mean(r["bc"] ** 2)
    np.testing.assert_allclose(heavy.loss(model, data, {}, "dense")[0], wanted, rtol=1e-12)


# --- a schedule of grids -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["quiet", "glorot"])
@pytest.mark.parametrize("optimizer", [NO_WARMUP, Optimizer("sgd", 1e-9)], ids=["lm", "sgd"])
def test_refinement_during_training_continues_from_the_same_loss(tiny, small, optimizer, scheme):
    seen = []
    [result] = train(
        *(tiny, small, [(scheme, 0)]),
        steps=5,
        grids=[4, 8],
        optimizer=optimizer,
        dtype="float64",
        curve="all",
        keep_weights=True,
        checkpoints=(0, 5, 10),
        on_checkpoint=lambda step, models: seen.append((step, models[0].model)),
    )
    assert [(step, m.layers[0].basis.grid) for step, m in seen] == [(0, 4), (5, 4), (10, 8)]
    assert result.model is not None
    assert len(result.curve_loss) == 10
    [shares] = result.extra["outside"]
    assert shares[0] == 0
    # Domains are widened where inputs fall outside, so that the function is the same to rounding.
    assert (shares[1] > 0) == (result.model.layers[1].basis.grid > 8)
    loss, _ = Fit().loss(seen[1][1], on_device(tiny), {}, "dense")
    np.testing.assert_allclose(result.curve_loss[5], loss, rtol=1e-8)
    assert result.curve_loss[9] <= result.curve_loss[5]


@pytest.mark.parametrize("grids", [[], [5, 10], [4, 4], [4, 3], [4.0, 8], "4", 4])
def test_bad_schedules_of_grids(tiny, small, grids):
    with pytest.raises(UserError, match="'grids' of train must be increasing integers"):
        train(tiny, small, [("glorot", 0)], steps=1, grids=grids)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"damping": 0.0}, "'damping' of LevenbergMarquardt must be a number above 0"),
        ({"shrink": 1.5}, "'shrink' of LevenbergMarquardt must be .* below 1"),
        ({"grow": 0.5}, "'grow' of LevenbergMarquardt must be a number above 1"),
        ({"warmup": -1}, "'warmup' of LevenbergMarquardt must be an integer"),
        ({"warmup_rate": 0}, "'warmup_rate' of LevenbergMarquardt must be a number above 0"),
        ({"acceleration": 1}, "'acceleration' of LevenbergMarquardt must be True or False"),
        ({"dampening": 1.0}, "Unknown argument of optimizer 'levenberg-marquardt': 'dampening'"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(UserError, match=message):
        Optimizer("levenberg-marquardt", arguments=arguments)


def test_more_weights_than_memory_is_an_error_that_says_what_fits():
    check_memory(1000, available=2**30)
    with pytest.raises(UserError, match=r"up to [0-9]+ weights fit") as caught:
        check_memory(50_000, available=2**30)
    fits = int(str(caught.value).split("up to ")[1].split(" ")[0])
    check_memory(fits, available=2**30)
    with pytest.raises(UserError):
        check_memory(fits + 2, available=2**30)


def test_classification_is_no_sum_of_squares(small):
    model = small.network(2, 2, init.Glorot(), 0, dtype="float64")
    with pytest.raises(UserError, match="must be a sum of squares"):
        method_of(Optimizer("levenberg-marquardt"), Classify(), "dense")(model)


def test_a_study_names_it_as_any_optimizer():
    choice = OptimizerChoice("levenberg-marquardt", 1e-3, "constant", '{"warmup":5}')
    assert choice.build().least_squares == LevenbergMarquardt(warmup=5)


# --- the kernel form -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["glorot", "lecun-normalized"])
@pytest.mark.parametrize("kind", ["tiny", "poisson"])
def test_kernel_form_takes_the_step_of_the_damped_normal_equations(kind, scheme, small, request):
    """On a full batch without momentum: δ = -(JᵀJ + λ s I)⁻¹ Jᵀ ρ, with J from autodiff."""
    problem = request.getfixturevalue(kind)
    model = small.network(2, 1, init.get(scheme), 0, dtype="float64")
    data = on_device(problem)
    settings = LevenbergMarquardt(warmup=0, form="kernel", damping=10.0, acceleration=False)
    method = LeastSquares.of(model, objective(problem, "off"), settings, "dense")
    assert method.form == "kernel"
    state = method.start([model], shared(data))
    [theta] = state.weights

    def residuals(vector):
        return values(method, vector, method.arrays(data, {}))

    rho, J = residuals(theta), jax.jacobian(residuals)(theta)
    after, curves = method.advance(state, shared(data), 1)
    step = np.asarray(after.weights[0] - theta)
    n = method.layout.n_weights
    J = np.asarray(J)[:, :n]
    s = np.mean(np.sum(J * J, axis=1))
    wanted = np.linalg.solve(J.T @ J + 10.0 * s * np.eye(n), -J.T @ np.asarray(rho))
    assert curves.loss[0, 0] == pytest.approx(float(rho @ rho))
    np.testing.assert_allclose(step[:n], wanted, rtol=1e-6, atol=1e-12)
    assert (len(theta) > n) == (scheme == "lecun-normalized")
    np.testing.assert_array_equal(step[n:], 0.0)  # frozen statistics


@pytest.mark.parametrize("residual", [None, "silu"])
def test_kernel_of_several_quantities_equals_that_of_the_jacobian(residual):
    """Two outputs, two terms, one of them with first and second derivatives; weights differ."""
    random = np.random.default_rng(0)
    options = {"grid": 4, "residual": residual, "bias": residual is not None}
    model = KAN([2, 3, 2], init="glorot", key=jax.random.key(0), dtype="float64", **options)
    layout = Layout.of(model)
    vector = jnp.asarray(layout.vector(model))

    def equation(x, u):
        return u.first[0] * u.value + u.second[1] * x[:, :1]

    def term(n, *rest):
        x, weight = random.uniform(-1.2, 1.2, (n, 2)), random.uniform(0, 3, (n, 2))
        return Term(jnp.asarray(x), jnp.zeros((n, 2)), jnp.asarray(weight), *rest)

    terms = [term(5), term(7, equation, Directions((0,), (1,)))]
    J = np.concatenate([np.asarray(jacobian(layout, vector, t)[1]) for t in terms])
    K = np.triu(tangent_kernel(layout.network(vector), terms))
    np.testing.assert_allclose(K, np.triu(J @ J.T), rtol=1e-10, atol=1e-12)


def test_kernel_form_solves_an_interpolation_problem_to_rounding(tiny):
    """More weights than points: undamped, the residuals vanish in a few iterations."""
    arguments = {"form": "kernel", "warmup": 0, "damping": 1e-6}
    optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
    shape = Architecture(width=8, depth=1, grid=8)
    [result] = train(tiny, shape, [("glorot", 0)], optimizer=optimizer, dtype="float64", steps=12)
    assert result.loss < 1e-20


def test_the_warm_up_of_the_kernel_form_is_gentler(tiny, small):
    """At ten times the rate, 20 steps of Adam lower the loss further."""

    def first(**arguments):
        optimizer = Optimizer("levenberg-marquardt", arguments={"warmup": 20, **arguments})
        options = {"optimizer": optimizer, "dtype": "float64", "steps": 1}
        return train(tiny, small, [("glorot", 0)], **options)[0].curve_loss[0]

    assert first(form="kernel") == pytest.approx(first(form="normal", warmup_rate=1e-3))
    assert first(form="normal") == pytest.approx(first(form="kernel", warmup_rate=1e-2))
    assert first(form="normal") < 0.9 * first(form="kernel")


def test_a_kernel_larger_than_memory_is_an_error_that_says_what_fits():
    check_kernel_memory(6000, available=2**30)
    with pytest.raises(UserError, match=r"Set 'batch' to [0-9]+ or less") as caught:
        check_kernel_memory(60_000, available=2**30)
    fits = int(str(caught.value).split("'batch' to ")[1].split(" ")[0])
    check_kernel_memory(fits, available=2**30)
    with pytest.raises(UserError):
        check_kernel_memory(fits + 1, available=2**30)


def test_kernel_form_lowers_the_loss_on_batches(tiny, small):
    """Batches of a third of the points; no accepted step raises the loss over all of them."""
    arguments = {"form": "kernel", "batch": 16, "warmup": 0}
    optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
    [result] = train(tiny, small, [("glorot", 0)], optimizer=optimizer, dtype="float64", steps=30)
    assert (np.diff(result.curve_loss) <= 0).all()
    assert result.curve_loss[-1] < 1e-2 * result.curve_loss[0]


def test_large_networks_train_in_the_kernel_form(tiny):
    """More weights than normal equations are solved for; attention and refinement included."""
    assert LevenbergMarquardt().uses_kernel(6001)
    assert not LevenbergMarquardt().uses_kernel(6000)
    assert not LevenbergMarquardt(form="normal").uses_kernel(10**6)
    arguments = {"form": "kernel", "warmup": 2}
    optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
    options = {"optimizer": optimizer, "dtype": "float64", "steps": 3, "grids": [3, 6]}
    shape = Architecture(width=2, depth=1, grid=3)
    [result] = train(tiny, shape, [("lecun-normalized", 0)], **options)
    assert len(result.curve_loss) == 6
    assert (np.diff(result.curve_loss[:3]) <= 0).all()
    assert result.curve_loss[-1] < result.curve_loss[0]


def test_attention_in_the_kernel_form(poisson, small):
    arguments = {"form": "kernel", "warmup": 0}
    optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
    options = {"optimizer": optimizer, "dtype": "float64", "steps": 4, "rba": "text"}
    weights = []
    [result] = train(
        poisson,
        small,
        [("glorot", 0)],
        checkpoints=[4],
        on_checkpoint=lambda step, models: weights.append(models[0].rba["pde"]),
        **options,
    )
    assert result.curve_loss[-1] < result.curve_loss[0]
    assert weights[0].max() > 1.0
    assert weights[0].std() > 0


# --- restarts ------------------------------------------------------------------------------------


def curve_without_steps(problem, shape, **arguments):
    """A damping that allows no step: only repeated warm-ups lower the loss."""
    arguments = {"damping": 1e11, "warmup": 25, **arguments}
    optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
    options = {"optimizer": optimizer, "dtype": "float64", "steps": 4}
    [result] = train(problem, shape, [("glorot", 0)], **options)
    return result.curve_loss


@pytest.mark.parametrize("kind", ["tiny", "poisson", "diffusion"])
def test_restarts_replace_iterations_without_progress(kind, small, request):
    problem = request.getfixturevalue(kind)
    without, two = (curve_without_steps(problem, small, restarts=n) for n in (0, 2))
    assert without[-1] > 0.99 * without[0]
    assert two[0] == without[0]
    assert two[1] < 0.9 * two[0]
    assert two[2] < 0.9 * two[1]
    assert two[3] > 0.99 * two[2]


def test_by_default_there_are_three_restarts_and_none_where_the_jacobian_is_computed_by_row(
    tiny, diffusion, small
):
    for problem, restarts in ((tiny, 3), (diffusion, 0)):
        default = curve_without_steps(problem, small)
        explicit = curve_without_steps(problem, small, restarts=restarts)
        np.testing.assert_array_equal(default, explicit)
        other = curve_without_steps(problem, small, restarts=3 - restarts)
        assert (default[1:] != other[1:]).all()


@pytest.mark.parametrize(
    ("argument", "value"),
    [("form", "kernel"), ("batch", 100), ("momentum", 0.5)],
)
def test_settings_of_the_kernel_form_are_refused_by_name_where_the_jacobian_is_computed_by_row(
    diffusion, small, argument, value
):
    optimizer = Optimizer("levenberg-marquardt", arguments={"warmup": 0, argument: value})
    options = {"optimizer": optimizer, "dtype": "float64", "steps": 2}
    message = f"'{argument}' = {value!r} of LevenbergMarquardt does not apply to this PDE"
    with pytest.raises(UserError, match=message):
        train(diffusion, small, [("glorot", 0)], **options)


@pytest.mark.parametrize("form", ["auto", "normal"])
def test_forms_that_every_pde_has(diffusion, small, form):
    curves = []
    for arguments in ({}, {"form": form, "batch": 6000, "momentum": 0.9}):
        optimizer = Optimizer("levenberg-marquardt", arguments={"warmup": 0, **arguments})
        options = {"optimizer": optimizer, "dtype": "float64", "steps": 3}
        curves += [train(diffusion, small, [("glorot", 0)], **options)[0].curve_loss]
    np.testing.assert_array_equal(*curves)
    assert curves[0][-1] < 0.9 * curves[0][0]


@pytest.mark.parametrize(
    ("first", "before", "after", "restart"),
    [(1.0, 1.0, 0.96, True), (1.0, 1.0, 0.94, False), (1.0, 0.05, 0.05, False)],
)
def test_a_restart_is_due_where_the_loss_is_poor_and_stays_so(first, before, after, restart):
    assert LevenbergMarquardt().makes_no_progress(first, before, after) == restart
