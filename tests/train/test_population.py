"""Models that train together, and are looked at, discarded and trained on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN
from kandle.tabular._objective import PenalizedRows
from kandle.train import (
    Fit,
    FitRows,
    Optimizer,
    Population,
    Whole,
    method_of,
    objective,
    predict,
    run,
    shared,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def networks(count=3, grid=3):
    return [
        KAN([2, 3, 1], grid=grid, init="glorot", key=jax.random.key(i), dtype="float64")
        for i in range(count)
    ]


def least_squares(**arguments):
    return Optimizer("levenberg-marquardt", arguments={"warmup": 0, **arguments})


def arrays_of(problem, goal):
    data = problem.arrays("float64")
    return {name: data[name] for name in goal.arrays}


def test_a_population_is_evaluated_on_other_data_as_each_model_by_itself():
    data, other = ({"x": RNG.uniform(-1, 1, (n, 2)), "y": RNG.normal(size=(n, 1))} for n in (20, 7))
    method = method_of(Optimizer(), Fit(), "dense")
    models = networks()
    population = Population(models, shared(data), Fit(), method)
    population.advance(5)
    found = population.losses(shared(other))
    for model, loss in zip(population.models(), found, strict=True):
        error = predict(model, other["x"]) - other["y"]
        assert np.mean(error**2) == pytest.approx(float(loss), rel=1e-12)
    population.keep([2, 0])
    np.testing.assert_allclose(population.losses(shared(other)), found[[2, 0]], rtol=1e-12)
    # Looking on changes nothing.
    alone = Population(models[:1], shared(data), Fit(), method)
    alone.advance(8)
    population.keep([1])
    population.advance(3)
    losses = population.losses(shared(other))
    np.testing.assert_allclose(losses, alone.losses(shared(other)), rtol=1e-12)


# ---- discarding ----------------------------------------------------------------------------------

# Each as (problem, optimizer, variant of attention).
CASES = {
    "adam": ("tiny", Optimizer("adam", 1e-2), "off"),
    "adam with attention": ("poisson", Optimizer("adam", 1e-2), "published"),
    "adam with coefficients": ("diffusion", Optimizer("adam", 1e-2), "off"),
    "normal": ("tiny", least_squares(), "off"),
    "normal with attention": ("poisson", least_squares(), "text"),
    # A damping that allows no step: each iteration but the third one is a restart.
    "normal with restarts": ("tiny", least_squares(damping=1e11, warmup=5, restarts=3), "off"),
    "kernel": ("tiny", least_squares(form="kernel"), "off"),
    "kernel on batches": ("tiny", least_squares(form="kernel", batch=16), "off"),
    "by row": ("diffusion", least_squares(), "off"),
    "by row with attention": ("diffusion", least_squares(), "text"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_models_that_are_kept_train_on_as_each_would_alone(case, request):
    name, optimizer, attention = CASES[case]
    problem = request.getfixturevalue(name)
    goal = objective(problem, attention)
    data = shared(arrays_of(problem, goal))
    method = method_of(optimizer, goal, "dense")

    def population(rows):
        models = [goal.model_of(network) for network in networks()]
        return Population([models[p] for p in rows], data, goal, method)

    together = population([0, 1, 2])
    before = together.advance(2)
    together.keep([2, 1])
    losses = np.concatenate([before[:, [2, 1]], together.advance(3)])
    assert len(together) == 2
    assert (losses[0] != losses[-1]).all()
    for p, model in enumerate((2, 1)):
        alone = population([model])
        np.testing.assert_allclose(losses[:, p], alone.advance(5)[:, 0], rtol=1e-12)
        for kind, alpha in together.state.aux.items():
            np.testing.assert_allclose(alpha[p], alone.state.aux[kind][0], rtol=1e-12)
        pairs = zip(
            *(jax.tree.leaves(m) for m in (together.models()[p], alone.models()[0])), strict=True
        )
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_models_that_are_discarded_before_training_explain_nothing():
    """The objective is asked about the model whose loss is no number, and no other."""
    asked = []

    class Asked(Fit):
        def explain_nan(self, model, data):
            asked.append(model)

    models, goal = networks(), Asked()
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, models[2])
    data = {"x": RNG.uniform(-1, 1, (5, 2)), "y": RNG.normal(size=(5, 1))}
    method = method_of(Optimizer(), goal, "dense")
    population = Population([*models[:2], broken], shared(data), goal, method)
    population.keep([1, 2])
    population.advance(1)
    assert [model is broken for model in asked] == [True]


def test_the_shares_outside_of_the_domain_are_those_of_the_models_that_are_kept(tiny):
    data = shared(tiny.arrays("float64"))
    method = method_of(Optimizer("sgd", 1e-3), Fit(), "dense")
    models = networks()
    # Hidden values of the last model leave the domain.
    models[2] = jax.tree.map(lambda leaf: 3 * leaf, models[2])
    population = Population(models, data, Fit(), method)
    run([population], Whole(data, "x"), 1, grids=(3, 6))
    [shares] = population.outside
    assert shares[2] != shares[0]
    population.keep([2, 0])
    assert population.outside == [[shares[2], shares[0]]]


# ---- data of their own ---------------------------------------------------------------------------

ROWS = {
    "x": RNG.uniform(-1, 1, (3, 15, 2)),
    "y": RNG.normal(size=(3, 15, 1)),
    "weight": RNG.random((3, 15)) / 15,
    "penalty": RNG.random((3, 2)) / 10,
}
OWN = {
    "weights": (FitRows(), ["weight"]),
    "rows": (FitRows(), ["x", "y"]),
    "penalties": (PenalizedRows("values"), ["penalty"]),
    "penalties and weights": (PenalizedRows("values"), ["penalty", "weight"]),
}
METHODS = {
    "adam": Optimizer("adam", 1e-2),
    "normal": least_squares(),
    "kernel": least_squares(form="kernel", batch=8),
    "warmed up": least_squares(warmup=4),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("own", OWN)
def test_models_with_data_of_their_own_train_as_each_would_alone(own, name):
    goal, names = OWN[own]
    method = method_of(METHODS[name], goal, "dense")
    common = {key: ROWS[key][0] for key in goal.arrays if key not in names}
    private = {key: jnp.asarray(ROWS[key]) for key in names}
    together = Population(networks(), shared(common), goal, method, private)
    before = together.advance(2)
    together.keep([2, 0])
    losses = np.concatenate([before[:, [2, 0]], together.advance(3)])
    for p, model in enumerate((2, 0)):
        mine = shared({**common, **{key: ROWS[key][model] for key in names}})
        alone = Population([networks()[model]], mine, goal, method)
        np.testing.assert_allclose(losses[:, p], alone.advance(5)[:, 0], rtol=1e-10)
    # Equal data would be another training.
    assert not np.isclose(losses[-1, 1], _losses_on_the_data_of(2, goal, names, method)[-1])


def _losses_on_the_data_of(model, goal, names, method):
    common = {key: ROWS[key][0] for key in goal.arrays if key not in names}
    data = shared({**common, **{key: ROWS[key][model] for key in names}})
    return Population([networks()[0]], data, goal, method).advance(5)[:, 0]


@pytest.mark.parametrize("name", ["adam", "normal"])
@pytest.mark.parametrize("kind", ["poisson", "diffusion"])
def test_models_with_points_of_their_own_train_as_each_would_alone(kind, name, request):
    problem = request.getfixturevalue(kind)
    goal = objective(problem, "off")
    method, common = method_of(METHODS[name], goal, "dense"), arrays_of(problem, goal)
    points = np.stack([common["collocation"] * factor for factor in (1.0, 0.9, 0.8)])
    models = [goal.model_of(network) for network in networks()]
    private = {"collocation": jnp.asarray(points)}
    losses = Population(models, shared(common), goal, method, private).advance(4)
    for p, model in enumerate(models):
        data = shared({**common, "collocation": points[p]})
        alone = Population([model], data, goal, method).advance(4)[:, 0]
        np.testing.assert_allclose(losses[:, p], alone, rtol=1e-10)


def test_a_penalty_of_its_own_is_part_of_a_models_loss():
    """By its formula: what is added to the loss is θᵀ Ω θ, model by model."""
    goal = PenalizedRows("values")
    rows = {name: ROWS[name][0] for name in ("x", "y", "weight")}
    private = {"penalty": jnp.asarray(ROWS["penalty"])}
    for optimizer in METHODS.values():
        if optimizer.arguments.get("warmup"):
            continue
        method = method_of(optimizer, goal, "dense")
        found = Population(networks(), shared(rows), goal, method, private).advance(1)[0]
        for p, model in enumerate(networks()):
            error = np.asarray(model(rows["x"]) - rows["y"])[:, 0]
            wanted = rows["weight"] @ error**2
            smoothness, decay = ROWS["penalty"][p]
            for layer in model.layers:
                b = np.asarray(layer.c)[..., None] * np.asarray(layer.b)
                wanted += decay * (np.sum(b**2) + np.sum(np.asarray(layer.r) ** 2))
                wanted += smoothness * np.sum(_curvatures(layer.basis, b))
            assert found[p] == pytest.approx(wanted, rel=1e-6)


def _curvatures(basis, b):
    """∫ φ''² of every edge, by the midpoint rule."""
    lo, hi = basis.domain
    x = np.linspace(lo, hi, 6001)
    middle = (x[1:] + x[:-1]) / 2
    second = np.einsum("oim,nm->oin", b, np.asarray(basis.values(middle, order=2)))
    return np.mean(second**2, axis=-1) * (hi - lo)


# ---- convergence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tiny", "poisson", "diffusion"])
def test_converged_says_what_happened(kind, request):
    """Training ends after a step that lowers the loss by less than 1 %, and not before."""
    problem = request.getfixturevalue(kind)
    goal = objective(problem, "off")
    data, models = shared(arrays_of(problem, goal)), [goal.model_of(n) for n in networks(1)]
    method = method_of(least_squares(step_tolerance=0.01, restarts=0), goal, "dense")
    population = Population(models, data, goal, method)
    assert not population.converged
    losses = [population.losses(data)[0]]
    while not population.converged:
        assert population.steps < 100
        population.advance(1)
        losses.append(population.losses(data)[0])
    falls = 1 - np.array(losses[1:]) / losses[:-1]
    assert len(falls) > 1
    assert (falls[:-1] >= 0.01).all()
    assert 0 < falls[-1] < 0.01
    # It has stopped: further updates change nothing.
    before = population.models()
    np.testing.assert_allclose(population.advance(3), losses[-1], rtol=1e-12)
    for a, b in zip(*map(jax.tree.leaves, (before, population.models())), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_population_has_converged_when_all_models_have(tiny):
    """One of the two cannot improve: its gradient is zero."""
    solved = networks(1)[0]
    data = {"x": ROWS["x"][0], "y": np.asarray(solved(ROWS["x"][0]))}
    method = method_of(least_squares(), Fit(), "dense")
    population = Population([solved, networks(2)[1]], shared(data), Fit(), method)
    population.advance(1)
    np.testing.assert_array_equal(population.method.converged(population.state), [True, False])
    assert not population.converged
    population.keep([0])
    assert population.converged


@pytest.mark.parametrize("kind", ["tiny", "diffusion"])
def test_losses_after_convergence_do_not_depend_on_how_updates_are_asked_for(kind, request):
    problem = request.getfixturevalue(kind)
    goal = objective(problem, "off")
    data, models = shared(arrays_of(problem, goal)), [goal.model_of(n) for n in networks(1)]
    method = method_of(least_squares(step_tolerance=0.9, restarts=0), goal, "dense")
    # In one call and one by one: `Population.advance` cuts as the machine's speed has it.
    state, start = (method(models[0]).start(models, data) for _ in range(2))
    one_by_one = []
    for _ in range(12):
        state, curves = method(models[0]).advance(state, data, 1)
        one_by_one.append(curves.loss[0])
    _, curves = method(models[0]).advance(start, data, 12)
    np.testing.assert_array_equal(curves.loss, one_by_one)
