"""Fit a table with a scikit-learn estimator, compare initializations, save the best."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, train_test_split

from kandle import KANRegressor, init


def measurements(rows: int = 300) -> pd.DataFrame:
    """The range of a thrown ball, with noise: 0.5 % of its speed."""
    rng = np.random.default_rng(0)
    speed, angle = rng.uniform(5, 30, rows), rng.uniform(0.1, 1.4, rows)
    thrown = speed * (1 + 0.005 * rng.normal(size=rows))
    return pd.DataFrame(
        {"speed": speed, "angle": angle, "range": thrown**2 * np.sin(2 * angle) / 9.81}
    )


def main(max_iter: int = 800) -> float:
    table = measurements()
    x, y = table[["speed", "angle"]], table["range"]
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)

    model = KANRegressor(layers=(4,), max_iter=max_iter, random_state=0)
    schemes = ["baseline", "glorot", init.PowerLaw(0.25, 1.75)]
    search = GridSearchCV(model, {"init": schemes}, cv=3).fit(x_train, y_train)
    best = search.best_estimator_
    score = best.score(x_test, y_test)
    print(f"best initialization: {search.best_params_['init']}, R² on unseen rows {score:.4f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ball.safetensors"
        best.save(path)
        again = KANRegressor.load(path)
        assert (again.predict(x_test) == best.predict(x_test)).all()
    return score


if __name__ == "__main__":
    main()
