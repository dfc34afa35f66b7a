"""Spectra as plain data, and what they are said to mean."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, ntk, problems


def with_eigenvalues(values) -> np.ndarray:
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(len(values), len(values))))[0]
    return Q @ np.diag(values) @ Q.T


def test_figures_of_a_known_spectrum():
    found = ntk.Spectrum.of(with_eigenvalues([1.0, 8.0, 2.0, 4.0]))
    np.testing.assert_allclose(found.eigenvalues, [8, 4, 2, 1], rtol=1e-10)
    assert found.condition == pytest.approx(8)
    assert found.condition_capped == pytest.approx(8)
    assert found.effective_rank == pytest.approx(15**2 / 85)
    p = np.array([8, 4, 2, 1]) / 15
    assert found.entropy == pytest.approx(-np.sum(p * np.log(p)))
    assert found.trace == pytest.approx(15)


def test_stabilisation_bounds_what_rounding_would_make_up():
    found = ntk.Spectrum.of(np.full((4, 4), 3.0))  # rank one, trace 12
    assert found.eigenvalues[-1] == pytest.approx(1e-12 * 12 / 4, rel=0.01)
    assert found.condition == pytest.approx(12 / 3e-12, rel=0.01)
    assert found.condition_capped == 1e9
    assert found.effective_rank == pytest.approx(1)
    assert found.entropy == pytest.approx(0, abs=1e-9)


def test_equal_modes_have_full_rank():
    found = ntk.Spectrum.of(2 * np.eye(5))
    assert found.effective_rank == pytest.approx(5)
    assert found.entropy == pytest.approx(math.log(5))
    assert found.condition == pytest.approx(1)


def test_a_kernel_of_zeros_has_nothing_to_say():
    found = ntk.Spectrum.of(np.zeros((3, 3)))
    assert (found.effective_rank, found.entropy, found.condition) == (0, 0, math.inf)
    assert "nothing is learned" in ntk.reading(found, 10)


def test_a_spectrum_is_plain_data():
    found = ntk.Spectrum.of(with_eigenvalues([1.0, 2.0]), np.ones(2))
    kept = json.loads(json.dumps(dataclasses.asdict(found)))
    again = {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}
    assert ntk.Spectrum(**again) == found
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.trace = 0.0  # type: ignore[misc]


def test_error_share_is_the_error_in_eigenvectors():
    K = np.diag([1.0, 5.0, 3.0])
    found = ntk.Spectrum.of(K, np.array([1.0, 2.0, 0.0]))
    np.testing.assert_allclose(found.error_share, [0.8, 0.0, 0.2], atol=1e-12)
    several = ntk.Spectrum.of(K, np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]]))
    np.testing.assert_allclose(several.error_share, [4 / 30, 25 / 30, 1 / 30], atol=1e-12)
    assert ntk.Spectrum.of(K, np.zeros(3)).error_share == (0.0, 0.0, 0.0)


def test_spectrum_of_a_model():
    model = KAN([1, 2, 2], key=jax.random.key(0))
    x = np.linspace(-1, 1, 6)[:, None]
    found = ntk.spectrum(model, x)
    np.testing.assert_allclose(
        found.eigenvalues, np.linalg.eigvalsh(ntk.kernel(model, x))[::-1], rtol=1e-6, atol=1e-10
    )
    assert found.error_share is None
    y = np.asarray(model(x)) + np.linspace(0, 1, 12).reshape(6, 2)
    assert sum(ntk.spectrum(model, x, y).error_share) == pytest.approx(1)
    with pytest.raises(UserError, match="'y' must be the"):
        ntk.spectrum(model, x, y[:, 0])


def test_reading_follows_from_the_numbers():
    # Left of each mode after 1,000 steps: none, 4e-5, 37 %, 99.9 %.
    found = ntk.Spectrum.of(np.diag([1.0, 1e-2, 1e-3, 1e-6]), np.array([0.0, 1.0, 0.0, 3.0]))
    said = ntk.reading(found, 1000)
    assert "2 of 4 modes lose 99 % of the error in them within 1,000 steps" in said
    assert "Mode 3 learns in part" in said
    assert "Mode 4 keeps" in said
    assert "4.6e+06 steps would be needed" in said
    assert "10 % lies in the modes that are learned, 0 % in those between and 90 %" in said
    assert "effective rank is 1.02 of 4" in said
    assert "all 4 modes" in ntk.reading(ntk.Spectrum.of(np.eye(4)), 3)
    with pytest.raises(UserError, match="'steps' must be"):
        ntk.reading(found, 0)


@pytest.mark.parametrize(
    ("bad", "said"), [(np.zeros((2, 3)), "square"), (np.eye(2) * np.nan, "finite")]
)
def test_errors(bad, said):
    with pytest.raises(UserError, match=said):
        ntk.Spectrum.of(bad)


def test_spectra_of_a_function_are_on_its_points():
    model, problem = KAN([2, 3, 1], key=jax.random.key(0)), problems.get("f3")
    (found,) = ntk.spectra(problem, model).values()
    data = problem.arrays("float64")
    expected = ntk.spectrum(model, data["x"][:256])
    assert found.eigenvalues == pytest.approx(expected.eigenvalues, rel=1e-9, abs=1e-12)
    assert len(found.error_share) == 256


def test_spectra_of_a_pde_weight_its_points():
    model, problem = KAN([2, 3, 1], key=jax.random.key(0)), problems.get("allen-cahn")
    plain = ntk.spectra(problem, model)
    assert {block: len(s.eigenvalues) for block, s in plain.items()} == {"pde": 256, "bc": 32}
    data = problem.arrays()
    rba = {"pde": np.zeros(len(data["collocation"])), "bc": np.full(len(data["values"]), 2.0)}
    rows = problem.ntk_points()["collocation"]
    rba["pde"][rows] = 3.0  # and nothing elsewhere: only these rows may be read
    weighted = ntk.spectra(problem, model, rba)
    assert weighted["pde"].trace == pytest.approx(9 * plain["pde"].trace)
    assert weighted["bc"].trace == pytest.approx(4 * plain["bc"].trace)
    assert weighted["pde"].effective_rank == pytest.approx(plain["pde"].effective_rank)


def test_a_diverged_model_has_no_spectra():
    model = KAN([2, 3, 1], key=jax.random.key(0))
    ruined = jax.tree.map(lambda leaf: leaf * jnp.nan, model)
    assert ntk.spectra(problems.get("f3"), ruined) == {}


def test_spectra_need_a_model_of_the_problem():
    with pytest.raises(UserError, match=r"'f3' has 2 inputs.*model has 3 and 1"):
        ntk.spectra(problems.get("f3"), KAN([3, 1], key=jax.random.key(0)))


def test_what_the_diagonal_was_given_is_no_mode():
    """Two points thrice: four of six modes are zero, whatever the stabilisation makes of them."""
    model = KAN([2, 3, 1], grid=3, key=jax.random.key(0))
    x = np.repeat(np.array([[0.1, 0.2], [-0.5, 0.4]]), 3, axis=0)
    found = ntk.spectrum(model, x)
    assert found.floored
    output = ntk.reading(found, np.int64(2000))
    assert "Modes 3 to 6 cannot be distinguished from zero: no number of steps would do." in output
    assert "steps would be needed" not in output
    assert not ntk.Spectrum.of(with_eigenvalues([1.0, 8.0])).floored


def test_a_block_is_read_at_the_rate_of_the_whole():
    found = ntk.Spectrum.of(with_eigenvalues([1.0, 0.1]))
    assert "all 2 modes" in ntk.reading(found, 100)
    assert "0 of 2 modes" in ntk.reading(found, 100, largest=1e4)


def test_one_mode_is_spoken_of_as_one():
    assert "the only mode loses 99 % of the error in it" in ntk.reading(ntk.Spectrum.of([[1.0]]), 1)


def test_the_error_is_taken_in_double_precision():
    """Of a network in float32 that is right to the last bit nothing is left."""
    model = KAN([2, 4, 1], grid=3, key=jax.random.key(0))
    x = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), model)(x)
    assert sum(ntk.spectrum(model, x, np.asarray(exact)).error_share or ()) == 0


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.full((7, 3), np.nan), "'y' must be finite. Row 0 is not"),
        (np.zeros((3, 7)), r"'y' must be the \(7, 3\) values"),
        (np.zeros(21), r"'y' must be the \(7, 3\) values"),
    ],
)
def test_what_is_to_be_learned_is_looked_at(y, said):
    model = KAN([2, 4, 3], grid=3, key=jax.random.key(0))
    with pytest.raises(UserError, match=said):
        ntk.spectrum(model, np.zeros((7, 2)), y)


def test_a_kernel_is_symmetric_to_the_last_bit():
    x = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    for options in ({"residual": None, "init": "glorot"}, {"bias": False}, {}):
        K = ntk.kernel(KAN([2, 5, 4, 2], grid=3, key=jax.random.key(0), **options), x, chunk=4)
        assert (K == K.T).all()
    with pytest.raises(UserError, match="must be symmetric"):
        ntk.Spectrum.of([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(UserError, match="'x' must be numbers"):
        ntk.kernel(KAN([2, 1], key=jax.random.key(0)), [["a", "b"]])


def test_a_problem_goes_by_its_name():
    model = KAN([2, 3, 1], grid=3, key=jax.random.key(0))
    assert ntk.spectra("f3", model) == ntk.spectra(problems.get("f3"), model)
