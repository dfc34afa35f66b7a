"""Optimizers and schedules by name, and Optax transformations as they are."""

import inspect
import json
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from kandle import UserError
from kandle.problems import get as get_problem
from kandle.train import OPTIMIZERS, SCHEDULES, Architecture, Optimizer, trace_count, train
from kandle.train._contrib import by_array

EXPONENTIAL = {"name": "exponential", "factor": 0.9, "every": 50}


@pytest.mark.parametrize(
    "optimizer",
    [
        Optimizer(),
        Optimizer("sgd", 0.1, arguments={"momentum": 0.9, "nesterov": True}),
        Optimizer("adamw", 1e-2, {"name": "cosine_decay", "decay_steps": 10}),
        Optimizer(schedule=EXPONENTIAL),
        Optimizer("lbfgs", arguments={"memory_size": 5}),
    ],
)
def test_dict_round_trip_is_the_identity(optimizer):
    again = Optimizer(**optimizer.to_dict())
    assert again == optimizer
    assert hash(again) == hash(optimizer)
    assert again.to_dict() == optimizer.to_dict()


@pytest.mark.filterwarnings("ignore")  # Optax deprecates some names
def test_all_of_optax_is_there_by_name():
    assert {"adam", "adamw", "sgd", "lbfgs", "nadam", "polyak_sgd"} <= OPTIMIZERS.keys()
    for name in dir(optax):
        value = getattr(optax, name)
        if isinstance(getattr(value, "func", value), types.FunctionType) and name[0] != "_":
            rates = {"learning_rate", "max_learning_rate"} & set(
                inspect.signature(value).parameters
            )
            assert (name in OPTIMIZERS) == bool(rates and not name.startswith("scale_by_")), name
        if name.endswith("_schedule") and name not in ("scale_by_schedule", "sgdr_schedule"):
            assert name.removesuffix("_schedule") in SCHEDULES


@pytest.mark.filterwarnings("ignore")  # Optax deprecates some names
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_makes_an_update(name):
    Optimizer(name).try_out()


def test_muon_orthogonalizes_the_maps_of_every_layer():
    """Without momentum an update is rate · UVᵀ of the gradient, up to Newton-Schulz's accuracy."""
    names, shapes = [".layers[0].r", ".layers[0].c", ".layers[0].b"], [(3, 2), (3, 2), (3, 2, 4)]
    settings = {"beta": 0.0, "nesterov": False, "ns_steps": 12}
    rate = 0.1
    arguments = {**settings, "ns_coeffs": [2.0, -1.5, 0.5]}
    built = Optimizer("muon", rate, arguments=arguments).build()
    transformation = by_array(built, names, shapes)
    gradient = np.random.default_rng(0).normal(size=36).astype(np.float32)
    state = transformation.init(jnp.zeros(36))
    update, _ = transformation.update(jnp.asarray(gradient), state, jnp.zeros(36))
    for begin, end in ((0, 6), (12, 36)):
        u, _, vt = np.linalg.svd(gradient[begin:end].reshape(3, -1), full_matrices=False)
        got = np.asarray(update[begin:end]).reshape(3, -1)
        cosine = np.sum(got * -(u @ vt)) / np.linalg.norm(got) / np.linalg.norm(u @ vt)
        assert cosine > 0.999
    # The scales c are updated by Adam: the first step has the size of the rate everywhere.
    np.testing.assert_allclose(np.abs(update[6:12]), rate, rtol=1e-3)


def test_arguments_of_muon_are_tried_on_a_matrix():
    with pytest.raises(UserError, match="of optimizer 'muon' do not work"):
        Optimizer("muon", arguments={"ns_steps": "five"}).try_out()


def test_muon_differs_from_adamw_and_learns():
    shape = Architecture(width=3, depth=1, grid=3)
    options = {"steps": 60, "curve": "all"}
    muon, adamw = (
        train("f1", shape, [("glorot", 0)], optimizer=Optimizer(name, 1e-2), **options)[0]
        for name in ("muon", "adamw")
    )
    assert muon.curve_loss[-1] < 0.5 * muon.curve_loss[0]
    assert not np.allclose(muon.curve_loss, adamw.curve_loss, rtol=1e-2)


