"""What a store holds, in a form that two of them can be compared in."""

import pandas as pd

from kandle.store import Store


def rows(directory, identities=None):
    """What a store holds (of some runs), without durations and the order of arrival."""
    with Store.open(directory) as store:
        frame = store.frame().drop(columns=["wall_s"]).sort_values("identity", ignore_index=True)
        if identities is not None:
            frame = frame[frame["identity"].isin(identities)].reset_index(drop=True)
        found = store.curves(identities)
        curves = {k: (v.steps.tolist(), v.loss.tolist()) for k, v in found.items()}
        spectra = {
            k: [(s.block, s.step, s.eigenvalues.tolist()) for s in v]
            for k, v in store.spectra(identities).items()
        }
    return frame, curves, spectra


def assert_same(left, right):
    (frame, *others), (frame_, *others_) = left, right
    pd.testing.assert_frame_equal(frame, frame_, check_exact=True)
    assert others == others_
