"""Conditions as operators, systems, coefficients, geometries, sampling, scaling: as stated."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, problems
from kandle.nn import Derivatives
from kandle.train import Architecture, Solve, objective, train

BOX = [(0.0, 2.0), (-3.0, 3.0)]
SMALL = Architecture(width=3, depth=1, grid=4)


def start(**options):
    return problems.side("start", BOX, axis=0, at=0.0, value=lambda t, x: np.cos(x), n=5, **options)


def pose(residual=lambda x, d: d["t"] - d["x", "x"], conditions=None, **options):
    options = {"inputs": ("t", "x"), "collocation": (4, 5), "n_evaluation": (4, 5)} | options
    return problems.PDE("heat", residual, BOX, conditions or [start()], **options)


def partial(u, i):
    return lambda z: jax.jacfwd(u)(z)[:, i]


def values(problem, u):
    """The residuals of a problem by group, for a field u(point) given as a JAX function."""

    class Field:
        dtype = jnp.float64

        def __call__(self, x):
            return jax.vmap(u)(x)

        def derivatives(self, x, first, second, further):
            def along(index):
                return jax.vmap(functools.reduce(partial, index, u))(x)

            indices = [*((i,) for i in first), *((i, i) for i in second), *further]
            return Derivatives(self(x), further={index: along(index) for index in indices})

    data = {name: jnp.asarray(array) for name, array in problem.arrays("float64").items()}
    return objective(problem, "off").residuals(Field(), data)


# Most of these problems are about one part of a PDE, and leave out others.
pytestmark = pytest.mark.filterwarnings("ignore:.* its solution is not unique:UserWarning")


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


# --- derivatives are found by tracing -----------------------------------------------------------


def test_derivatives_are_inferred_declared_or_both():
    assert pose().reads == ((0,), (1, 1))
    assert (pose().first, pose().second) == ((0,), (1,))
    mixed = pose(lambda x, d: d["x", "t"] + d[1, 1, 1] + d.second[0])
    assert set(mixed.reads) == {(0, 0), (0, 1), (1, 1, 1)}
    declared = pose(lambda x, d: d["x", "t"], derivatives=[("t", "x"), 0])
    assert declared.reads == ((0, 1), (0,))
    assert set(mixed.scaled().reads) == set(mixed.reads)


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda x, d: d["y"], "Unknown input of a derivative 'y'. Known: t, x"),
        (lambda x, d: d[2], "from 0 to 1"),
        (lambda x, d: np.sin(x[..., 0]) * d.value[..., 0], "must use jax.numpy"),
        (lambda x, d: d["t"] * x[..., 0], r"one number per point.*\(N, N\)"),
        (lambda x, d: d.coefficients["k"] * d["t"], "reads 'k', which is missing"),
        (lambda x, d: None, "one number per point.*no array"),
        (lambda x, d: d["t"] / None, "cannot be evaluated: TypeError"),
    ],
)
def test_wrong_residuals_are_reported_when_posed(residual, message):
    with pytest.raises(UserError, match=message):
        pose(residual)
    with pytest.raises(UserError, match=message):
        pose(conditions=[start(), problems.Condition("c", [[0, 0]], operator=residual)])


def test_a_residual_that_reads_an_undeclared_derivative_is_refused_when_posed():
    with pytest.raises(UserError, match=r"reads d\[x, x\].* input 1 that is not declared"):
        pose(derivatives=["t"])


# --- conditions ---------------------------------------------------------------------------------


def test_residuals_of_all_kinds_of_conditions():
    """Each against the same operator of u = (t² + 1) sin x + t, by hand."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    line = np.stack([np.ones(8), 3 * nodes], axis=-1)
    problem = pose(
        conditions=[
            start(),
            problems.Condition("velocity", start().points, 0.5, operator=lambda x, d: d["t"]),
            problems.side("neumann", BOX, axis=1, at=3.0, operator=lambda x, d: d["x"], n=4),
            problems.side(
                "robin",
                BOX,
                axis=1,
                at=-3.0,
                operator=lambda x, d: d["x"] + 2 * d.value,
                value=lambda t, x: t,
                n=4,
                weight=3.0,
            ),
            problems.periodic("ring", BOX, axis=1, n=4),
            problems.integral("mass", line, 3 * weights, 1.0),
            problems.Condition("sensors", [[1.0, 0.5], [0.5, 1.0]], [1.0, 2.0]),
        ]
    )
    found = values(problem, lambda z: jnp.array([(z[0] ** 2 + 1) * jnp.sin(z[1]) + z[0]]))
    t = np.linspace(0, 2, 4)
    x5 = np.linspace(-3, 3, 5)
    plain = [*(np.sin(x5) - np.cos(x5)), 2 * np.sin(0.5) + 1 - 1, 1.25 * np.sin(1) + 0.5 - 2]
    np.testing.assert_allclose(found["bc"], plain, atol=1e-12)
    np.testing.assert_allclose(found["velocity"], np.full(5, 0.5), atol=1e-12)
    slope = (t**2 + 1) * np.cos(3)
    np.testing.assert_allclose(found["neumann"], slope, atol=1e-12)
    at_left = (t**2 + 1) * np.sin(-3) + t
    np.testing.assert_allclose(found["robin"], slope + 2 * at_left - t, atol=1e-12)
    jump = np.stack([2 * (t**2 + 1) * np.sin(3), 0 * t], axis=-1)
    np.testing.assert_allclose(found["ring"], jump.ravel(), atol=1e-12)
    np.testing.assert_allclose(found["mass"], [6.0 - 1.0], atol=1e-9)
    grid = problem.arrays("float64")["collocation"]
    pde = 2 * grid[:, 0] * np.sin(grid[:, 1]) + 1 + (grid[:, 0] ** 2 + 1) * np.sin(grid[:, 1])
    np.testing.assert_allclose(found["pde"], pde, atol=1e-12)


