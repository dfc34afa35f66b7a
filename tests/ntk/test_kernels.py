"""Tangent kernels against brute force, against each other, and where they are known."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, ntk, problems
from kandle.bases import BSpline
from kandle.nn import Derivatives, KANLayer

_TABLES = [(2, 7)]  # the shape of frozen statistics, (n_in, n_basis), and of nothing else
BOX = [(0.0, 1.0), (-1.0, 1.0)]


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def network(
    widths=(2, 2, 2, 1),
    *,
    grid=4,
    degree=3,
    domain=(-1.0, 1.0),
    residual=jax.nn.silu,
    bias=True,
    normalized=False,
    dtype=np.float64,
    backend=None,
) -> KAN:
    """A network of numbers drawn here, so that no weight is 0 or 1 and no formula gets them free.

    NumPy draws them: a scheme would compile a program for every shape.
    """
    rng = np.random.default_rng(1)

    def draw(*shape: int):
        return jnp.asarray(rng.normal(0, 0.7, shape).astype(dtype))

    return KAN.from_layers(
        KANLayer(
            draw(n_out, n_in) if residual else None,
            draw(n_out, n_in),
            draw(n_out, n_in, grid + degree),
            draw(n_out) if bias else None,
            basis=BSpline(grid, degree, domain),
            residual=residual,
            normalized=normalized,
            backend=backend,
        )
        for n_in, n_out in itertools.pairwise(widths)
    )


def points(n: int = 9, n_in: int = 2) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.9, 0.9, (n, n_in))


def moved(model: KAN, leaf: int, index: tuple, by: float) -> KAN:
    leaves, structure = jax.tree.flatten(model)
    leaves[leaf] = leaves[leaf].at[index].add(by)
    return jax.tree.unflatten(structure, leaves)


def differences(model: KAN, quantities, h: float = 1e-5, but=()) -> np.ndarray:
    """∂q/∂θ by central differences: (q, weights); leaves in `but` are no weights."""
    columns = []
    for leaf, array in enumerate(jax.tree.leaves(model)):
        if leaf in but:
            continue
        for index in np.ndindex(array.shape):
            up, down = (quantities(moved(model, leaf, index, s * h)) for s in (1, -1))
            columns.append((np.ravel(up) - np.ravel(down)) / (2 * h))
    return np.stack(columns, axis=1)


def heat() -> problems.PDE:
    """Not linear in u, so that the residual's own derivatives matter."""

    def residual(x, d):
        u, u_t, u_x, u_xx = d.value, d.first[0], d.first[1], d.second[1]
        return (u_t - 0.1 * u_xx + u * u_x + x[:, :1] * u**2)[:, 0]

    start = problems.side("start", BOX, axis=0, at=0.0, value=0.0)
    return problems.PDE("heat", residual, BOX, [start], first=(0, 1), second=(1,))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "residual": None},
        {"residual": jnp.tanh, "degree": 2},
        {"backend": "dense", "degree": 5, "domain": (-2.0, 3.0)},
        {"widths": (2, 3)},
    ],
    ids=["plain", "no residual, no bias", "tanh, quadratic", "dense, quintic", "one layer"],
)
def test_kernel_is_the_jacobian_times_its_transpose(options):
    model, x = network(**options), points()
    J = differences(model, lambda m: m(x)).reshape(len(x), model.widths[-1], -1)
    expected = np.einsum("nop,mop->nm", J, J)
    routes = [ntk.kernel(model, x, route=route) for route in ntk.ROUTES]
    np.testing.assert_allclose(routes[0], expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(routes[0], routes[1], rtol=1e-11, atol=1e-12)


def test_several_outputs_give_the_trace_kernel():
    model, x = network((2, 2, 3)), points()
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
    model, x = network((2, 1), grid=3), points(6)
    layer = model.layers[0]
    B = BSpline(3).values(x)  # (N, 2, 6)
    silu = x / (1 + np.exp(-x))
    S = np.einsum("im,nim->ni", layer.b[0], B)
    # By b, c, r and the bias:
    known = np.einsum("i,nim,kim->nk", layer.c[0] ** 2, B, B) + S @ S.T + silu @ silu.T + 1.0
    for route in ntk.ROUTES:
        np.testing.assert_allclose(ntk.kernel(model, x, route=route), known, rtol=1e-12)


def test_kernel_is_symmetric_and_positive_semidefinite():
    model, x = network((2, 2, 2)), points(40)
    for route in ntk.ROUTES:
        K = ntk.kernel(model, x, route=route)
        assert np.array_equal(K, K.T)
        assert np.linalg.eigvalsh(K)[0] > -1e-13 * np.trace(K)


@pytest.mark.parametrize("chunk", [4, 100])
def test_chunks_do_not_matter(chunk):
    model, x = network(), points()
    np.testing.assert_allclose(ntk.kernel(model, x, chunk=chunk), ntk.kernel(model, x), rtol=1e-12)
    pde = heat()
    ours = ntk.blocks(model, pde, x, x[:3], chunk=chunk)
    for block, K in ntk.blocks(model, pde, x, x[:3]).items():
        np.testing.assert_allclose(ours[block], K, rtol=1e-11, atol=1e-11)


def test_a_float32_model_has_a_float64_kernel():
    with jax.enable_x64(False):
        single = network(dtype=np.float32)
        K = ntk.kernel(single, points().tolist())
        blocks = ntk.blocks(single, heat(), points(), points(3))
        assert jnp.zeros(1).dtype == jnp.float32
    assert K.dtype == np.float64
    exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), single)
    np.testing.assert_allclose(K, ntk.kernel(exact, points()), rtol=1e-13)
    for block, K in ntk.blocks(exact, heat(), points(), points(3)).items():
        np.testing.assert_allclose(blocks[block], K, rtol=1e-11)


