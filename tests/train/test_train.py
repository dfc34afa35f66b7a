"""The training loop: the same as a plain one, whatever is trained beside."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from kandle import KAN, UserError, init, problems
from kandle.train import (
    Architecture,
    Member,
    Optimizer,
    objective,
    predict,
    trace_count,
    train,
)

SCHEMES = ("baseline", "lecun-numerical", "lecun-normalized", "glorot", "power-law")


def plain_training(problem, architecture, scheme, seed, steps, optimizer, rba="published"):
    """One model in float64, step by step with Optax on the tree of weights."""
    goal = objective(problem, rba)
    with jax.enable_x64(True):
        data = {k: jnp.asarray(v) for k, v in problem.arrays("float64").items()}
        model = architecture.network(
            problem.n_in, problem.n_out, init.get(scheme), seed, dtype="float64", backend="dense"
        )
        optimizer = optax.with_extra_args_support(optimizer)
        state, weights, losses = optimizer.init(model), goal.start(data), []

        def loss(model, weights):
            return goal.loss(model, data, weights, "dense")

        @jax.jit
        def step(model, state, weights):
            (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(model, weights)
            extra = {"value": value, "grad": gradient, "value_fn": lambda m: loss(m, weights)[0]}
            updates, state = optimizer.update(gradient, state, model, **extra)
            return optax.apply_updates(model, updates), state, after, value

        for _ in range(steps):
            model, state, weights, value = step(model, state, weights)
            losses.append(float(value))
        return model, np.array(losses)


def assert_same_model(got, wanted, rtol=1e-6):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(
    ("optimizer", "by_hand"),
    [
        (Optimizer(), optax.adam(1e-3)),
        (
            Optimizer("adamw", 1e-2, arguments={"weight_decay": 0.1}),
            optax.adamw(1e-2, weight_decay=0.1),
        ),
        (Optimizer("sgd", 0.05), optax.sgd(0.05)),
        (
            Optimizer(schedule={"name": "exponential", "factor": 0.9, "every": 50}),
            optax.adam(optax.exponential_decay(1e-3, 50, 0.9)),
        ),
        (Optimizer("lbfgs"), optax.lbfgs()),
    ],
    ids=["adam", "adamw", "sgd", "decay", "lbfgs"],
)
def test_batched_training_is_plain_training(tiny, small, optimizer, by_hand):
    members = [("glorot", 0), ("baseline", 3)]
    options = {"steps": 12, "optimizer": optimizer, "dtype": "float64", "curve": "all"}
    results = train(tiny, small, members, **options, keep_weights=True)
    for result, (scheme, seed) in zip(results, members, strict=True):
        model, losses = plain_training(tiny, small, scheme, seed, 12, by_hand)
        np.testing.assert_allclose(result.curve_loss, losses, rtol=1e-7)
        assert_same_model(result.model, model)


def test_lbfgs_beats_adam_where_it_should(tiny, small):
    adam, lbfgs = (
        train(tiny, small, [("glorot", 0)], steps=60, optimizer=Optimizer(name))[0]
        for name in ("adam", "lbfgs")
    )
    assert lbfgs.loss < adam.loss / 10


@pytest.mark.parametrize("rba", ["published", "text", "off"])
def test_pde_training_is_plain_training(poisson, small, rba):
    options = {"steps": 6, "dtype": "float64", "curve": "all", "rba": rba}
    [result] = train(poisson, small, [("glorot", 0)], **options, keep_weights=True)
    model, losses = plain_training(poisson, small, "glorot", 0, 6, optax.adam(1e-3), rba)
    np.testing.assert_allclose(result.curve_loss, losses, rtol=1e-8)
    assert_same_model(result.model, model)


def test_the_variants_of_attention_differ(poisson, small):
    losses = {
        rba: train(poisson, small, [("glorot", 0)], steps=30, rba=rba, dtype="float64")[0].loss
        for rba in ("published", "text", "off")
    }
    assert len({f"{loss:.6e}" for loss in losses.values()}) == 3


def test_normalized_models_are_trained_through_their_statistics(tiny, small):
    options = {"steps": 8, "dtype": "float64", "curve": "all"}
    [result] = train(tiny, small, [("lecun-normalized", 1)], **options)
    _, losses = plain_training(tiny, small, "lecun-normalized", 1, 8, optax.adam(1e-3))
    np.testing.assert_allclose(result.curve_loss, losses, rtol=1e-8)


# --- what comes out ----------------------------------------------------------------------------


def test_loss_is_before_the_last_update_and_errors_after_it(tiny, small):
    [result] = train(
        tiny, small, [("glorot", 0)], steps=5, dtype="float64", curve="all", keep_weights=True
    )
    assert isinstance(result.model, KAN)
    model, losses = plain_training(tiny, small, "glorot", 0, 5, optax.adam(1e-3))
    points, reference = tiny.evaluation()
    with jax.enable_x64(True):
        prediction = np.asarray(model(points))
        data = tiny.arrays("float64")
        test = np.mean((np.asarray(model(data["x_test"])) - data["y_test"]) ** 2)
    np.testing.assert_allclose(result.loss, losses[-1], rtol=1e-9)
    assert result.loss == result.curve_loss[-1]
    l2 = np.linalg.norm(prediction - reference) / np.linalg.norm(reference)
    np.testing.assert_allclose(result.l2, l2, rtol=1e-7)
    there = reference != 0
    relative = np.abs(prediction - reference)[there] / np.abs(reference)[there]
    np.testing.assert_allclose(result.l2_robust, np.median(relative), rtol=1e-6)
    np.testing.assert_allclose(result.test_mse, test, rtol=1e-6)
    assert result.status == "ok"
    assert result.diverged_at is None
    assert result.wall_s > 0


def test_a_pde_has_no_test_error_and_a_problem_without_reference_no_l2(poisson, small):
    import dataclasses

    [result] = train(poisson, small, [("glorot", 0)], steps=2)
    assert np.isnan(result.test_mse)
    assert np.isfinite(result.l2)
    [result] = train(dataclasses.replace(poisson, reference=None), small, [("glorot", 0)], steps=2)
    assert np.isnan(result.l2)
    assert np.isfinite(result.loss)


@pytest.mark.parametrize("steps", [1, 2, 7, 700])
def test_curves(tiny, small, steps):
    [every] = train(tiny, small, [("glorot", 0)], steps=steps, curve="all")
    [logarithmic] = train(tiny, small, [("glorot", 0)], steps=steps)
    np.testing.assert_array_equal(every.curve_steps, np.arange(1, steps + 1))
    kept = logarithmic.curve_steps
    assert (kept[0], kept[-1]) == (1, steps)
    assert len(kept) == min(steps, 200) or 195 <= len(kept) <= 215
    np.testing.assert_array_equal(logarithmic.curve_loss, every.curve_loss[kept - 1])
    assert every.curve_loss.dtype == np.float32


def test_results_are_in_the_members_order_and_weights_only_when_asked(tiny, small):
    members = [(scheme, seed) for seed in (0, 1) for scheme in SCHEMES]
    together = train(tiny, small, members, steps=3)
    assert all(result.model is None for result in together)
    for i in (2, 3, 7):  # two normalized ones and one that is not
        [alone] = train(tiny, small, [members[i]], steps=3)
        np.testing.assert_allclose(alone.loss, together[i].loss, rtol=1e-4)
    assert len({result.loss for result in together}) == len(members)


def test_members_are_initialized_as_by_the_architecture(tiny, small):
    started = []
    train(
        tiny,
        small,
        [Member(init.PowerLaw(0.5, 1.0), 7)],
        steps=1,
        checkpoints=(0,),
        on_checkpoint=lambda step, states: started.extend(states),
    )
    wanted = small.network(2, 1, init.PowerLaw(0.5, 1.0), 7, backend=None)
    got = jax.tree.leaves(started[0].model)
    for a, b in zip(got, jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


def test_float64_is_on_for_the_training_alone(tiny, small):
    assert jnp.ones(1).dtype == jnp.float32
    [result] = train(tiny, small, [("glorot", 0)], steps=2, dtype="float64", keep_weights=True)
    assert result.model is not None
    assert result.model.layers[0].b.dtype == jnp.float64
    assert result.curve_loss.dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32
    with jax.enable_x64(True):
        [result] = train(tiny, small, [("glorot", 0)], steps=2, keep_weights=True)
        assert result.model is not None
        assert result.model.layers[0].b.dtype == jnp.float32


@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [("float32", 1e-4, 1e-6), ("float64", 1e-9, 1e-12)]
)
def test_prediction_in_blocks_is_prediction(dtype, rtol, atol):
    with jax.enable_x64(dtype == "float64"):
        key, x = jax.random.key(0), np.random.default_rng(0).uniform(-1, 1, (9000, 2))
        model = KAN([2, 3, 1], key=key, init="lecun-normalized", dtype=dtype)
        np.testing.assert_allclose(predict(model, x), model(x), rtol=rtol, atol=atol)
        few = x[:5]
        np.testing.assert_allclose(predict(model, few), model(few), rtol=rtol, atol=atol)


def test_prediction_keeps_frozen_statistics():
    key, x = jax.random.key(0), np.random.default_rng(0).uniform(-1, 1, (40, 2))
    model = KAN([2, 3, 1], key=key, init="lecun-normalized").freeze(x)
    np.testing.assert_array_equal(predict(model, x)[:5], predict(model, x[:5]))


def test_an_initialization_adapted_to_the_data(tiny, small):
    """The scheme's spread is that of the hidden values on the training data, before any update."""
    spreads = {}
    for scheme in (init.Quiet(), init.Quiet(spread=0.4)):
        started = []
        train(
            *(tiny, small, [(scheme, 0)]),
            steps=1,
            checkpoints=[0],
            on_checkpoint=lambda step, models, started=started: started.extend(models),
        )
        [checkpoint] = started
        x = tiny.arrays("float32")["x"]
        spreads[scheme.spread] = [
            float(np.std(x := np.asarray(layer(x)))) for layer in checkpoint.model.layers[:-1]
        ]
    np.testing.assert_allclose(spreads[0.4], 0.4, rtol=1e-5)
    assert not np.isclose(spreads[None], 0.4, rtol=0.05).any()


