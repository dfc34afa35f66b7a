"""The training core takes an objective, a method and a keeping rule that it has never seen.

All three are defined here. What comes out is compared with gradient descent in NumPy, by formulas.
"""

import ast
import dataclasses
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kandle
from kandle import KAN
from kandle.train import (
    Curves,
    Method,
    Objective,
    Optimizer,
    Population,
    State,
    Whole,
    method_of,
    run,
    shared,
)

RATE, GRIDS, STEPS = 0.03, (3, 6), 12

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (20, 2))
Y = np.sin(2 * X[:, :1]) + X[:, 1:]
# Other rows of another function: what fits the first one ever better soon fits this one worse.
OTHER_X = RNG.uniform(-1, 1, (15, 2))
OTHER_Y = np.sin(2 * OTHER_X[:, :1]) + OTHER_X[:, 1:] + 0.8


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


# ---- an objective, a method and a keeping rule ---------------------------------------------------


class Fourth(Objective):
    """The mean fourth power of the error."""

    arrays = ("x", "y")

    def loss(self, model, data, aux, backend):
        return jnp.mean((model(data["x"]) - data["y"]) ** 4), aux


class Descent(Method):
    """Gradient descent. It remembers how many updates it has made of each model."""

    first_chunk = 2
    backend = "dense"

    def __init__(self, objective, rate=RATE):
        def loss(model, data):
            return objective.loss(model, data, {}, self.backend)[0]

        self._rate, self._step = rate, jax.jit(jax.vmap(jax.value_and_grad(loss)))

    def start(self, models, data, before=None):
        made = np.zeros(len(models), int) if before is None else before.memory
        return State(jax.tree.map(lambda *leaves: jnp.stack(leaves), *models), made, {})

    def advance(self, state, data, steps):
        weights, count, losses = state.weights, len(state.memory), []
        data = {name: jnp.broadcast_to(a, (count, *a.shape[1:])) for name, a in data.items()}
        for _ in range(steps):
            loss, slope = self._step(weights, data)
            weights = jax.tree.map(lambda w, g: w - self._rate * g, weights, slope)
            losses.append(np.asarray(loss))
        curves = Curves(np.stack(losses), np.zeros((steps, count, 0)))
        return State(weights, state.memory + steps, {}), curves

    def models(self, state):
        return state.weights


class KeepLowest:
    """Every other update: the weights with the lowest loss on other data, until none falls."""

    def __init__(self, data):
        self._data = data
        self.lowest, self.best, self.falls = {}, {}, {}

    def start(self, population):
        self.lowest[population] = np.full(len(population), np.inf)
        self.best[population] = population.models()

    def next_measurement(self, done):
        return done - done % 2 + 2

    def measure(self, population):
        losses, lowest = population.losses(self._data), self.lowest[population]
        self.falls[population] = falls = losses < lowest
        pairs = zip(falls, population.models(), self.best[population], strict=True)
        self.best[population] = [now if better else best for better, now, best in pairs]
        self.lowest[population] = np.minimum(losses, lowest)

    def remaining(self, populations):
        return [population for population in populations if self.falls[population].any()]

    def choose(self, populations):
        return [min(populations, key=lambda population: self.lowest[population].mean())]

    def models(self, population):
        return self.best[population]


# ---- the same in NumPy ---------------------------------------------------------------------------


def network(seed):
    """One layer, whose gradient is written down in a few lines."""
    return KAN([2, 1], grid=GRIDS[0], init="glorot", key=jax.random.key(seed), dtype="float64")


class ByHand:
    """u = bias + Σ_i (r_i R(x_i) + c_i Σ_m b_im B_m(x_i)), descending on mean (u - y)⁴."""

    def __init__(self, model, rate=RATE):
        [layer] = model.layers
        self.model, self._rate, self._basis = model, rate, layer.basis
        arrays = layer.r[0], layer.c[0], layer.b[0], layer.bias
        self.r, self.c, self.b, self.bias = (np.array(array) for array in arrays)

    def features(self, x):
        return x / (1 + np.exp(-x)), np.asarray(self._basis.values(x))

    def __call__(self, x):
        R, B = self.features(x)
        return self.bias + R @ self.r + np.einsum("nim,i,im->n", B, self.c, self.b)

    def loss(self, x, y):
        return np.mean((self(x) - y[:, 0]) ** 4)

    def update(self, y=Y):
        """The loss before the update."""
        loss, (R, B) = self.loss(X, y), self.features(X)
        slope = 4 * (self(X) - y[:, 0]) ** 3 / len(X)
        by_b = np.einsum("n,nim->im", slope, B)
        by_c = np.sum(by_b * self.b, axis=1)
        self.bias -= self._rate * slope.sum()
        self.r -= self._rate * slope @ R
        self.b -= self._rate * by_b * self.c[:, None]
        self.c -= self._rate * by_c
        return loss

    def as_network(self):
        [layer] = self.model.layers
        arrays = {"r": self.r[None], "c": self.c[None], "b": self.b[None], "bias": self.bias}
        arrays = {name: jnp.asarray(array) for name, array in arrays.items()}
        return KAN.from_layers([dataclasses.replace(layer, **arrays)])

    def refined(self):
        return ByHand(self.as_network().refine(grid=GRIDS[1]), self._rate)


