"""Which weights a fit keeps, when it measures and stops, and which penalties it gives up."""

import jax
import numpy as np
import pytest

from kandle import KAN
from kandle.tabular._keep import Best, KeepBest
from kandle.train import Fit, Optimizer, Population, Whole, method_of, run, shared


def best(losses):
    """That of networks with these lowest validation losses."""
    loss = np.asarray(losses, np.float64)
    return Best(loss, loss, np.zeros(len(loss), int), state=None, began=0)


@pytest.mark.parametrize(
    ("own", "other", "worse"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], False),
        # The same difference in every network, though the networks differ by more.
        ([1.1, 2.1, 3.1], [1.0, 2.0, 3.0], True),
        # A larger difference, but of one network alone.
        ([1.5, 1.9, 3.0], [1.0, 2.0, 3.0], False),
        ([0.9, 1.9, 2.9], [1.0, 2.0, 3.0], False),
        ([1.0, np.inf], [1.0, 2.0], True),
        ([np.inf, np.inf], [np.inf, 2.0], False),
        # One network says nothing about how networks differ.
        ([9.0], [1.0], False),
    ],
)
def test_losses_are_compared_in_pairs(own, other, worse):
    assert best(own).is_worse_than(best(other)) == worse
    assert best(own).mean == pytest.approx(np.mean(own))


@pytest.mark.parametrize("unit", [1, 20])
def test_validation_is_measured_on_a_schedule(unit):
    """The same rows are measured a few times per hundred updates, whatever an iteration counts."""
    keep, done, updates = KeepBest({}, patience=100, unit=unit), 0, []
    while done * unit < 1000:
        # Between two measurements the answer is the same.
        later = keep.next_measurement(done)
        assert keep.next_measurement(later - 1) == later
        done = later
        updates.append(done * unit)
    gaps = np.diff([0, *updates])
    assert (gaps >= min(10, unit)).all()
    assert (gaps <= 60).all()
    assert updates[0] <= 50, "small tables are fitted best after a few dozen updates"
    assert 15 <= len(updates) <= 50


# ---- in a training -------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (24, 2)).astype(np.float32)
DATA = {"x": X, "y": (X[:, :1] * X[:, 1:]).astype(np.float32)}
# Where the training data are fitted best, these are not: y is another function.
OTHER = {"x": X, "y": (DATA["y"] + 0.5 * X[:, :1]).astype(np.float32)}


class Measured(KeepBest):
    """Every 4 updates; remembers the weights and losses that were measured."""

    def __init__(self, held_out, patience):
        super().__init__(held_out, patience)
        self.models_seen, self.losses_seen = [], []

    def next_measurement(self, done):
        return done - done % 4 + 4

    def measure(self, population):
        super().measure(population)
        self.models_seen.append(population.models())
        self.losses_seen.append(population.losses(self._held_out))


class MeasuredFit(Fit):
    """With a loss and a score, as fits of tables measure them."""

    def measure(self, model, data, backend):
        loss = self.loss(model, data, {}, backend)[0]
        return jax.numpy.stack([loss, 1 - loss])


def networks(rate=0.05):
    models = [KAN([2, 3, 1], grid=3, init="glorot", key=jax.random.key(i)) for i in range(2)]
    objective = MeasuredFit()
    method = method_of(Optimizer("adam", rate), objective, "dense")
    return Population(models, shared(DATA), objective, method)


def trained(patience, steps):
    population, keep = networks(), Measured(shared(OTHER), patience)
    run([population], Whole(shared(DATA), "x"), steps, keep=keep)
    return population, keep


def test_each_network_is_kept_where_it_validates_best():
    population, keep = trained(patience=10**6, steps=60)
    losses = np.stack(keep.losses_seen)  # (measurements, networks)
    assert len(losses) == 16
    at = losses.argmin(axis=0)
    assert (at > 0).all()
    assert (at < 15).all(), "the last weights are the best ones: nothing is tested"
    for p, model in enumerate(keep.models(population)):
        for a, b in zip(
            jax.tree.leaves(model), jax.tree.leaves(keep.models_seen[at[p]][p]), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(keep.best(population).loss, losses.min(axis=0), rtol=1e-6)
    scores = np.stack(keep.best(population).scores)
    np.testing.assert_allclose(scores, 1 - losses, rtol=1e-5, atol=1e-6)


def test_a_training_ends_after_its_patience():
    population, keep = trained(patience=12, steps=400)
    losses, improved, at = np.stack(keep.losses_seen), np.full(2, np.inf), np.zeros(2, int)
    for i, now in enumerate(losses):
        worth = now < 0.995 * improved - 1e-4
        improved, at = np.where(worth, now, improved), np.where(worth, 4 * i, at)
    assert population.steps == at.max() + 12 < 400


def test_a_population_that_validates_worse_is_given_up_and_the_better_one_is_chosen():
    """Long before the patience ends, which would stop both of them together."""
    slow, fast = networks(rate=1e-6), networks(rate=0.02)
    keep = KeepBest(shared(DATA), patience=10**6)
    [chosen] = run([slow, fast], Whole(shared(DATA), "x"), 500, keep=keep)
    assert chosen is fast
    assert fast.steps == 500
    assert 100 <= slow.steps <= 250
    assert keep.best(slow).is_worse_than(keep.best(fast))
    assert not keep.best(fast).is_worse_than(keep.best(slow))
