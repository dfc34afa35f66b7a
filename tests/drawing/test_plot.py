"""The picture of a network: what is drawn, where, how dark, and what is left out."""

import itertools

import jax
import numpy as np
import pytest

import kandle
from kandle import KAN
from kandle.cli import main
from kandle.drawing import picture
from kandle.drawing._network import _BOX, _Canvas

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def model():
    return KAN([2, 8, 8, 1], grid=5, key=KEY)


def test_every_edge_is_drawn_as_dark_as_it_is_important(model):
    x = jax.random.uniform(jax.random.key(1), (200, 2), minval=-1.0)
    laid_out = picture(model, x)
    assert laid_out.hidden == (0, 0, 0)
    assert len(laid_out.edges) == 16 + 64 + 8
    found = model.edges(x)
    for edge in laid_out.edges:
        expected = found[edge.layer].relative[edge.output, edge.input]
        assert edge.opacity == pytest.approx(expected)
    # The curve is the function, scaled to the unit square.
    edge = laid_out.edges[20]
    t, y = found[edge.layer].curve(edge.output, edge.input, len(edge.x))
    np.testing.assert_allclose(edge.y, (y - y.min()) / np.ptp(y))
    np.testing.assert_allclose(edge.x, (t - t.min()) / np.ptp(t))


@pytest.fixture(scope="module")
def large():
    return KAN([20, 64, 64, 1], key=KEY)


@pytest.mark.parametrize("name", ["model", "large"])
def test_boxes_do_not_overlap_and_stay_inside(name, request):
    laid_out = picture(request.getfixturevalue(name))
    canvas = _Canvas(laid_out)
    corners = [canvas.box(edge) for edge in laid_out.edges]
    for left, bottom in corners:
        assert left >= 0
        assert left + _BOX <= canvas.width
        assert bottom >= 0
        assert bottom + _BOX <= canvas.height
    for (x, y), (u, v) in itertools.combinations(corners, 2):
        assert abs(x - u) >= _BOX or abs(y - v) >= _BOX


def test_a_large_network_shows_the_strongest_edges_and_counts_the_others(large, tmp_path):
    laid_out = picture(large)
    assert laid_out.hidden == (20 * 64 - 64, 64 * 64 - 64, 0)
    relative = large.edges(np.random.default_rng(0).uniform(-1, 1, (1000, 20)))[0].relative
    drawn = [edge.opacity for edge in laid_out.edges if edge.layer == 0]
    np.testing.assert_allclose(np.sort(drawn), np.sort(relative, axis=None)[-64:], rtol=1e-5)
    names = [f"x_{i}" for i in range(20)]
    figure = kandle.plot(large, tmp_path / "large.png", input_names=names, title="Large")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "64 of 1,280 edges drawn, 1,216 weaker ones hidden" in texts
    assert "64 of 4,096 edges drawn, 4,032 weaker ones hidden" in texts
    assert {*names, "y", "Large"} <= set(texts)
    assert (tmp_path / "large.png").read_bytes().startswith(b"\x89PNG")


def test_pruned_edges_leave_no_trace(model):
    x = jax.random.uniform(jax.random.key(1), (200, 2), minval=-1.0)
    pruned = model.prune(x, keep=10).model
    laid_out = picture(pruned, x)
    assert len(laid_out.edges) <= 10


def test_a_notebook_shows_the_figure_without_pyplot():
    figure = kandle.plot(KAN([1, 1], key=KEY))
    assert figure._repr_png_().startswith(b"\x89PNG")  # pyright: ignore


def test_the_command_draws_a_saved_model(tmp_path, model, capsys):
    kandle.save(model, tmp_path / "model.safetensors")
    out = tmp_path / "model.svg"
    assert main(["plot", str(tmp_path / "model.safetensors"), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert "<svg" in out.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "model.bmp"}, r"\.png.*Got 'model.bmp'"),
        ({"edges_per_layer": 0}, "at least 1. Got 0"),
        ({"input_names": ["a"]}, "2 names"),
    ],
)
def test_arguments_are_checked(model, options, message):
    with pytest.raises(ValueError, match=message):
        kandle.plot(model, **options)