def test_the_loss_weighs_groups_and_attends_to_each():
    problem = pose(conditions=[start(), problems.Condition("w", [[1, 1]], 2.0, weight=4.0)])
    solve = objective(problem, "off")
    assert isinstance(solve, Solve)
    model = KAN([2, 3, 1], grid=4, key=jax.random.key(0), dtype=jnp.float64)
    data = {name: jnp.asarray(array) for name, array in problem.arrays("float64").items()}
    r = solve.residuals(model, data)
    loss, _ = solve.loss(model, data, {}, "dense")
    wanted = sum(np.mean(np.square(r[name])) * w for name, w in (("pde", 1), ("bc", 1), ("w", 4)))
    np.testing.assert_allclose(loss, wanted, rtol=1e-12)
    attended = objective(problem, "text")
    alpha = attended.start(data)
    assert {name: len(a) for name, a in alpha.items()} == {"pde": 20, "bc": 5, "w": 1}
    _, updated = attended.loss(model, data, alpha, "dense")
    for name, residual in r.items():
        size = np.abs(residual)
        np.testing.assert_allclose(updated[name], 0.999 + 0.01 * size / size.max(), rtol=1e-9)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda: problems.Condition("c", [[0, 4]]), r"Condition 'c' .* outside the domain: \(0.0"),
        (lambda: problems.Condition("c", [[0, 0]], [[1.0, 2.0]]), "must be points .* and values"),
        (lambda: problems.Condition("c", [0, 0]), r"'points' .* \(n, n_in\)"),
        (lambda: problems.Condition("c", [[0, 0]], weight=-1.0), "'weight' .* positive"),
        (lambda: problems.Condition("c", [[0, 0]], operator=3), "'operator' .* function"),
        (lambda: problems.Condition("c", [[0, 0]], partner=[[0, 0, 0]]), "'partner'"),
        (lambda: problems.Condition("c", [[0, 0]], quadrature=[1.0, 2.0]), "'quadrature'"),
        (lambda: problems.Condition("start", [[0, 0]]), "must be unique"),
    ],
)
def test_wrong_conditions(condition, message):
    with pytest.raises(UserError, match=message):
        pose(conditions=[start(), condition()])


