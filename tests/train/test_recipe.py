"""Recipes and continuation: one argument sets a training, and networks go on from others."""

import json

import jax
import numpy as np
import pytest

from kandle import KAN, UserError
from kandle.store import compact
from kandle.study import Axes, register
from kandle.study._cost import DEFAULT
from kandle.study._declare import declare
from kandle.study._exchange import defaults
from kandle.study._registry import draws_names
from kandle.study._trainer import train_batch
from kandle.train import RECIPES, Architecture, recipe, train

SHAPE = Architecture(width=2, depth=1, grid=3)
DECLARED = {
    "name": "recipes",
    "problems": ["f1", "burgers"],
    "grids": [3],
    "widths": [2],
    "depths": [1],
    "schemes": [{"name": "glorot", "seeds": 1}],
}


def study(**changes):
    return declare({**DECLARED, **changes}, draws=draws_names())


def test_accurate_is_least_squares_with_refinement(tiny):
    [result] = train(tiny, SHAPE, [("glorot", 0)], recipe="accurate", steps=2, keep_weights=True)
    assert result.model is not None
    assert result.model.dtype == np.float64
    # The inputs lie in the first layer's domain; later domains may have become wider.
    assert [bool(layer.basis.grid % 2) for layer in result.model.layers] == [False, False]
    assert result.model.layers[0].basis.grid == 6
    assert len(result.curve_loss) == 4
    assert (np.diff(result.curve_loss) < 0).all()


def test_paper_is_the_default(tiny):
    [default] = train(tiny, SHAPE, [("glorot", 0)], steps=3)
    [named] = train(tiny, SHAPE, [("glorot", 0)], steps=3, recipe="paper")
    assert np.array_equal(default.curve_loss, named.curve_loss)


@pytest.mark.parametrize("steps", [300, 500, 2000])
def test_the_rate_of_fast_falls_to_zero_over_the_steps_that_are_made(tiny, steps):
    """Also where they are not the 500 of the recipe: all of them change the weights."""
    cosine = {"name": "cosine_decay", "decay_steps": steps}
    options = {"steps": steps, "curve": "all"}
    [fast] = train(tiny, SHAPE, [("glorot", 0)], recipe="fast", **options)
    by_hand = {"learning_rate": 1e-2, "schedule": cosine}
    [expected] = train(tiny, SHAPE, [("glorot", 0)], optimizer=by_hand, **options)
    assert np.array_equal(fast.curve_loss, expected.curve_loss)
    assert len(set(fast.curve_loss[-100:])) > 1


def test_on_finer_grids_the_rate_falls_on_each(tiny):
    options = {"grids": [3, 6], "steps": 40, "curve": "all"}
    [fast] = train(tiny, SHAPE, [("glorot", 0)], recipe="fast", **options)
    by_hand = {"learning_rate": 1e-2, "schedule": {"name": "cosine_decay", "decay_steps": 40}}
    [expected] = train(tiny, SHAPE, [("glorot", 0)], optimizer=by_hand, **options)
    assert np.array_equal(fast.curve_loss, expected.curve_loss)


def test_arguments_override_a_recipe(tiny):
    options = {"recipe": "accurate", "steps": 1, "grids": [3], "dtype": "float32"}
    [result] = train(tiny, SHAPE, [("glorot", 0)], keep_weights=True, **options)
    assert result.model is not None
    assert result.model.dtype == np.float32
    assert result.model.layers[0].basis.grid == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": "best"}, "Unknown recipe 'best'"),
        ({"recipe": "fast", "optimizer": "adam"}, "'recipe' and 'optimizer' of train exclude"),
        ({"initial": []}, "'initial' of train must be 1 networks"),
        ({"initial": [3]}, "'initial' of train must be 1 networks"),
        (
            {"initial": [KAN([2, 3, 1], grid=3, key=jax.random.key(0))]},
            r"Each network in 'initial' of train must be of the widths \(2, 2, 1\)",
        ),
    ],
)
def test_bad_arguments(options, message, tiny):
    with pytest.raises(UserError, match=message):
        train(tiny, SHAPE, [("glorot", 0)], steps=1, **options)


