"""scikit-learn's own conformance checks, all of them."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from kandle import KANClassifier, KANRegressor


@parametrize_with_checks(
    [
        KANRegressor(layers=(4,), grid=3, max_iter=200, n_networks=2, smoothness=1e-4),
        KANClassifier(layers=(4,), grid=3, max_iter=100, n_networks=2, smoothness=1e-4),
    ]
)
def test_conforms(estimator, check):
    check(estimator)
