"""`jax.export` of a network: plain operations of any batch size, or an error that says why not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from kandle import KAN, bases, kernels

X = jax.random.uniform(jax.random.key(1), (7, 2), minval=-1.2, maxval=1.2)


def exported(function):
    (n,) = export.symbolic_shape("n")
    return export.export(jax.jit(lambda x: function(x)))(jax.ShapeDtypeStruct((n, 2), jnp.float32))


@pytest.mark.parametrize("options", [{"grid": 5}, {"basis": bases.Chebyshev(4)}])
def test_one_export_serves_every_batch_size(options):
    model = KAN([2, 4, 1], key=jax.random.key(0), **options).with_backend("dense")
    again = export.deserialize(exported(model).serialize())
    assert "@kandle" not in again.mlir_module()
    for rows in (1, 7):
        np.testing.assert_allclose(again.call(X[:rows]), model(X[:rows]), rtol=1e-6, atol=1e-7)


def test_derivatives_are_exported_too():
    model = KAN([2, 4, 1], grid=5, key=jax.random.key(0), backend="dense")

    def laplacian(x):
        second = model.derivatives(x, first=(0, 1), second=(0, 1)).second
        return second[0] + second[1]

    again = export.deserialize(exported(laplacian).serialize())
    np.testing.assert_allclose(again.call(X), laplacian(X), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(kernels.default_backend() != "native", reason="needs the native kernels")
def test_native_says_why_it_cannot_be_exported():
    model = KAN([2, 4, 1], grid=5, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"library in this process.*with_backend\('dense'\)"):
        exported(model)
    np.testing.assert_allclose(model.with_backend("dense")(X), model(X), rtol=1e-5, atol=1e-6)


def test_the_backend_must_be_known():
    with pytest.raises(ValueError, match="dense"):
        KAN([2, 1], key=jax.random.key(0)).with_backend("fast")
