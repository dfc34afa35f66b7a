"""Arrays as compressed bytes.

A blob is one letter for the type (`f` float32, `d` float64, `i` int32 differences) and the
deflated little-endian array. Whole numbers are kept as differences: the steps of a curve are
almost an arithmetic progression.
"""

import zlib

import numpy as np


class Unreadable(ValueError):
    """Bytes that `pack` did not make."""


_FLOATS = {"f": "<f4", "d": "<f8"}


def pack(array: np.ndarray) -> bytes:
    """A one-dimensional array of whole numbers below 2³¹ or of floats as bytes; exact."""
    array = np.asarray(array)
    if np.issubdtype(array.dtype, np.integer):
        return b"i" + zlib.compress(np.diff(array, prepend=0).astype("<i4").tobytes())
    letter = "d" if array.dtype == np.float64 else "f"
    return letter.encode() + zlib.compress(array.astype(_FLOATS[letter]).tobytes())


def unpack(blob: bytes) -> np.ndarray:
    """The array that `pack` was given."""
    try:
        letter, data = chr(blob[0]), zlib.decompress(blob[1:])
        if letter == "i":
            return np.cumsum(np.frombuffer(data, "<i4"), dtype=np.int32)
        return np.frombuffer(data, _FLOATS[letter]).copy()
    except (zlib.error, KeyError, IndexError, TypeError, ValueError) as error:
        raise Unreadable(f"an array cannot be read: {error}") from None