def test_a_formula_that_is_nan_at_the_start_is_reported():
    with pytest.raises(UserError, match=r"residual of the PDE is NaN at \(0, -3\) before training"):
        train(
            pose(lambda x, d: jnp.sqrt(-1 - d["t"] ** 2)),
            SMALL,
            [("glorot", 0)],
            steps=2,
            rba="off",
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"residual": lambda x, d: d["t"] - d["x"] / x[:, :1]},
            r"residual .* infinite at \(0, -3\)",
        ),
        ({"transform": lambda x, v: v / x[:, :1]}, r"transform .* infinite at \(0, -3\) before"),
        ({"transform": lambda x, v: v * jnp.log(-x[:, :1])}, r"transform .* is NaN at \(0.66"),
    ],
)
def test_a_formula_with_a_pole_at_a_point_is_reported(options, message):
    with pytest.raises(UserError, match=message):
        train(pose(**options), SMALL, [("glorot", 0)], steps=2)


def test_a_loss_that_overflows_at_the_start_is_a_result():
    """Of a large field the residual may overflow; nothing is wrong with the formula then."""
    problem = pose(lambda x, d: d.value**11, transform=lambda x, v: 1e5 + v)
    [result] = train(problem, SMALL, [("glorot", 0)], steps=2)
    assert result.status == "diverged"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conditions": [3]}, "Each of the 'conditions' of PDE 'heat' must be a Condition. Got 3"),
        ({"conditions": start()}, "'conditions' of PDE 'heat' must be a sequence of Conditions"),
        (
            {"residual": lambda x, d: d.t - d.xx},
            "d has no 't': derivatives are read as .* 't', 'x'",
        ),
    ],
)
def test_what_is_no_condition_and_no_derivative(options, message):
    with pytest.raises(UserError, match=message):
        pose(**options)


def test_a_grid_outside_of_the_geometry():
    with pytest.raises(UserError, match=r"'inside' of PDE 'heat' accepts none of the \(4, 5\) "):
        pose(inside=lambda t, x: x > 5).arrays()


# --- systems, transforms, coefficients ----------------------------------------------------------


def test_a_system_with_several_outputs_has_one_residual_per_equation():
    def residual(x, d):
        u, v = d.outputs
        return jnp.stack([u["t"] - v["x"], v["t"] + u["x"], u.value - v.value], axis=-1)

    both = problems.side("start", BOX, axis=0, at=0.0, value=lambda t, x: (x, 2.0), n=3)
    problem = pose(residual, [both], n_out=2, reference=lambda t, x: (t + 0 * x, x + 0 * t))
    np.testing.assert_array_equal(both.values, [[-3, 2], [0, 2], [3, 2]])
    assert problem.evaluation()[1].shape == (20, 2)
    found = values(problem, lambda z: jnp.array([z[0] * z[1], z[0] + z[1]]))
    t, x = problem.arrays("float64")["collocation"].T
    wanted = np.stack([x - 1, 1 + t, t * x - t - x], axis=-1)
    np.testing.assert_allclose(found["pde"], wanted.ravel(), atol=1e-12)
    [result] = train(problem, SMALL, [("glorot", 0)], steps=3, dtype="float64")
    assert result.status == "ok"


def test_a_transform_makes_conditions_hold_exactly():
    problem = pose(
        transform=lambda x, v: jnp.cos(x[..., 1:]) + x[..., :1] * v, reference=lambda t, x: t + x
    )
    [result] = train(problem, SMALL, [("glorot", 0)], steps=3, dtype="float64", keep_weights=True)
    u = problem.solution(result.model)
    x = np.stack([np.zeros(7), np.linspace(-3, 3, 7)], axis=-1)
    np.testing.assert_allclose(u(x)[:, 0], np.cos(x[:, 1]), rtol=1e-12)
    points, exact = problem.evaluation()
    wanted = np.linalg.norm(u(points) - exact) / np.linalg.norm(exact)
    assert result.l2 == pytest.approx(wanted, rel=1e-9)
    with pytest.raises(UserError, match="'transform' of PDE 'heat' must be a function"):
        pose(transform=lambda x, v: v[..., 0])


@pytest.mark.parametrize(
    ("bounds", "initial"),
    [((-np.inf, np.inf), -2.0), ((1.0, np.inf), 3.0), ((-np.inf, 1.0), -3.0), ((0.0, 4.0), 1.0)],
)
def test_coefficients_respect_their_bounds(bounds, initial):
    c = problems.Coefficient(initial, bounds)
    assert float(c.value(c.theta)) == pytest.approx(initial)
    span = np.asarray(c.value(np.linspace(-20, 20, 41)))
    assert (span > bounds[0]).all()
    assert (span < bounds[1]).all()
    with pytest.raises(UserError, match="'initial' of Coefficient"):
        problems.Coefficient(5.0, (0.0, 4.0))