# --- divergence --------------------------------------------------------------------------------

HUGE = init.PowerLaw(alpha=-25.0, beta=-25.0)


@pytest.mark.parametrize("place", [0, 1])
def test_a_model_that_diverges_is_a_result_and_disturbs_no_other(tiny, small, place):
    good = [("glorot", 0), ("baseline", 1)]
    options = {"steps": 20, "curve": "all", "keep_weights": True}
    # The same batch shape, hence the same program: the others must not differ by a bit.
    beside = train(tiny, small, [*good[:place], ("glorot", 9), *good[place:]], **options)
    results = train(tiny, small, [*good[:place], (HUGE, 0), *good[place:]], **options)
    bad = results.pop(place)
    del beside[place]
    assert (bad.status, bad.diverged_at) == ("diverged", 1)
    assert np.isnan([bad.loss, bad.l2, bad.l2_robust, bad.test_mse]).all()
    for result, wanted in zip(results, beside, strict=True):
        assert (result.status, result.diverged_at) == ("ok", None)
        np.testing.assert_array_equal(result.curve_loss, wanted.curve_loss)
        assert eqx.tree_equal(result.model, wanted.model)
        assert result.l2 == wanted.l2


def test_the_step_of_divergence_is_the_first_loss_that_is_not_finite(tiny, small):
    [result] = train(
        tiny,
        small,
        [(init.PowerLaw(-1.5, -1.5), 0)],
        steps=40,
        optimizer=Optimizer("sgd", 1.0),
        curve="all",
    )
    assert result.status == "diverged"
    at = result.diverged_at
    assert at is not None
    assert at > 1
    assert np.isfinite(result.curve_loss[: at - 1]).all()
    assert not np.isfinite(result.curve_loss[at - 1])


