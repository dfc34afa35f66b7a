"""Single bits of a store file, flipped, and everything that can be read from it."""

from typing import NamedTuple

from kandle import study
from kandle.store import Store


class Readings(NamedTuple):
    """All that a store gives away, in a form that can be compared."""

    rows: list
    curves: dict
    spectra: dict
    status: dict
    schemes: dict
    missing: int


def readings(directory):
    with Store.open(directory) as store:
        rows = store.frame().astype(str).to_dict("records")
        curves = {k: (v.steps.tolist(), v.loss.tolist()) for k, v in store.curves().items()}
        spectra = {
            k: [(s.block, s.step, s.eigenvalues.tolist(), s.error_share.tolist()) for s in v]
            for k, v in store.spectra().items()
        }
        status = study.status(store)
        status.pop("store")
        status.pop("bytes")
        return Readings(rows, curves, spectra, status, store.schemes(), len(store.missing([])))


def flip(data, chance):
    """`data` with one bit changed."""
    changed = bytearray(data)
    position = chance.randrange(8 * len(data))
    changed[position // 8] ^= 1 << position % 8
    return bytes(changed)
