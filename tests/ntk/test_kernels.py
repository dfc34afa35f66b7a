"""Tangent kernels against brute force, against each other, and where they are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, ntk, problems
from kandle._errors import UserError
from kandle.nn import Derivatives
from kandle.splines import SplineBasis, cox_de_boor

BOX = [(0.0, 1.0), (-1.0, 1.0)]


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def network(widths=(2, 3, 2, 1), *, dtype=jnp.float64, **options) -> KAN:
    options = {"grid": 4, "init": "baseline", "key": jax.random.key(1), **options}
    model = KAN(widths, dtype=dtype, **options)
    # Away from the start, where c is 1 and biases are 0, so that no formula gets them for free.
    leaves, structure = jax.tree.flatten(model)
    keys = jax.random.split(jax.random.key(7), len(leaves))
    moved = [
        leaf + 0.3 * jax.random.normal(k, leaf.shape, leaf.dtype)
        for leaf, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


def points(n: int = 9, n_in: int = 2) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.9, 0.9, (n, n_in))


def moved(model: KAN, leaf: int, index: tuple, by: float) -> KAN:
    leaves, structure = jax.tree.flatten(model)
    leaves[leaf] = leaves[leaf].at[index].add(by)
    return jax.tree.unflatten(structure, leaves)


def differences(model: KAN, quantities, h: float = 1e-5) -> np.ndarray:
    """∂q/∂θ by central differences: (q, weights)."""
    columns = []
    for leaf, array in enumerate(jax.tree.leaves(model)):
        for index in np.ndindex(array.shape):
            up, down = (quantities(moved(model, leaf, index, s * h)) for s in (1, -1))
            columns.append((np.ravel(up) - np.ravel(down)) / (2 * h))
    return np.stack(columns, axis=1)


def heat() -> problems.PDE:
    """Not linear in u, so that the residual's own derivatives matter."""
    return problems.PDE(
        "heat",
        lambda x, d: (
            d.first[0] - 0.1 * d.second[1] + d.value * d.first[1] + x[:, :1] * d.value**2
        )[:, 0],
        BOX,
        [problems.side("start", BOX, axis=0, at=0.0, value=0.0)],
        first=(0, 1),
        second=(1,),
    )


@pytest.mark.parametrize("route", ntk.ROUTES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"residual": None},
        {"residual": jnp.tanh, "degree": 2},
        {"backend": "dense", "degree": 5},
        {"domain": (-2.0, 3.0), "grid": (2, 5, 3)},
        {"widths": (2, 3)},
    ],
    ids=str,
)
def test_kernel_is_the_jacobian_times_its_transpose(route, options):
    model, x = network(**options), points()
    J = jax.tree.leaves(jax.jacobian(lambda m: m(x))(model))
    J = np.concatenate([np.reshape(part, (*part.shape[:2], -1)) for part in J], axis=2)
    expected = np.einsum("nop,mop->nm", J, J)
    np.testing.assert_allclose(ntk.kernel(model, x, route=route), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("route", ntk.ROUTES)
def test_kernel_is_that_of_finite_differences(route):
    model, x = network((2, 2, 1)), points(5)
    J = differences(model, lambda m: m(x))
    np.testing.assert_allclose(ntk.kernel(model, x, route=route), J @ J.T, rtol=1e-7, atol=1e-8)


def test_several_outputs_give_the_trace_kernel():
    model, x = network((2, 3, 3)), points()
    one = sum(
        ntk.kernel(_output(model, o), x) for o in range(3)
    )  # each alone: its own edges of the last layer, and all of the layer before
    for route in ntk.ROUTES:
        np.testing.assert_allclose(ntk.kernel(model, x, route=route), one, rtol=1e-11)


def _output(model: KAN, o: int) -> KAN:
    first, last = model.layers
    parts = (last.r[o : o + 1], last.c[o : o + 1], last.b[o : o + 1], last.bias[o : o + 1])
    return KAN.from_layers([first, type(last)(*parts, basis=last.basis, residual=last.residual)])


def test_a_layer_linear_in_its_weights_has_a_known_kernel():
    model = KAN([2, 1], grid=3, init="baseline", key=jax.random.key(0), dtype=jnp.float64)
    layer, x = model.layers[0], points(6)
    B = np.asarray(cox_de_boor(x, SplineBasis(3).knots, 3))  # (N, 2, 6)
    silu = x / (1 + np.exp(-x))
    S = np.einsum("im,nim->ni", layer.b[0], B)
    # c is one at the start; by b, c, r and the bias:
    known = np.einsum("nim,kim->nk", B, B) + S @ S.T + silu @ silu.T + 1.0
    for route in ntk.ROUTES:
        np.testing.assert_allclose(ntk.kernel(model, x, route=route), known, rtol=1e-12)


def test_kernel_is_symmetric_and_positive_semidefinite():
    model, x = network((2, 4, 4, 2)), points(40)
    for route in ntk.ROUTES:
        K = ntk.kernel(model, x, route=route)
        assert np.array_equal(K, K.T)
        assert np.linalg.eigvalsh(K)[0] > -1e-13 * np.trace(K)


@pytest.mark.parametrize("chunk", [1, 4, 9, 100])
def test_chunks_do_not_matter(chunk):
    model, x = network(), points()
    np.testing.assert_allclose(ntk.kernel(model, x, chunk=chunk), ntk.kernel(model, x), rtol=1e-12)
    pde = heat()
    ours = ntk.blocks(model, pde, x, x[:3], chunk=chunk)
    for block, K in ntk.blocks(model, pde, x, x[:3]).items():
        np.testing.assert_allclose(ours[block], K, rtol=1e-11, atol=1e-11)


def test_a_float32_model_has_a_float64_kernel():
    with jax.enable_x64(False):
        single = network(dtype=jnp.float32)
        K = ntk.kernel(single, points().tolist())
        blocks = ntk.blocks(single, heat(), points(), points(3))
        assert jnp.zeros(1).dtype == jnp.float32
    assert K.dtype == np.float64
    exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), single)
    np.testing.assert_allclose(K, ntk.kernel(exact, points()), rtol=1e-13)
    for block, K in ntk.blocks(exact, heat(), points(), points(3)).items():
        np.testing.assert_allclose(blocks[block], K, rtol=1e-11)


