"""Every transformation of the native layer agrees with the reference, on every path of its code.

The paths: one output, fewer outputs than half a vector, whole vectors, a ragged last vector; cubics
and the other degrees; more samples than a block.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import kernels
from kandle.bases import BSpline

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

# (n_in, n_out, degree)
PATHS = [(3, 1, 3), (2, 3, 3), (2, 8, 3), (2, 21, 3), (2, 1, 2), (2, 5, 5), (1, 9, 1)]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def example(n, n_in, n_out, basis, components=None):
    """Points within the domain and beside it, and weights."""
    rng = np.random.default_rng(n_in + 10 * n_out)
    x = rng.uniform(-1.4, 1.4, (n, n_in) if components is None else (components, n, n_in))
    r, c = rng.normal(size=(2, n_out, n_in))
    b = rng.normal(size=(n_out, n_in, basis.n_basis))
    return tuple(jnp.asarray(a) for a in (x, r, c, b, rng.normal(size=n_out)))


def assert_same(got, wanted):
    for (path, a), b in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True):
        scale = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a, b, atol=1e-10 * scale, err_msg=jax.tree_util.keystr(path))


@functools.partial(jax.jit, static_argnames=("basis", "backend", "names"))
def transformed(x, r, c, b, bias, *, basis, backend, names=None):
    """The layer under many transformations, or those of `names`, by their names."""
    weights = (r, c, b, bias)

    def f(x, *weights):
        return kernels.layer(x, *weights, basis=basis, residual=jax.nn.silu, backend=backend)

    def point(row, *weights):
        return f(row[None], *weights)[0]

    def loss(x, *weights):
        return jnp.sum(jnp.sin(f(x, *weights)))

    def point_loss(row, *weights):
        return jnp.sum(jnp.sin(point(row, *weights)))

    def over_points(f):
        return jax.vmap(f, (0, None, None, None, None))

    gradient = jax.grad(loss, argnums=range(5))
    directions = tuple(jnp.cos(a) for a in (x, *weights))
    few = x[:4]
    every = {
        "value": (f, x),
        "grad": (gradient, x),
        "jvp": (lambda *a: jax.jvp(f, a, directions)[1], x),
        "vmap of grad": (over_points(jax.grad(point_loss, argnums=(0, 2))), x),
        "grad of vmap": (
            jax.grad(lambda *a: jnp.sum(over_points(point)(*a) ** 2), argnums=range(5)),
            x,
        ),
        "jvp of grad": (lambda *a: jax.jvp(gradient, a, directions)[1], x),
        "grad of jvp": (
            jax.grad(lambda *a: jnp.sum(jax.jvp(f, a, directions)[1] ** 2), argnums=range(5)),
            x,
        ),
        "jacfwd": (over_points(jax.jacfwd(point)), few),
        "hessian": (over_points(jax.hessian(point)), few),
        "third derivative": (over_points(jax.jacfwd(jax.jacfwd(jax.jacfwd(point)))), few),
        "mixed, x inside": (over_points(jax.jacrev(jax.jacfwd(point_loss), argnums=(1, 2))), few),
        "mixed, x outside": (over_points(jax.jacfwd(jax.grad(point_loss, argnums=3))), few),
        "remat": (jax.grad(jax.checkpoint(loss), argnums=range(5)), x),
    }
    return {
        name: f(points, *weights)
        for name, (f, points) in every.items()
        if names is None or name in names
    }


@pytest.mark.parametrize(("n_in", "n_out", "degree"), PATHS)
def test_transformations_agree_with_the_reference(n_in, n_out, degree):
    basis = BSpline(grid=4, degree=degree)
    arguments = example(11, n_in, n_out, basis)
    got = transformed(*arguments, basis=basis, backend="native")
    assert_same(got, transformed(*arguments, basis=basis, backend="dense"))
    reference = ("value", "grad", "third derivative")
    wanted = transformed(*arguments, basis=basis, backend="reference", names=reference)
    assert wanted.keys() == set(reference)
    assert_same({k: got[k] for k in reference}, wanted)


def test_third_derivative_of_a_cubic_is_constant_in_a_cell_and_the_fourth_is_zero():
    basis = BSpline(grid=4)
    _, _, c, b, _ = example(1, 1, 1, basis)

    def f(x):
        weights = (None, c, b, None)
        options = {"basis": basis, "residual": None, "backend": "native"}
        return kernels.layer(x[None, None], *weights, **options)[0, 0]

    third = jax.grad(jax.grad(jax.grad(f)))
    in_one_cell = jnp.asarray([0.01, 0.2, 0.49])
    values = jax.vmap(third)(in_one_cell)
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    assert abs(values[0]) > 1
    np.testing.assert_array_equal(jax.vmap(jax.grad(third))(in_one_cell), 0.0)


@pytest.mark.parametrize(("n_in", "n_out", "degree"), PATHS)
@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)])
def test_gradients_of_jets_over_several_blocks_of_samples(n_in, n_out, degree, first, second):
    """Asked for together and one by one: each set of gradients has its own native call."""
    basis = BSpline(grid=6, degree=degree, domain=(-0.5, 1.0))
    arguments = example(1037, n_in, n_out, basis, components=1 + first + second)
    options = {"first": first, "second": second, "basis": basis, "residual": jax.nn.silu}

    @functools.partial(jax.jit, static_argnames="backend")
    def values(backend, *arguments):
        f = functools.partial(kernels.jet, **options, backend=backend)
        y, pullback = jax.vjp(f, *arguments)
        g = jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape)
        only_x = jax.vjp(lambda x: f(x, *arguments[1:]), arguments[0])[1](g)
        only_w = jax.vjp(lambda *w: f(arguments[0], *w), *arguments[1:])[1](g)
        return y, pullback(g), only_x, only_w

    got = values("native", *arguments)
    assert_same(got, values("dense", *arguments))
    both, only_x, only_w = got[1:]
    assert all(np.array_equal(a, b) for a, b in zip(both, (*only_x, *only_w), strict=True))


def test_jets_of_a_layer_are_nested_forward_mode():
    basis = BSpline(grid=5)
    x, *weights = example(9, 2, 8, basis)

    def f(x):
        return kernels.layer(x, *weights, basis=basis, residual=jax.nn.silu, backend="native")

    def derivative(f, axis):
        direction = jnp.zeros_like(x).at[:, axis].set(1.0)
        return lambda x: jax.jvp(f, (x,), (direction,))[1]

    wanted = [f, derivative(f, 0), derivative(f, 1)]
    wanted += [derivative(derivative(f, axis), axis) for axis in (0, 1)]
    seed = jnp.zeros((5, *x.shape)).at[0].set(x).at[1, :, 0].set(1.0).at[2, :, 1].set(1.0)
    options = {"first": 2, "second": 2, "basis": basis, "residual": jax.nn.silu}
    got = kernels.jet(seed, *weights, **options, backend="native")
    np.testing.assert_allclose(got, jnp.stack([d(x) for d in wanted]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("degree", [1, 3, 4])
def test_statistics_and_totals_under_nested_transformations(degree):
    basis = BSpline(grid=4, degree=degree)
    rng = np.random.default_rng(7)
    x = jnp.asarray(rng.uniform(-1.4, 1.4, (3, 21, 2)))

    @functools.partial(jax.jit, static_argnames="backend")
    def values(x, backend):
        def f(x):
            mean, variance = kernels.statistics(x, basis=basis, backend=backend)
            terms = jnp.sin(3 * mean) + jnp.sqrt(variance + 0.1)
            return kernels.total(jnp.ravel(terms), backend)

        def along(x):
            return jax.jvp(f, (x,), (jnp.cos(x),))[1]

        return {
            "value": jax.vmap(f)(x),
            "grad": jax.vmap(jax.grad(f))(x),
            "grad of jvp": jax.vmap(jax.grad(along))(x),
            "jvp of jvp": jax.jvp(jax.vmap(along), (x,), (jnp.sin(x),))[1],
            "grad of vmap": jax.grad(lambda x: jnp.sum(jax.vmap(f)(x) ** 2))(x),
            "hessian": jax.hessian(lambda row: f(jnp.stack([row, -row])))(x[0, 0]),
            "remat": jax.grad(jax.checkpoint(f))(x[0]),
        }

    assert_same(values(x, "native"), values(x, "reference"))
