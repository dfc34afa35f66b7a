"""What a store holds, in a form that two of them can be compared in."""

import pandas as pd

from kandle.store import Store


def rows(directory):
    """All that a store holds but how long it took and in which order it came."""
    with Store.open(directory) as store:
        frame = store.frame().drop(columns=["wall_s"]).sort_values("identity", ignore_index=True)
        curves = {k: (v.steps.tolist(), v.loss.tolist()) for k, v in store.curves().items()}
        spectra = {
            k: [(s.block, s.step, s.eigenvalues.tolist()) for s in v]
            for k, v in store.spectra().items()
        }
    return frame, curves, spectra


def assert_same(left, right):
    (frame, *others), (frame_, *others_) = left, right
    pd.testing.assert_frame_equal(frame, frame_, check_exact=True)
    assert others == others_
