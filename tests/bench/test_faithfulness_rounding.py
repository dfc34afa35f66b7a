"""The arithmetic of the published runs: a product in TF32, and networks that use it."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, paper, problems
from kandle.train import Architecture, train

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def rounding(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import faithfulness_rounding

    yield faithfulness_rounding
    jax.clear_caches()  # tests replace its functions, which compiled programs would keep


def points(rows=30):
    return jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (rows, 2)), jnp.float32)


def test_tf32_keeps_ten_bits_of_mantissa_and_rounds_to_the_nearest(rounding):
    given = jnp.asarray([1 + 2**-10, 1 + 2**-11 + 2**-20, 1 + 2**-12, 3e38], jnp.float32)
    wanted = [1 + 2**-10, 1 + 2**-10, 1.0]
    np.testing.assert_array_equal(rounding.tf32(given)[:3], wanted)
    assert np.isfinite(rounding.tf32(given)[3])


def test_a_product_rounds_its_factors_forwards_and_backwards(rounding):
    rng = np.random.default_rng(1)
    a, b, g = (
        jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((5, 4), (3, 4), (5, 3))
    )
    value, back = jax.vjp(rounding.product, a, b)
    ra, rb, rg = (np.asarray(rounding.tf32(v), np.float64) for v in (a, b, g))
    np.testing.assert_allclose(value, ra @ rb.T, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(back(g)[0], rg @ rb, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(back(g)[1], rg.T @ ra, rtol=1e-6, atol=1e-6)
    assert np.abs(value - a @ b.T).max() > 1e-5


@pytest.mark.parametrize("scheme", ["baseline", "lecun-normalized"])
def test_without_rounding_it_is_the_network_itself(rounding, scheme, monkeypatch):
    model, x = KAN([2, 4, 4, 1], init=scheme, key=jax.random.key(0)), points()
    rounded = rounding.in_tf32(model)
    assert np.abs(rounded(x) - model(x)).max() > 1e-6
    monkeypatch.setattr(rounding, "tf32", lambda values: values)
    jax.clear_caches()  # programs compiled so far round

    def parts(model):
        return jax.tree.leaves(model.derivatives(x, (0, 1), (1,)))

    def close(some, others):
        for one, other in zip(some, others, strict=True):
            scale = float(np.abs(other).max())
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * scale)

    close([rounded(x)], [model(x)])
    close(parts(rounded), parts(model))
    gradients = [
        jax.tree.leaves(eqx.filter_grad(lambda m: sum(jnp.sum(p * p) for p in parts(m)))(m))
        for m in (rounded, model)
    ]
    close(*gradients)


def _plain_losses() -> list[float]:
    members = [("glorot", 43), ("glorot", 44)]
    shape = Architecture(width=8, depth=2, grid=5)
    problem, sampler = paper.published_draws(problems.get("f1"))
    return [result.loss for result in train(problem, shape, members, steps=3, sampler=sampler)]


def test_runs_are_kept_and_not_trained_again(rounding, tmp_path, monkeypatch, capsys):
    options = ["--problems", "f1", "--schemes", "glorot", "--seeds", "2", "--steps", "3"]
    command = ["x", "--out", str(tmp_path), "--parts", "functions-small", *options]
    monkeypatch.setattr("sys.argv", command)
    rounding.main()
    first = capsys.readouterr().out
    assert "f1          glorot               loss" in first
    rows = [json.loads(file.read_text()) for file in sorted(tmp_path.iterdir())]
    assert {(row["seed"], row["draws"]) for row in rows} == {(43, "published"), (44, "published")}
    assert [row["loss"] for row in rows] != _plain_losses()

    monkeypatch.setattr(
        "sys.argv", [*command[:2], str(tmp_path / "plain"), *command[3:], "--float32"]
    )
    rounding.main()
    plain = [json.loads(file.read_text()) for file in sorted((tmp_path / "plain").iterdir())]
    losses = {row["seed"]: row["loss"] for row in plain}
    np.testing.assert_allclose([losses[43], losses[44]], _plain_losses(), rtol=1e-5)
    capsys.readouterr()

    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setattr(rounding, "train", None)  # would be an error if it were called
    rounding.main()
    assert capsys.readouterr().out == first