# --- one program -------------------------------------------------------------------------------


def test_one_compilation_serves_all_functions_schemes_exponents_and_seeds():
    architecture = Architecture(width=2, depth=2, grid=3)
    plain = [s for s in SCHEMES if s != "lecun-normalized"]
    before = trace_count()
    train("f1", architecture, [(s, 0) for s in plain], steps=2)
    assert trace_count() == before + 1
    train("f3", architecture, [(s, 1) for s in plain], steps=3)
    exponents = [(init.PowerLaw(a, 1.0), 5) for a in (0.0, 0.5, 1.0, 2.0)]
    train("I.6.2", architecture, exponents, steps=70)
    assert trace_count() == before + 1
    train("f1", architecture, [("lecun-normalized", 0)], steps=2)
    train("I.6.2", architecture, [("lecun-normalized", 1)], steps=2)
    assert trace_count() == before + 2


def test_a_problem_keeps_its_program(poisson, small):
    before = trace_count()
    train(poisson, small, [("baseline", 0)], steps=2, rba="text")
    train(poisson, small, [("glorot", 1)], steps=40, rba="text")
    train(poisson.__class__(**vars_of(poisson)), small, [("glorot", 1)], steps=2, rba="text")
    assert trace_count() == before + 1


def vars_of(problem):
    import dataclasses

    return {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem)}


