"""The squared error of a network of bases without local support in one call."""

import functools
import hashlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_native_fit import assert_close, data, digest_elsewhere, loss, plain_loss

from kandle import KAN, bases, kernels
from kandle._route import LayerSpec
from kandle.kernels import _library, _network

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

# One function and more than a tile of them, every squash, with and without the constant, domains
# in which tanh and SiLU are of the same number and others, centers closer and wider than usual.
BASES = [
    bases.Chebyshev(8),
    bases.Chebyshev(1),
    bases.Chebyshev(4, domain=(-2.0, 1.0), squash="clip", constant=True),
    bases.Chebyshev(1, constant=True),
    bases.Legendre(9, constant=True),
    bases.Legendre(18, domain=(-2.0, 2.0)),
    bases.Legendre(3, squash="clip"),
    bases.Fourier(1),
    bases.Fourier(5, frequency=2.5),
    bases.RBF(8),
    bases.RBF(3, domain=(0.0, 3.0), width=0.1),
    bases.RBF(21, width=0.7),
]
SHAPES = [((2, 8, 8, 1), 1000), ((3, 5, 9, 2), 390), ((1, 1), 3), ((2, 3, 17, 6), 33)]


def network(widths, basis, dtype="float32", residual="silu", bias=True, seed=0):
    options = {"basis": basis, "residual": residual, "bias": bias, "dtype": dtype}
    return KAN(widths, key=jax.random.key(seed), backend="native", **options)


@pytest.mark.parametrize("basis", BASES, ids=str)
def test_value_and_gradient_are_those_of_the_layers(basis):
    """Types, shapes, SiLU and bias take turns, so that every basis meets each of them."""
    place = BASES.index(basis)
    for turn, (widths, n) in enumerate(SHAPES):
        dtype = ("float32", "float64")[(place + turn // 2) % 2]
        residual, bias = "silu" if (place + turn) % 3 else None, turn % 2 == 0
        if max(widths) * basis.n_basis > 256:
            continue
        with jax.enable_x64(dtype == "float64"):
            model, arrays = network(widths, basis, dtype, residual, bias), data(widths, n, dtype)
            reference = model.with_backend("reference")
            got = jax.jit(jax.value_and_grad(loss))(model, arrays)
            assert_close(got, jax.jit(jax.value_and_grad(plain_loss))(reference, arrays), dtype)
            # Line searches compare values that came with a gradient and values that did not.
            np.testing.assert_array_equal(got[0], jax.jit(loss)(model, arrays))


@pytest.mark.parametrize("far", [30.0, 1e4, 1e20, 3e38])
@pytest.mark.parametrize("basis", [BASES[0], BASES[2], bases.RBF(8)], ids=str)
def test_points_far_outside_are_finite(basis, far):
    model, arrays = network((2, 4, 1), basis, residual=None), data((2, 4, 1), 40, "float32")
    arrays["x"] = arrays["x"].at[7].set(far).at[8, 0].set(-far)
    got = jax.jit(jax.value_and_grad(loss))(model, arrays)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(got))
    wanted = jax.jit(jax.value_and_grad(plain_loss))(model.with_backend("reference"), arrays)
    assert_close(got, wanted, "float32")


@pytest.mark.parametrize("name", ["x", "y", "weight"])
@pytest.mark.parametrize("basis", [BASES[0], BASES[2], bases.Fourier(3), bases.RBF(8)], ids=str)
def test_a_nan_reaches_loss_and_gradients(name, basis):
    model, arrays = network((2, 8, 1), basis), data((2, 8, 1), 801, "float32")
    for row, value in ((0, np.nan), (399, np.nan), (800, np.nan), (5, np.inf)):
        changed = {**arrays, name: arrays[name].at[row].set(value)}
        found, gradient = jax.value_and_grad(loss)(model, changed)
        assert np.isnan(found) or (name != "x" and np.isinf(found))
        if np.isnan(value):
            for layer in gradient.layers:
                for leaf in (layer.r, layer.c, layer.bias):
                    assert np.isnan(leaf).all()


def test_no_rows_have_no_error():
    model, arrays = network((2, 8, 1), BASES[0]), data((2, 8, 1), 20, "float32")
    value, gradient = jax.value_and_grad(loss)(model, {k: v[:0] for k, v in arrays.items()})
    assert value == 0
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


def test_derivatives_in_data_and_second_derivatives():
    with jax.enable_x64(True):
        model, arrays = network((2, 3, 1), BASES[0], "float64"), data((2, 3, 1), 20, "float64")
        reference = model.with_backend("dense")
        direction = jax.tree.map(jnp.ones_like, model)

        def derivatives(loss, model, direction):
            by_data = jax.grad(loss, argnums=1)(model, arrays)
            return by_data, jax.jvp(lambda m: jax.grad(loss)(m, arrays), (model,), (direction,))[1]

        wanted = derivatives(plain_loss, reference, direction.with_backend("dense"))
        assert_close(derivatives(loss, model, direction), wanted, "float64")


def test_shared_and_own_operands_of_several_models():
    """Every operand, in turn, belongs to one model or to all of three."""
    basis, widths = bases.Chebyshev(5), (2, 5, 1)
    arrays, model = data(widths, 50, "float32"), network(widths, bases.Chebyshev(5))
    flat = [w for layer in model.layers for w in (layer.r, layer.c, layer.b, layer.bias)]
    operands = [a[None] for a in (arrays["x"], arrays["y"], arrays["weight"], *flat)]
    layers = tuple(LayerSpec(*shape, basis, "silu") for shape in itertools.pairwise(widths))
    static = {"layers": layers, "want_w": True}
    composed = jax.jit(functools.partial(_network._fit_composed, **static))
    for shared in range(len(operands)):
        factors = jnp.array([1.0, 0.5, -0.8])
        own = [
            o if i == shared else factors.reshape(3, *[1] * (o.ndim - 1)) * o
            for i, o in enumerate(operands)
        ]
        assert_close(_network.fit_p.bind(*own, **static), composed(*own), "float32")


def test_all_these_bases_have_such_a_call():
    for basis in BASES:
        model, arrays = network((2, 8, 1), basis), data((2, 8, 1), 10, "float32")
        assert kernels.route(model, arrays["x"], arrays["y"]).path == "one call"


@pytest.mark.optimized
@pytest.mark.parametrize("basis", [bases.Chebyshev(8), bases.RBF(8)], ids=str)
def test_bits_do_not_depend_on_the_batch_or_the_slot(basis):
    """One model alone is cut into chunks of samples, sixteen are not."""
    arrays = data((2, 8, 1), 2500, "float32")
    models = [network((2, 8, 1), basis, seed=seed) for seed in range(16)]
    alone = [jax.jit(jax.value_and_grad(loss))(model, arrays) for model in models[:3]]
    for order in (list(range(16)), list(reversed(range(16))), [0, 1, 2]):
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(models[i] for i in order))
        batch = jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(0, None)))(stacked, arrays)
        for i in range(3):
            mine = jax.tree.map(lambda leaf: leaf[order.index(i)], batch)  # noqa: B023
            jax.tree.map(np.testing.assert_array_equal, mine, alone[i])