def test_a_schedule_free_method_returns_its_average():
    shape = Architecture(width=3, depth=1, grid=3)
    named = Optimizer("schedule_free_sgd", 0.05)
    given = optax.contrib.schedule_free_sgd(0.05)
    results = [
        train("f1", shape, [("glorot", 0)], optimizer=o, steps=30, keep_weights=True)[0]
        for o in (named, given)
    ]
    last = []
    train(
        *("f1", shape, [("glorot", 0)]),
        optimizer=named,
        steps=30,
        checkpoints=[30],
        on_checkpoint=lambda step, models: last.extend(models),
    )
    problem = get_problem("f1")
    x, y = (problem.arrays("float32")[name] for name in ("x", "y"))
    for result in (*results, last[0]):
        loss = float(np.mean((np.asarray(result.model(x)) - y) ** 2))
        # The average is not where the last gradient was taken.
        assert abs(loss / results[0].loss - 1) > 1e-3
    for a, b in zip(*(jax.tree.leaves(r.model) for r in results), strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_of_a_piecewise_schedule_survive_a_file():
    first = Optimizer(schedule={"name": "piecewise_constant", "boundaries_and_scales": {5: 0.1}})
    again = Optimizer(**json.loads(json.dumps(first.to_dict())))
    assert again == first
    rate = again.rate()
    assert callable(rate)
    np.testing.assert_allclose([rate(4), rate(6)], [1e-3, 1e-4], rtol=1e-6)


@pytest.mark.parametrize("given", ["sgd", {"name": "sgd", "learning_rate": 0.01}])
def test_a_training_takes_an_optimizer_by_its_name(given):
    shape = Architecture(width=2, depth=1, grid=3)
    optimizer = Optimizer(given) if isinstance(given, str) else Optimizer(**given)
    [one] = train("f1", shape, [("glorot", 0)], steps=3, optimizer=given)
    [other] = train("f1", shape, [("glorot", 0)], steps=3, optimizer=optimizer)
    assert one.loss == other.loss
    with pytest.raises(UserError, match="field of Optimizer 'rate'"):
        train("f1", shape, [("glorot", 0)], steps=3, optimizer={"rate": 1})


def test_a_training_takes_any_optax_transformation():
    shape = Architecture(width=2, depth=1, grid=3)
    options = {"steps": 5, "dtype": "float64", "curve": "all"}
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.01))
    plain = optax.sgd(0.01)
    named, given, clipped = (
        train("f1", shape, [("glorot", 0)], optimizer=optimizer, **options)[0]
        for optimizer in (Optimizer("sgd", 0.01), plain, chain)
    )
    np.testing.assert_array_equal(given.curve_loss, named.curve_loss)
    assert clipped.curve_loss[-1] < clipped.curve_loss[0]

    before = trace_count()
    train("f3", shape, [("glorot", 1)], optimizer=plain, **options)
    assert trace_count() == before, "the same transformation must reuse its compiled program"


def test_a_transformation_that_does_not_work_is_an_error_before_the_training():
    broken = optax.GradientTransformation(lambda w: (), lambda g, s, p=None: 1 / 0)
    with pytest.raises(UserError, match="transformation given as 'optimizer' does not work"):
        train("f1", Architecture(2, 1, 3), [("glorot", 0)], steps=1, optimizer=broken)