# The last network has so many weights that Kandle's own Adam trains it.
@pytest.mark.parametrize(
    ("optimizer", "shape"),
    [
        ("adam", Architecture(width=1, depth=0, grid=4)),
        ("levenberg-marquardt", Architecture(width=1, depth=0, grid=4)),
        ("adam", Architecture(width=52, depth=2, grid=4)),
    ],
)
def test_coefficients_are_trained_and_recorded(optimizer, shape):
    """k of u_t = k u from u = e^{-2t}; the first entry is the value after one update."""
    points = np.linspace(0, 1, 11)[:, None]
    problem = problems.PDE(
        "decay",
        lambda t, d: d["t"] - d.coefficients["k"] * d.value,
        [(0.0, 1.0)],
        [problems.Condition("data", points, np.exp(-2 * points))],
        inputs=("t",),
        coefficients={"k": -1.0},
        collocation=(16,),
    )
    steps = 40 if optimizer == "adam" else 15
    [result] = train(
        problem,
        shape,
        [("glorot", 0)],
        optimizer={"name": optimizer, "learning_rate": 0.01} if optimizer == "adam" else optimizer,
        steps=steps,
        dtype="float64",
    )
    path = result.curve_coefficients["k"]
    assert path.shape == (steps,)
    assert path[-1] == result.coefficients["k"]
    if optimizer == "adam":
        assert path[0] == pytest.approx(-1.01, abs=1e-6) or path[0] == pytest.approx(
            -0.99, abs=1e-6
        )
    else:
        assert path[-1] == pytest.approx(-2.0, abs=1e-3)