@pytest.mark.parametrize("route", ntk.ROUTES)
@pytest.mark.parametrize("first, second", [((0, 1), (1,)), ((0, 1), (0, 1)), ((1,), ()), ((), ())])
def test_residual_blocks_are_those_of_nested_autodiff(route, first, second):
    def residual(x, d):
        terms = [d.value**2, *d.first.values(), *(d.value * dd for dd in d.second.values())]
        return sum((i + 1.0) * x[:, :1] * term for i, term in enumerate(terms))[:, 0]

    sides = [problems.side("start", BOX, axis=0, at=0.0, value=0.0)]
    pde = problems.PDE("any", residual, BOX, sides, first=first, second=second)
    model, x, y = network(), points(7), points(4)

    def nested(model, x):
        def u(z):
            return model(z[None])[0]

        grad, hess = jax.vmap(jax.jacrev(u))(x), jax.vmap(jax.jacfwd(jax.jacrev(u)))(x)
        return residual(
            x,
            Derivatives(
                model(x),
                {i: grad[:, :, i] for i in first},
                {i: hess[:, :, i, i] for i in second},
            ),
        )

    def flat(J, n):
        return np.concatenate([np.reshape(part, (n, -1)) for part in jax.tree.leaves(J)], axis=1)

    J = {
        "pde": flat(jax.jacobian(nested)(model, x), 7),
        "bc": flat(jax.jacobian(lambda m: m(y))(model), 4),
    }
    found = ntk.blocks(model, pde, x, y, route=route)
    assert set(found) == {(a, b) for a in J for b in J}
    for (a, b), K in found.items():
        np.testing.assert_allclose(K, J[a] @ J[b].T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("route", ntk.ROUTES)
def test_residual_blocks_are_those_of_finite_differences(route):
    model, x, y = network((2, 2, 1)), points(5), points(3)
    pde = heat()
    J = {
        "pde": differences(model, lambda m: pde.residual(x, m.derivatives(x, (0, 1), (1,)))),
        "bc": differences(model, lambda m: m(y)),
    }
    for (a, b), K in ntk.blocks(model, pde, x, y, route=route).items():
        np.testing.assert_allclose(K, J[a] @ J[b].T, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("route", ntk.ROUTES)
def test_attention_scales_rows_and_columns(route):
    model, x, y = network(), points(7), points(4)
    rng = np.random.default_rng(1)
    rba = {"pde": rng.uniform(0, 3, 7), "bc": rng.uniform(0, 3, 4)}
    plain = ntk.blocks(model, heat(), x, y, route=route)
    for (a, b), K in ntk.blocks(model, heat(), x, y, rba=rba, route=route).items():
        expected = np.diag(rba[a]) @ plain[a, b] @ np.diag(rba[b])
        np.testing.assert_allclose(K, expected, rtol=1e-12)
    only = ntk.blocks(model, heat(), x, y, rba={"bc": rba["bc"]}, route=route)
    np.testing.assert_allclose(only["pde", "pde"], plain["pde", "pde"])


def test_all_blocks_together_are_one_kernel():
    model = network((2, 3, 2))  # a field of two components: two condition rows a point
    pde = problems.PDE(
        "two",
        lambda x, d: d.first[0][:, 0] - d.value[:, 1] * d.second[1][:, 0],
        BOX,
        [problems.Condition("start", np.zeros((1, 2)), np.zeros((1, 2)))],
        first=(0, 1),
        second=(1,),
        n_out=2,
    )
    x, y = points(6), points(4)
    routes = [ntk.blocks(model, pde, x, y, route=route) for route in ntk.ROUTES]
    assert routes[0]["bc", "bc"].shape == (8, 8)
    for block, K in routes[0].items():
        np.testing.assert_allclose(K, routes[1][block], rtol=1e-10, atol=1e-11)
    K = np.block([[routes[0][a, b] for b in ("pde", "bc")] for a in ("pde", "bc")])
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] > -1e-12 * np.trace(K)
    J = jax.tree.leaves(jax.jacobian(lambda m: m(y).ravel())(model))
    J = np.concatenate([np.reshape(part, (8, -1)) for part in J], axis=1)
    np.testing.assert_allclose(routes[0]["bc", "bc"], J @ J.T, rtol=1e-10)


def test_a_normalized_model_is_a_function_of_its_batch():
    model, x = network((2, 3, 1), init="lecun-normalized"), points()
    J = differences(model, lambda m: m(x))
    np.testing.assert_allclose(ntk.kernel(model, x), J @ J.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="'jacobian', or the model frozen"):
        ntk.kernel(model, x, route="layerwise")


def test_a_frozen_model_has_constant_statistics():
    x = points()
    model = network((2, 3, 1), init="lecun-normalized").freeze(x)
    fixed = [(layer.mean, layer.variance) for layer in model.layers]

    def frozen(m):
        layers = [
            type(layer)(
                layer.r, layer.c, layer.b, layer.bias, *statistics,
                basis=layer.basis, residual=layer.residual, normalized=True,
            )
            for layer, statistics in zip(m.layers, fixed, strict=True)
        ]  # fmt: skip
        return KAN.from_layers(layers)(x)

    J = jax.tree.leaves(jax.jacobian(frozen)(model))
    J = np.concatenate([np.reshape(part, (len(x), -1)) for part in J], axis=1)
    for route in ntk.ROUTES:
        np.testing.assert_allclose(ntk.kernel(model, x, route=route), J @ J.T, rtol=1e-9)
    routes = [ntk.blocks(model, heat(), x, x[:3], route=route) for route in ntk.ROUTES]
    for block, K in routes[0].items():
        np.testing.assert_allclose(K, routes[1][block], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"x": np.zeros((3, 3))}, "'x' must be points of the model's 2 inputs"),
        ({"x": np.zeros((0, 2))}, "N of at least 1"),
        ({"x": [[0.0, 0.0], [0.0, np.nan]]}, "Row 1 is not"),
        ({"route": "magic"}, "Unknown route 'magic'.*layerwise, jacobian"),
        ({"chunk": 0}, "'chunk' must be an integer of at least 1"),
        ({"model": "f3"}, "'model' must be a KAN"),
    ],
)
def test_errors_say_what_is_wrong(change, said):
    given = {"model": network(), "x": points(), **change}
    with pytest.raises(UserError, match=said):
        ntk.kernel(given.pop("model"), given.pop("x"), **given)


def test_errors_of_blocks_and_models():
    model, x = network(), points()
    with pytest.raises(UserError, match="'conditions' must be points"):
        ntk.blocks(model, heat(), x, x[:, :1])
    with pytest.raises(UserError, match=r"'rba\['pde'\]' must be 9 finite numbers"):
        ntk.blocks(model, heat(), x, x, rba={"pde": np.ones(4)})
    with pytest.raises(UserError, match="not finite"):
        ntk.kernel(jax.tree.map(lambda leaf: leaf * np.nan, model), x)