@pytest.mark.parametrize(("first", "second"), [((0, 1), (1,)), ((1, 0), (0, 1)), ((1,), ())])
def test_residual_blocks_are_those_of_nested_autodiff(first, second):
    def residual(x, d):
        terms = [d.value**2, *d.first.values(), *(d.value * dd for dd in d.second.values())]
        return sum((i + 1.0) * x[:, :1] * term for i, term in enumerate(terms))[:, 0]

    sides = [problems.side("start", BOX, axis=0, at=0.0, value=0.0)]
    pde = problems.PDE("any", residual, BOX, sides, first=first, second=second)
    model, x, y = network(), points(7), points(4)

    @jax.jit
    def nested(model):
        def u(z):
            return model(z[None])[0]

        grad, hess = jax.vmap(jax.jacrev(u))(x), jax.vmap(jax.jacfwd(jax.jacrev(u)))(x)
        along = {i: grad[:, :, i] for i in first}
        return residual(x, Derivatives(model(x), along, {i: hess[:, :, i, i] for i in second}))

    J = {"pde": differences(model, nested), "bc": differences(model, lambda m: m(y))}
    routes = [ntk.blocks(model, pde, x, y, route=route) for route in ntk.ROUTES]
    assert set(routes[0]) == {(a, b) for a in J for b in J}
    for (a, b), K in routes[0].items():
        expected = J[a] @ J[b].T
        np.testing.assert_allclose(K, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
        np.testing.assert_allclose(K, routes[1][a, b], rtol=1e-10, atol=1e-10)


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
    model = network((2, 2, 2))  # a field of two components: two condition rows a point
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
    J = differences(model, lambda m: m(y))
    np.testing.assert_allclose(routes[0]["bc", "bc"], J @ J.T, rtol=1e-7, atol=1e-7)


def test_a_normalized_model_is_a_function_of_its_batch():
    model, x = network((2, 2, 1), normalized=True), points()
    J = differences(model, lambda m: m(x))
    np.testing.assert_allclose(ntk.kernel(model, x), J @ J.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="'jacobian', or the model frozen"):
        ntk.kernel(model, x, route="layerwise")


def test_a_frozen_model_has_constant_statistics():
    x = points()
    model = network((2, 2, 1), normalized=True).freeze(x)
    statistics = [i for i, leaf in enumerate(jax.tree.leaves(model)) if leaf.shape in _TABLES]
    assert len(statistics) == 4
    J = differences(model, lambda m: m(x), but=statistics)
    for route in ntk.ROUTES:
        np.testing.assert_allclose(ntk.kernel(model, x, route=route), J @ J.T, rtol=1e-6)
    routes = [ntk.blocks(model, heat(), x, x[:3], route=route) for route in ntk.ROUTES]
    for block, K in routes[0].items():
        np.testing.assert_allclose(K, routes[1][block], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "said"),
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