def test_least_squares_takes_every_kind_of_group():
    """Rows of the general Jacobian against autodiff of the whole loss: both minimize alike."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    line = np.stack([np.ones(4), 3 * nodes], axis=-1)
    problem = pose(
        lambda x, d: d["t"] - d.coefficients["k"] * d["x", "x"] + 0.1 * d["t", "x"],
        [
            start(),
            problems.periodic("ring", BOX, axis=1, n=4),
            problems.integral("mass", line, 3 * weights, 1.0, weight=2.0),
        ],
        coefficients={"k": problems.Coefficient(1.0, (0.0, np.inf))},
        resample=problems.Resample(every=2),
        transform=lambda x, v: v + x[..., :1],
    )
    [result] = train(
        problem.scaled(),
        SMALL,
        [("glorot", 0)],
        optimizer="levenberg-marquardt",
        steps=6,
        dtype="float64",
        rba="text",
    )
    assert result.status == "ok"
    # New points have other residuals, larger ones by design; between two draws the loss falls. The
    # attention weights grow by less than 1 % per step.
    loss = result.curve_loss.reshape(3, 2)
    assert (loss[:, 1] < loss[:, 0]).all()
    assert loss[-1, -1] < 0.1 * loss[0, 0]
    # Fixed points without attention are one objective, which each accepted step lowers.
    [result] = train(
        dataclasses.replace(problem, resample=None).scaled(),
        SMALL,
        [("glorot", 0)],
        optimizer="levenberg-marquardt",
        steps=4,
        dtype="float64",
        rba="off",
    )
    assert result.curve_loss[-1] < 0.5 * result.curve_loss[0]


# --- domains and sampling -----------------------------------------------------------------------


def test_a_scaled_problem_is_the_same_problem():
    problem = pose(
        lambda x, d: x[:, 0] * d["t"][:, 0] - d["x", "x"][:, 0] + d["t", "x"][:, 0],
        [start(), problems.side("flux", BOX, axis=1, at=3.0, operator=lambda x, d: d["x"], n=4)],
        transform=lambda x, v: x[..., :1] * v,
        reference=lambda t, x: t * x,
    )
    scaled = problem.scaled()
    assert scaled.domain == ((-1.0, 1.0), (-1.0, 1.0))
    assert np.abs(scaled.arrays()["collocation"]).max() == 1
    u = lambda z: jnp.array([jnp.sin(z[0]) * z[1] ** 3])  # noqa: E731
    found = values(problem, u)
    in_units = values(scaled, lambda z: u(jnp.array([1 + z[0], 3 * z[1]])))
    for name, r in found.items():
        np.testing.assert_allclose(in_units[name], r, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(scaled.evaluation()[1], problem.evaluation()[1], atol=1e-12)
    model = KAN([2, 3, 1], grid=4, key=jax.random.key(0), dtype=jnp.float64)
    x = np.array([[2.0, -3.0]])
    by_hand = 2.0 * np.asarray(model(np.array([[1.0, -1.0]])))
    np.testing.assert_allclose(scaled.solution(model)(x), by_hand, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "latin-hypercube", "sobol"])
def test_sampling_strategies(strategy):
    drawn = problems.Points(strategy, 32).draw("name", BOX)
    assert drawn.shape == (32, 2)
    assert (drawn >= [0, -3]).all()
    assert (drawn <= [2, 3]).all()
    np.testing.assert_array_equal(drawn, problems.Points(strategy, 32).draw("name", BOX))
    assert not np.array_equal(drawn, problems.Points(strategy, 32).draw("other", BOX))
    cells = np.floor((drawn - [0, -3]) / [2, 6] * 32).astype(int)
    if strategy != "uniform":  # one point in each of 32 slices of every input
        assert all(len(set(column)) == 32 for column in cells.T)


def test_points_and_evaluation_stay_inside_a_geometry():
    inside = lambda t, x: (t - 1) ** 2 + (x / 3) ** 2 <= 1  # noqa: E731
    for collocation in ((20, 20), problems.Points("sobol", 50)):
        problem = pose(inside=inside, collocation=collocation, reference=lambda t, x: t + x)
        x = problem.arrays("float64")["collocation"]
        assert inside(*x.T).all()
        assert len(x) == 50 if isinstance(collocation, problems.Points) else 200 < len(x) < 400
        points, u = problem.evaluation()
        assert inside(*points.T).all()
        np.testing.assert_allclose(u[:, 0], points.sum(axis=1))
    own = pose(collocation=lambda: np.array([[1.0, 0.0], [0.5, 2.0]]))
    assert own.arrays()["collocation"].tolist() == [[1.0, 0.0], [0.5, 2.0]]
    with pytest.raises(UserError, match=r"'collocation' .* finite points \(N, 2\)"):
        pose(collocation=np.zeros((3, 3))).arrays()
    with pytest.raises(UserError, match="accepts 0 of"):
        pose(inside=lambda t, x: t > 5, collocation=problems.Points("uniform", 5)).arrays()
    with pytest.raises(UserError, match=r"Unknown sampling strategy 'sobel'. Did you mean 'sobol'"):
        problems.Points("sobel", 4)


def test_resampling_prefers_large_residuals():
    resample = problems.Resample(k=2.0, c=0.0)
    residual = np.where(np.arange(1000) < 100, 10.0, 0.1)
    chosen = resample.choose("name", residual, 50)
    assert len(set(chosen)) == 50
    assert (chosen < 100).mean() > 0.9
    even = problems.Resample(k=0.0, c=1.0).choose("name", residual, 500)
    assert 0.05 < (even < 100).mean() < 0.15


def test_resampling_changes_the_training_and_each_model_alone():
    problem = pose(collocation=problems.Points("uniform", 20), resample=problems.Resample(every=2))
    members = [("glorot", 0), ("glorot", 1)]
    both = train(problem, SMALL, members, steps=5, dtype="float64", backend="dense")
    [alone] = train(problem, SMALL, members[1:], steps=5, dtype="float64", backend="dense")
    fixed = pose(collocation=problems.Points("uniform", 20))
    [other] = train(fixed, SMALL, members[1:], steps=5, dtype="float64", backend="dense")
    np.testing.assert_allclose(both[1].curve_loss, alone.curve_loss, rtol=1e-12)
    np.testing.assert_allclose(alone.curve_loss[:2], other.curve_loss[:2], rtol=1e-12)
    assert not np.allclose(alone.curve_loss[2:], other.curve_loss[2:], rtol=1e-3)
    with pytest.raises(UserError, match="give 'collocation' as Points"):
        pose(collocation=np.zeros((3, 2)), resample=problems.Resample())