# --- checkpoints and progress --------------------------------------------------------------------


def test_checkpoints_see_models_and_attention(poisson, small):
    seen = {}

    def look(step, states):
        for state in states:
            seen[step, state.index] = state
            state.extra.setdefault("steps", []).append(step)

    members = [("glorot", 0), ("lecun-normalized", 0), ("baseline", 1)]
    results = train(
        poisson,
        small,
        members,
        steps=4,
        checkpoints=(0, 2, 4),
        on_checkpoint=look,
        keep_weights=True,
        curve="all",
    )
    assert set(seen) == {(step, i) for step in (0, 2, 4) for i in range(3)}
    assert [result.extra for result in results] == [{"steps": [0, 2, 4]}] * 3
    assert seen[0, 2].member == Member("baseline", 1)
    assert seen[0, 0].rba["pde"].shape == (36,)
    assert seen[0, 0].rba["bc"].shape == (12,)
    np.testing.assert_array_equal(seen[0, 0].rba["pde"], 1.0)
    assert (seen[2, 0].rba["pde"] != 1.0).all()
    for i, result in enumerate(results):
        assert eqx.tree_equal(seen[4, i].model, result.model)
        # The loss that the checkpoint's model and weights give is the next one logged.
        data = {k: jnp.asarray(v) for k, v in poisson.arrays("float32").items()}
        state = seen[2, i]
        loss, _ = objective(poisson, "published").loss(state.model, data, state.rba, "dense")
        np.testing.assert_allclose(loss, result.curve_loss[2], rtol=1e-4)


def test_chunks_and_checkpoints_do_not_change_a_training(tiny, small):
    whole = train(tiny, small, [("glorot", 0)], steps=30, curve="all")[0]
    cut = train(
        tiny,
        small,
        [("glorot", 0)],
        steps=30,
        curve="all",
        checkpoints=tuple(range(0, 31, 7)),
        on_checkpoint=lambda step, states: None,
    )[0]
    np.testing.assert_array_equal(whole.curve_loss, cut.curve_loss)