def same_function(model, by_hand):
    np.testing.assert_allclose(model(OTHER_X)[:, 0], by_hand(OTHER_X), rtol=1e-9, atol=1e-11)


def losses_of(population):
    return np.concatenate([part.loss for part in population.curves])


def toy(seeds=(0, 1), rate=RATE, **options):
    objective = Fourth()
    models = [network(seed) for seed in seeds]
    data = shared({"x": X, "y": Y})
    return Population(models, data, objective, lambda model: Descent(objective, rate), **options)


FEED = {"x": X, "y": Y}


def test_it_trains_on_grids_and_checkpoints_see_the_weights_of_their_update():
    population, seen, done = toy(), {}, []

    def look(step, populations):
        seen[step] = populations[0].networks()

    [result] = run(
        [population],
        Whole(shared(FEED), "x"),
        STEPS,
        grids=GRIDS,
        progress=lambda step, populations: done.append((step, populations)),
        checkpoints=(0, 5, STEPS, STEPS + 3),
        on_checkpoint=look,
    )
    assert result is population
    assert population.steps == 2 * STEPS
    assert list(seen) == [0, 5, STEPS, STEPS + 3]
    assert [step for step, _ in done] == sorted({step for step, _ in done})
    assert done[-1] == (2 * STEPS, [population])
    np.testing.assert_array_equal(population.state.memory, 2 * STEPS)  # carried over

    for p, seed in enumerate((0, 1)):
        by_hand, losses = ByHand(network(seed)), []
        for t in range(2 * STEPS):
            if t in seen:
                # The last update on a grid is followed by a checkpoint on that grid.
                assert seen[t][p].layers[0].basis.grid == GRIDS[t > STEPS]
                same_function(seen[t][p], by_hand)
            if t == STEPS:
                by_hand = by_hand.refined()
            losses.append(by_hand.update())
        np.testing.assert_allclose(losses_of(population)[:, p], losses, rtol=1e-9)
        same_function(population.models()[p], by_hand)
        assert losses[-1] < 0.1 * losses[0]


