"""Models that are looked at on the way."""

import jax
import numpy as np
import pytest

from kandle import KAN
from kandle.train import Fit, Population, predict


def test_a_population_is_evaluated_on_other_data_as_each_model_by_itself():
    rng = np.random.default_rng(0)
    data, other = (
        {"x": rng.uniform(-1, 1, (n, 2)).astype("f4"), "y": rng.normal(size=(n, 1)).astype("f4")}
        for n in (20, 7)
    )
    models = [KAN([2, 3, 1], grid=3, init="glorot", key=jax.random.key(i)) for i in range(3)]
    population = Population(models, data, Fit())
    population.advance(5)
    found = population.losses(other)
    for model, loss in zip(population.models(), found, strict=True):
        error = predict(model, other["x"]) - other["y"]
        assert np.mean(error**2) == pytest.approx(float(loss), rel=1e-5)
    population.keep([2, 0])
    np.testing.assert_allclose(population.losses(other), found[[2, 0]], rtol=1e-6)
    # Looking on changes nothing.
    alone = Population(models[:1], data, Fit())
    alone.advance(8)
    population.keep([1])
    population.advance(3)
    np.testing.assert_array_equal(population.losses(other), alone.losses(other))