def digest():
    """A hash of loss and gradients of a large enough network, for another process."""
    found = hashlib.sha256()
    for basis in (BASES[0], bases.RBF(8)):
        arrays = data((2, 8, 8, 1), 3000, "float32")
        got = jax.jit(jax.value_and_grad(loss))(network((2, 8, 8, 1), basis), arrays)
        found.update(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(got)))
    return found.hexdigest()


@pytest.mark.optimized
def test_bits_do_not_depend_on_threads():
    assert len({digest_elsewhere(__name__, threads) for threads in (1, 2, 3)}) == 1


def test_wrong_arguments_are_errors():
    """The handler called directly: every wrong shape or number is named."""
    widths, count, n = (2, 3, 1), 5, 4
    shapes = [(1, n, 2), (1, n, 1), (1, n)]
    for n_in, n_out in itertools.pairwise(widths):
        shapes += [(1, n_out, n_in), (1, n_out, n_in), (1, n_out, n_in, count), (1, n_out)]
    attributes = {
        "family": np.array([0, 3]),
        "count": np.array([count, count]),
        "constant": np.array([0, 0]),
        "tanh": np.array([1, 1]),
        "lo": np.array([-1.0, -1.0]),
        "hi": np.array([1.0, 1.0]),
        "scale": np.array([1.0, 1.0]),
        "residual": np.array([1, 1]),
    }
    results = [jax.ShapeDtypeStruct((1, *s[1:]), "float32") for s in [(1,), *shapes[3:]]]

    def call(shapes=shapes, results=results, **changed):
        target = _library.target("fit_global", np.dtype("float32"))
        run = jax.ffi.ffi_call(target, results)
        return run(*(jnp.zeros(s, "float32") for s in shapes), **attributes | changed)

    call()
    call(results=results[:1])
    for position, shape in enumerate(shapes):
        for wrong in ((*shape[:-1], shape[-1] + 1), shape[1:], (2, *shape[1:])):
            with pytest.raises(Exception, match=r"kandle: .* must be"):
                call(shapes=[wrong if i == position else s for i, s in enumerate(shapes)])
    for position, result in enumerate(results):
        wrong = jax.ShapeDtypeStruct((*result.shape, 2), "float32")
        with pytest.raises(Exception, match=r"kandle: .* must be"):
            call(results=[wrong if i == position else r for i, r in enumerate(results)])
    bad = {
        "family": [-1, 4, 2**40],
        "count": [-1, 0, 4, 6, 1025, 2**62],
        "constant": [1],
        "lo": [np.nan, np.inf, 2.0],
        "hi": [np.nan, np.inf, -2.0],
        "scale": [np.nan, np.inf, 0.0, -1.0],
    }
    for name, values in bad.items():
        for value, place in itertools.product(values, range(2)):
            if name == "constant" and place == 1:
                continue  # Gaussians have none
            changed = attributes[name].copy()
            changed[place] = value
            with pytest.raises(Exception, match=r"kandle: .* must be"):
                call(**{name: changed})
    for name, given in attributes.items():
        for changed in (given[:1], given[:0], np.concatenate([given, given])):
            with pytest.raises(Exception, match=r"kandle: .* must be"):
                call(**{name: changed})
    for kept in (shapes[:-1], shapes[:3]):
        with pytest.raises(Exception, match="number of weights must be"):
            call(shapes=kept)
    with pytest.raises(Exception, match="number of gradients must be"):
        call(results=results[:-1])
    wide = [(1, n, 2000), (1, n, 1), (1, n), (1, 1, 2000), (1, 1, 2000), (1, 1, 2000, 5), (1, 1)]
    one = {name: given[:1] for name, given in attributes.items()}
    with pytest.raises(Exception, match="a layer must be one that the kernels accept"):
        call(shapes=wide, results=results[:1], **one)
