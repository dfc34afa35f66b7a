"""A user's own problem, as `study_problem:wave`."""

import numpy as np

from kandle.problems import Function

wave = Function(
    lambda x, y: x * np.sin(3 * y), [(-1, 1), (-1, 1)], name="wave", n_train=100, n_test=10
)