def test_training_continues_from_networks(tiny):
    """Gradient descent has no memory: two trainings of two steps are one of four."""
    options = {"optimizer": {"name": "sgd", "learning_rate": 0.01}, "keep_weights": True}
    [whole] = train(tiny, SHAPE, [("glorot", 0)], steps=4, **options)
    [half] = train(tiny, SHAPE, [("glorot", 0)], steps=2, **options)
    [rest] = train(tiny, SHAPE, [("glorot", 5)], steps=2, initial=[half.model], **options)
    np.testing.assert_allclose(rest.curve_loss, whole.curve_loss[2:], rtol=1e-6)


# --- in studies ----------------------------------------------------------------------------------


def test_a_study_takes_a_recipe():
    on_function, on_pde = study(recipe="accurate").specs()
    expected = recipe("accurate")
    assert on_function.optimizer == on_pde.optimizer == "levenberg-marquardt"
    assert on_function.steps == expected.steps["function"]
    assert on_pde.steps == expected.steps["pde"]
    assert (on_function.dtype, on_pde.rba) == ("float64", "off")
    assert json.loads(on_function.refinements) == [2]
    assert study(recipe="paper").specs() == study().specs()
    assert "refinements" not in study().specs()[0].to_dict()
    for name in RECIPES:
        assert study(recipe=name, steps=7).specs()[0].steps == 7


FAST_AS_STORED = (
    '{"G":3,"alpha":null,"beta":null,"bias":true,"checkpoints":"","curve":"log","degree":3,'
    '"depth":1,"domain":"[-1.0,1.0]","dtype":"float32","gain":null,"learning_rate":0.01,'
    '"optimizer":"adam","optimizer_arguments":"","problem":"f1","rba":"","reference":"",'
    '"replicate":0,"residual":"silu","schedule":'
    '"{\\"decay_steps\\":500,\\"name\\":\\"cosine_decay\\"}","scheme":"glorot","seed":0,'
    '"settings":"","steps":500,"study":"recipes","width":2}'
)
"""The configuration that version 0.2.0 stores for `recipe = "fast"` on a function."""


def test_the_schedule_of_a_run_follows_its_steps():
    """Those of the recipe, of the file, of a scale and of `--steps`."""

    def decay_steps(declared):
        [plain, pde] = [json.loads(spec.schedule) for spec in declared.specs()]
        assert plain == pde
        assert plain["name"] == "cosine_decay"
        return plain["decay_steps"]

    fast = study(recipe="fast", scales={"smoke": {"steps": 10}})
    assert compact(fast.specs()[0].to_dict()) == FAST_AS_STORED
    assert decay_steps(fast) == 500
    assert decay_steps(fast.at_scale("smoke")) == 10
    assert decay_steps(fast.with_axes(Axes(steps=3000))) == 3000
    assert decay_steps(study(recipe="fast", steps=2000)) == 2000
    assert decay_steps(study(recipe="fast", steps=2000, refinements=[2])) == 2000


def test_an_imported_row_has_the_schedule_of_its_steps():
    register(study(recipe="fast", name="imported-recipe"))
    assert json.loads(defaults("imported-recipe", "f1")["schedule"])["decay_steps"] == 500
    assert json.loads(defaults("imported-recipe", "f1", 70)["schedule"])["decay_steps"] == 70


def test_a_run_trains_on_finer_grids():
    [spec] = study(problems=["f1"], refinements=[2], steps=2, dtypes=["float64"]).specs()
    [outcome] = train_batch([spec])
    assert len(outcome.curve.loss) == 4
    assert DEFAULT.run(spec) == pytest.approx(2 * DEFAULT.run(spec.replace(refinements="")))
    # A chebyshev basis has no finer grids.
    changes = {"bases": [{"name": "chebyshev", "degree": 4}], "refinements": [2]}
    assert study(**changes).specs()[0].refinements == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "best"}, "Unknown recipe 'best'"),
        ({"recipe": "fast", "optimizers": [{"name": "sgd"}]}, "'recipe' and 'optimizers' exclude"),
        ({"refinements": [4, 2]}, "'refinements' must be increasing multiples of the grid"),
        ({"refinements": [1]}, "'refinements'"),
    ],
)
def test_bad_declarations(changes, message):
    with pytest.raises(UserError, match=message):
        study(**changes)