@pytest.mark.parametrize(("factor", "every"), [(0.9, 50), (0.85, 100)])
def test_the_papers_decays_are_continuous(factor, every):
    rate = Optimizer(schedule={"name": "exponential", "factor": factor, "every": every}).rate()
    assert callable(rate)
    for step in (0, 1, every // 2, every, 3 * every + 7):
        np.testing.assert_allclose(rate(step), 1e-3 * factor ** (step / every), rtol=1e-6)
    same = optax.exponential_decay(1e-3, every, factor, staircase=False)
    np.testing.assert_allclose(rate(jnp.int32(77)), same(77), rtol=1e-6)


def test_a_schedule_starts_or_peaks_at_the_learning_rate():
    warm = {"name": "warmup_cosine_decay", "init_value": 0.0, "warmup_steps": 5, "decay_steps": 20}
    rate = Optimizer(learning_rate=0.3, schedule=warm).rate()
    assert callable(rate)
    np.testing.assert_allclose([rate(0), rate(5)], [0.0, 0.3], atol=1e-7)
    linear = {"name": "linear", "end_value": 0.0, "transition_steps": 10}
    rate = Optimizer(learning_rate=0.3, schedule=linear).rate()
    assert callable(rate)
    np.testing.assert_allclose([rate(0), rate(5), rate(10)], [0.3, 0.15, 0.0], atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"schedule": {"name": "exponential", "factor": -0.9, "every": 5}},
            "'factor' and 'every' must be above 0",
        ),
        (
            {"schedule": {"name": "exponential", "factor": "a", "every": 5}},
            "schedule 'exponential' do not work",
        ),
        ({"schedule": 3}, "'schedule' of Optimizer must be a name or a mapping"),
        ({"schedule": {"name": ["a"]}}, "Unknown schedule"),
        ({"name": "lbfgs", "schedule": "nonsense"}, "Unknown schedule 'nonsense'"),
        ({"name": "adamm"}, "Unknown optimizer 'adamm'. Did you mean 'adam'"),
        ({"learning_rate": 0.0}, "'learning_rate' of Optimizer must be a positive finite"),
        ({"learning_rate": float("nan")}, "'learning_rate' of Optimizer must be"),
        ({"schedule": "cosinus"}, "Unknown schedule 'cosinus'"),
        ({"schedule": "cosine_decay"}, "'decay_steps' of schedule 'cosine_decay' must be given"),
        ({"schedule": {"factor": 0.9}}, "Unknown schedule 'None'"),
        ({"schedule": {**EXPONENTIAL, "each": 1}}, "Unknown argument of schedule .*'each'"),
        ({"arguments": {"beta1": 0.9}}, "Unknown argument of optimizer 'adam': 'beta1'.*b1"),
        ({"arguments": {"learning_rate": 0.9}}, "Unknown argument .* 'learning_rate'"),
        ({"arguments": {"b1": jnp.ones(2)}}, "must be plain values"),
        ({"arguments": [1]}, "'arguments' of Optimizer must be a mapping"),
        ({"name": "noisy_sgd", "arguments": {"eta": 0.1, "gamma": "x"}}, "noisy_sgd"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(UserError, match=message):
        Optimizer(**arguments)


def test_lbfgs_searches_along_its_direction():
    """By default the step satisfies the strong Wolfe conditions; without a search it is fixed."""

    def f(w):
        return jnp.sum(w**4)

    weight = jnp.array([1.0])
    value, slope = jax.value_and_grad(f)(weight)
    searching = Optimizer("lbfgs").build()
    extra = {"value": value, "grad": slope, "value_fn": f}
    update: Any
    update, _ = searching.update(slope, searching.init(weight), weight, **extra)
    after, slope_after = jax.value_and_grad(f)(weight + update)
    assert after <= value + 1e-4 * jnp.vdot(slope, update)
    assert abs(jnp.vdot(slope_after, update)) <= 0.9 * abs(jnp.vdot(slope, update))

    fixed = Optimizer("lbfgs", learning_rate=0.5, arguments={"linesearch": None}).build()
    state = fixed.init(jnp.array([1.0]))
    (update,), _ = fixed.update(
        jnp.array([1.0]), state, jnp.array([1.0]), value=1.0, grad=None, value_fn=None
    )
    np.testing.assert_allclose(update, -0.5, rtol=1e-6)
