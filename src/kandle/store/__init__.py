"""Every finished run, crash-safe, in one SQLite file: written by one process, read by any."""

from kandle.store._columns import COLUMNS, LATER, TYPES
from kandle.store._errors import StoreError
from kandle.store._merge import Gathered, gather, merge
from kandle.store._outcome import Curve, Outcome, Spectrum
from kandle.store._place import writer
from kandle.store._store import Run, Store

__all__ = [
    "COLUMNS",
    "LATER",
    "TYPES",
    "Curve",
    "Gathered",
    "Outcome",
    "Run",
    "Spectrum",
    "Store",
    "StoreError",
    "gather",
    "merge",
    "writer",
]
