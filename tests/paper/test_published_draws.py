"""The published points and weights, and the published losses that a training on them reaches."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, init, paper, problems
from kandle.paper import PublishedSampler
from kandle.train import Architecture, train

# Published final losses of runs 2 and 3 on I.12.11, small architecture, 2,000 steps.
PUBLISHED = {
    init.Baseline(): (1.0726e-05, 1.4368e-05),
    init.Glorot(): (1.3039e-05, 2.9270e-05),
    init.PowerLaw(0.25, 1.75): (2.6332e-06, 9.915e-07),
}


def test_trainings_are_the_published_runs_themselves():
    members = [(scheme, 42 + run) for scheme in PUBLISHED for run in (2, 3)]
    shape = Architecture(width=8, depth=2, grid=5)
    problem, sampler = paper.published_draws(problems.get("I.12.11"))
    results = train(problem, shape, members, sampler=sampler)
    losses = [result.loss for result in results]
    # GPUs round otherwise, and Glorot's moments are sampled there and exact here.
    np.testing.assert_allclose(losses, np.ravel(list(PUBLISHED.values())), rtol=0.03)


@pytest.mark.parametrize(
    ("name", "low"), [("f1", -1.0), ("I.18.4", -1 + 1e-6), ("I.6.2b", -1 + 1e-6)]
)
def test_points_are_those_that_old_jax_and_scikit_learn_give(name, low):
    selection = pytest.importorskip("sklearn.model_selection")
    problem = problems.get(name)
    with jax.threefry_partitionable(False):
        x = jax.random.uniform(jax.random.key(42), (5000, problem.n_in), minval=low, maxval=1.0)
    train_x, test_x = selection.train_test_split(np.asarray(x), test_size=0.2, random_state=42)
    found = paper.published(problem).arrays("float32")
    np.testing.assert_array_equal(found["x"], train_x)
    np.testing.assert_array_equal(found["x_test"], test_x)
    np.testing.assert_array_equal(found["y"], problem(train_x).astype(np.float32))


def test_points_near_a_pole_are_moved_away():
    for name in problems.FEYNMAN:
        data = paper.published(problems.get(name)).arrays("float64")
        for x in (data["x"], data["x_test"]):
            assert np.abs(x).min() >= np.float32(1e-6)
            assert x.min() > -1
            assert x.max() < 1


def test_only_the_points_change():
    problem = problems.get("f3")
    changed = paper.published(problem)
    assert changed.name == "f3"
    assert np.isin(changed.arrays()["x"], problem.arrays()["x"]).mean() < 0.01
    np.testing.assert_array_equal(changed.evaluation()[0], problem.evaluation()[0])
    assert paper.published(changed) is changed


@pytest.mark.parametrize(
    "problem",
    [
        problems.get("burgers"),
        problems.Function(lambda x: x, [(-1, 1)], name="own"),
        dataclasses.replace(problems.get("f1"), n_train=100),
        problems.Function(lambda x, y: x - y, [(-1, 1), (-1, 1)], name="f1"),
    ],
    ids=lambda problem: problem.name,
)
def test_problems_that_were_not_published_stay_as_they_are(problem):
    assert paper.published(problem) is problem


def test_own_points_can_be_given():
    x = np.linspace(2, 3, 12)[:, None]
    problem = problems.Function(
        np.square, [(2, 3)], name="own", n_train=10, n_test=2, points=lambda: x
    )
    data = problem.arrays("float64")
    np.testing.assert_array_equal(data["x"], x[:10])
    np.testing.assert_array_equal(data["y_test"], x[10:] ** 2)
    scaled = problem.scaled().arrays("float64")
    np.testing.assert_allclose(scaled["x"], np.linspace(-1, 1, 12)[:10, None], atol=1e-12)
    np.testing.assert_allclose(scaled["y"], data["y"], atol=1e-12)
    wrong = dataclasses.replace(problem, n_test=3)
    with pytest.raises(UserError, match=r"'points' of Function 'own'.*\(13, 1\).*\(12, 1\)"):
        wrong.arrays()


@pytest.mark.parametrize("scheme", [init.Baseline(), init.Glorot(), init.PowerLaw(0.25, 1.75)])
def test_published_draws_initialize_layers_of_one_shape_equally(scheme):
    model = KAN([2, 4, 4, 4, 1], init=scheme, key=jax.random.key(3), sampler=PublishedSampler())
    first, second, third, last = model.layers
    np.testing.assert_array_equal(second.r, third.r)
    np.testing.assert_array_equal(second.b, third.b)
    # Layers of other shapes have numbers of their own.
    for a, b in ((first, second), (second, last)):
        unit_a, unit_b = (np.ravel(x.b)[:8] / scheme.scales(x.n_in, x.n_out, 5)[1] for x in (a, b))
        assert np.abs(unit_a - unit_b).max() > 0.1


@pytest.mark.parametrize(
    ("scheme", "theirs"),
    [
        (init.Baseline(), {"type": "default"}),
        (
            init.PowerLaw(0.25, 1.75),
            {"type": "power", "pow_b1": 1.75, "pow_b2": 1.75, "pow_r1": 0.25, "pow_r2": 0.25},
        ),
    ],
)
@pytest.mark.parametrize("seed", [43, 47])
def test_published_draws_are_the_numbers_of_jaxkan_before_jax_changed_their_order(
    scheme, theirs, seed
):
    JaxKAN = pytest.importorskip("jaxkan.models.KAN").KAN
    from kandle.jaxkan import to_kandle

    settings = {"k": 3, "G": 5, "init_scheme": theirs}
    with jax.threefry_partitionable(False):
        wanted = to_kandle(JaxKAN([2, 4, 4, 1], "spline", settings, seed=seed))
    model = KAN(
        [2, 4, 4, 1], grid=5, init=scheme, key=jax.random.key(seed), sampler=PublishedSampler()
    )
    for a, b in zip(model.layers, wanted.layers, strict=True):
        np.testing.assert_allclose(a.r, b.r, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(a.b, b.b, rtol=1e-5, atol=1e-7)


def test_published_draws_are_the_same_in_double_precision_and_inside_jit():
    def drawn(dtype):
        return (
            KAN([2, 3, 1], key=jax.random.key(43), sampler=PublishedSampler(), dtype=dtype)
            .layers[0]
            .b
        )

    single = drawn(jnp.float32)
    # The scale multiplies inside or outside of one program: the last bit may differ.
    np.testing.assert_allclose(jax.jit(lambda: drawn(jnp.float32))(), single, rtol=2e-7)
    with jax.enable_x64(True):
        double = drawn(jnp.float64)
    assert double.dtype == np.float64
    np.testing.assert_allclose(double, single, rtol=2e-7)


def test_published_draws_refuse_keys_of_another_kind():
    with pytest.raises(UserError, match="one Threefry key"):
        KAN([2, 1], key=jax.random.key(0, impl="rbg"), sampler=PublishedSampler())


def test_any_sampler_can_be_injected():
    """All weights 1 in units of their standard deviation: σ_r and σ_b themselves."""

    class Ones(init.Sampler):
        def normal(self, key, shape, dtype):
            return jnp.ones(shape, dtype)

        uniform = normal

    model = KAN([3, 4, 1], grid=5, init=init.Glorot(), key=jax.random.key(0), sampler=Ones())
    for layer in model.layers:
        sigma_r, sigma_b = init.Glorot().scales(layer.n_in, layer.n_out, 5)
        np.testing.assert_allclose(layer.r, sigma_r, rtol=1e-6)
        np.testing.assert_allclose(layer.b, sigma_b, rtol=1e-6)
