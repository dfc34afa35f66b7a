"""Files that release 0.1 saved still work, and tables are found among problems."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd

from kandle import KANClassifier, KANRegressor, problems, tabular

FILES = Path(__file__).parent / "files"
X = np.array([[0.25, 0.5], [0.75, 0.1]])


def test_a_saved_regressor_predicts_as_it_did():
    loaded = KANRegressor.load(FILES / "regressor-0.1.safetensors")
    assert loaded.layers == (2,)
    assert loaded.grid == 3
    predicted = loaded.predict(pd.DataFrame(X, columns=["a", "b"]))
    np.testing.assert_allclose(predicted, [0.884997092217526, 0.9315862594858918], rtol=1e-6)


def test_a_saved_classifier_predicts_as_it_did():
    loaded = KANClassifier.load(FILES / "classifier-0.1.safetensors")
    assert loaded.classes_.tolist() == ["high", "low"]
    probabilities = loaded.predict_proba(X)[:, 0]
    np.testing.assert_allclose(probabilities, [0.49618193664235444, 0.6866586015391593], rtol=1e-6)


def test_a_model_that_the_command_saved_predicts_as_it_did():
    values = tabular.load_fitted(FILES / "command-0.1.safetensors").values(X)
    np.testing.assert_allclose(values[:, 0], [0.8567679993147334, 0.8302653828253265], rtol=1e-6)


def test_estimators_that_version_0_2_pickled_predict_as_they_did():
    pickled = (FILES / "estimators-0.2.pickle").read_bytes()
    x, regressor, values, classifier, probabilities = pickle.loads(pickled)
    assert type(regressor) is KANRegressor
    assert type(classifier) is KANClassifier
    np.testing.assert_allclose(regressor.predict(x), values, rtol=1e-5)
    np.testing.assert_allclose(classifier.predict_proba(x), probabilities, rtol=1e-5)
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))


def test_tables_are_found_among_problems():
    assert problems.Table is tabular.Table
    assert problems.Scaler is tabular.Scaler
    table = tabular.Table(pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [1.0, 2.0, 4.0]}), "y")
    assert problems.get(table) is table