def test_progress_is_reported(tiny, small):
    calls = []
    members = [("glorot", 0), ("lecun-normalized", 0)]
    train(tiny, small, members, steps=20, progress=lambda *a: calls.append(a))
    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert done[-1] == 40
    assert {call[1] for call in calls} == {40}
    assert all(losses.shape == (1,) for _, _, losses in calls)


def test_nothing_is_shown_when_nobody_watches(tiny, small, capsys):
    train(tiny, small, [("glorot", 0)], steps=20)
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_shown_when_someone_watches(tiny, small, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("kandle.train._progress._SETTLED", 0.0)
    monkeypatch.setattr("kandle.train._progress._LONG", 0.0)
    train(tiny, small, [("glorot", 0)], steps=100)
    assert "loss" in terminal.getvalue()
    assert "steps/s" in terminal.getvalue()


def test_an_interrupt_passes_through(tiny, small):
    def interrupt(done, total, losses):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny, small, [("glorot", 0)], steps=100, progress=interrupt)
    assert jnp.ones(1).dtype == jnp.float32


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem": "f9"}, "Unknown problem 'f9'"),
        ({"members": [("glorott", 0)]}, "Unknown scheme 'glorott'"),
        ({"members": [("glorot", -1)]}, "'seed' of Member must be"),
        ({"members": [("glorot", 2**63)]}, "'seed' of Member must be"),
        ({"members": ("glorot", 0)}, "'members' of train must be a sequence of Member"),
        ({"members": ["glorot"]}, "'members' of train must be a sequence of Member"),
        ({"checkpoints": 1}, "'checkpoints' of train must be integers"),
        ({"progress": True}, "'progress' of train must be a function"),
        (
            {"optimizer": {"name": "adam", "arguments": {"b1": "x"}}},
            "The arguments {'b1': 'x'} of optimizer 'adam' do not work",
        ),
        ({"steps": 0}, "'steps' of train must be"),
        ({"steps": 2.5}, "'steps' of train must be"),
        ({"dtype": "float16"}, "Unknown dtype of train 'float16'"),
        ({"rba": "on"}, "Unknown rba of train 'on'"),
        ({"sampler": "one"}, "'sampler' of train must be a kandle.init.Sampler"),
        ({"curve": "none"}, "Unknown curve of train 'none'"),
        ({"backend": "gpu"}, "Unknown backend 'gpu'"),
        ({"checkpoints": (11,)}, "'checkpoints' of train must be integers from 0 to steps = 10"),
        ({"checkpoints": (1,)}, "'on_checkpoint' of train must be given"),
        ({"architecture": [2, 8, 1]}, "'architecture' of train must be"),
        ({"optimizer": 3}, "'optimizer' must be an Optimizer"),
    ],
)
def test_errors_name_the_argument(options, message, small):
    arguments = {
        "problem": "f1",
        "architecture": small,
        "members": [("glorot", 0)],
        "steps": 10,
        **options,
    }
    with pytest.raises(UserError, match=message):
        train(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "'width' of Architecture must be"),
        ({"depth": -1}, "'depth' of Architecture must be"),
        ({"grid": 0}, "'grid' must be"),
        ({"degree": 6}, "'degree' must be"),
        ({"domain": (1, 1)}, "'domain' must be"),
        ({"residual": "nothing"}, "Unknown residual function 'nothing'"),
        ({"bias": "yes"}, "'bias' of Architecture must be"),
    ],
)
def test_architecture_errors(options, message):
    with pytest.raises(UserError, match=message):
        Architecture(**{"width": 3, "depth": 2, "grid": 5, **options})


def test_architectures_widths():
    assert Architecture(width=8, depth=0, grid=5).widths(3, 2) == (3, 2)
    assert Architecture(width=8, depth=3, grid=5).widths(3, 2) == (3, 8, 8, 8, 2)
    assert problems.get("f1").default_steps == 2000