def test_the_keeping_rule_says_what_is_kept_and_when_a_training_ends():
    """Two populations with different rates; the better one goes on, on the finer grid."""
    rates = (0.01, 0.05)
    populations = [toy(rate=rate) for rate in rates]
    keep = KeepLowest(shared({"x": OTHER_X, "y": OTHER_Y}))
    chosen = run(populations, Whole(shared(FEED), "x"), 60, grids=GRIDS, keep=keep)

    # ---- both by hand, stage by stage
    by_hand = {rate: [ByHand(network(seed), rate) for seed in (0, 1)] for rate in rates}
    curves = {rate: [] for rate in rates}
    for stage in range(2):
        lowest, best = {}, {}
        for rate, models in by_hand.items():
            lowest[rate], best[rate] = np.full(2, np.inf), [None, None]
            for t in range(1, 61):
                curves[rate].append([model.update() for model in models])
                if t % 2 == 1:
                    continue
                now = np.array([model.loss(OTHER_X, OTHER_Y) for model in models])
                falls = now < lowest[rate]
                for p in np.flatnonzero(falls):
                    best[rate][p] = models[p].as_network()
                lowest[rate] = np.minimum(now, lowest[rate])
                if not falls.any():
                    break
        winner = min(by_hand, key=lambda rate: lowest[rate].mean())
        if stage == 0:
            fine = [ByHand(model.refine(grid=GRIDS[1]), winner) for model in best[winner]]
            by_hand = {winner: fine}

    assert chosen == [populations[rates.index(winner)]]
    assert winner == 0.05
    assert [population.steps for population in populations] == [60, len(curves[winner])]
    assert len(curves[winner]) < 60, "both grids should end early"
    for rate, population in zip(rates, populations, strict=True):
        np.testing.assert_allclose(losses_of(population), curves[rate], rtol=1e-8)
    np.testing.assert_allclose(keep.lowest[chosen[0]], lowest[winner], rtol=1e-8)
    for model, wanted in zip(keep.models(chosen[0]), best[winner], strict=True):
        np.testing.assert_allclose(model(OTHER_X), wanted(OTHER_X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("after", [3, STEPS + 2], ids=["coarse", "fine"])
def test_an_interrupt_leaves_a_population_that_trains_on(after):
    population = toy()

    def interrupt(done, populations):
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([population], Whole(shared(FEED), "x"), STEPS, grids=GRIDS, progress=interrupt)
    assert after <= population.steps < 2 * STEPS
    assert len(losses_of(population)) == population.steps
    before = population.steps
    reported = []
    population.advance(6, lambda done, losses: reported.append(done))
    assert reported[-1] == population.steps == before + 6
    for p in range(2):
        by_hand, losses = ByHand(network(p)), []
        for t in range(population.steps):
            if t == STEPS and after > STEPS:
                by_hand = by_hand.refined()
            losses.append(by_hand.update())
        np.testing.assert_allclose(losses_of(population)[:, p], losses, rtol=1e-9)
        same_function(population.models()[p], by_hand)


def test_models_may_have_data_of_their_own():
    ys = np.stack([Y, -Y, Y**2])
    population = toy(seeds=(0, 1, 2), private={"y": jnp.asarray(ys)})
    losses = population.advance(7)
    population.keep([2, 0])
    losses = np.concatenate([losses[:, [2, 0]], population.advance(4)])
    for p, seed in enumerate((2, 0)):
        by_hand = ByHand(network(seed))
        np.testing.assert_allclose(
            losses[:, p], [by_hand.update(ys[seed]) for _ in range(11)], rtol=1e-9
        )


@pytest.mark.parametrize("name", ["adam", "levenberg-marquardt"])
def test_kandles_own_methods_train_on_after_an_interrupt(name, tiny, small):
    objective = kandle.train.Fit()
    arguments = {} if name == "adam" else {"warmup": 0}
    method = method_of(Optimizer(name, arguments=arguments), objective, "dense")
    data = shared(tiny.arrays("float64"))

    def population():
        model = small.network(2, 1, kandle.init.Glorot(), 0, dtype="float64", backend="dense")
        return Population([model], data, objective, method)

    def interrupt(done, populations):
        raise KeyboardInterrupt

    interrupted, whole = population(), population()
    with pytest.raises(KeyboardInterrupt):
        run([interrupted], Whole(data, "x"), 40, progress=interrupt)
    assert 0 < interrupted.steps < 40
    interrupted.advance(40 - interrupted.steps)
    whole.advance(40)
    np.testing.assert_array_equal(losses_of(interrupted), losses_of(whole))


def test_ctrl_c_in_the_middle_of_updates_leaves_a_population_that_trains_on(tiny, small):
    objective, data = kandle.train.Fit(), shared(tiny.arrays("float64"))
    method = method_of(Optimizer("adam"), objective, "dense")

    def population():
        model = small.network(2, 1, kandle.init.Glorot(), 0, dtype="float64", backend="dense")
        return Population([model], data, objective, method)

    def interrupt(*_):
        raise KeyboardInterrupt

    interrupted, whole = population(), population()
    interrupted.advance(1)  # compiles
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        # Once more after a while: a signal within a hook of JAX gets lost.
        signal.setitimer(signal.ITIMER_REAL, 0.2, 2.0)
        with pytest.raises(KeyboardInterrupt):
            interrupted.advance(10**7)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(losses_of(interrupted)) == interrupted.steps > 1
    interrupted.advance(5)
    whole.advance(interrupted.steps)
    np.testing.assert_array_equal(losses_of(interrupted), losses_of(whole))


# ---- where things are ----------------------------------------------------------------------------

PACKAGE = Path(kandle.__file__).parent


def trees(*folders):
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def last_names(tree):
    """Names and attributes: `f` of `f(x)`, of `jax.f(x)` and of `from jax import f`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name


@pytest.mark.parametrize("name", ["fori_loop", "value_and_grad"])
def test_there_is_one_compiled_loop(name):
    having = {
        module
        for module, tree in trees("train", "tabular", "tune")
        for found in last_names(tree)
        if found == name
    }
    assert having == {"train/_first_order.py"}


def test_the_driver_asks_for_no_class_of_an_objective_or_a_method():
    everything = dict(trees(""))
    classes = {
        node.name
        for tree in everything.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert {"Fit", "Solve", "FirstOrder", "LeastSquares", "PenalizedRows", "KeepBest"} <= classes
    driver = everything["train/_training.py"]
    asked = {
        name
        for node in ast.walk(driver)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass", "type")
        for argument in node.args[1:] or node.args
        for name in last_names(argument)
    }
    assert not asked & classes
