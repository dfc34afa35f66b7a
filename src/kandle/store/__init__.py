"""Every finished run, crash-safe, in one SQLite file: written by one process, read by any."""

from kandle.store._columns import COLUMNS, PYTHON, TYPES
from kandle.store._errors import StoreError, StoreMoved
from kandle.store._merge import Gathered, check_runs, gather, merge
from kandle.store._outcome import OUTCOME_KINDS, OUTCOME_TYPES, Curve, Outcome, Spectrum
from kandle.store._packed import read_manifest
from kandle.store._place import writer
from kandle.store._rows import Row
from kandle.store._run import (
    ADDED_DEFAULTS,
    ARCHITECTURE,
    FIELDS,
    KINDS,
    MEMBER,
    REQUIRED,
    SCHEME,
    TRAINING,
    RunSpec,
    compact,
)
from kandle.store._sessions import Session
from kandle.store._store import SchemeLook, Store
from kandle.store._verify import Repaired, Verification, repair, verify

__all__ = [
    "ADDED_DEFAULTS",
    "ARCHITECTURE",
    "COLUMNS",
    "FIELDS",
    "KINDS",
    "MEMBER",
    "OUTCOME_KINDS",
    "OUTCOME_TYPES",
    "PYTHON",
    "REQUIRED",
    "SCHEME",
    "TRAINING",
    "TYPES",
    "Curve",
    "Gathered",
    "Outcome",
    "Repaired",
    "Row",
    "RunSpec",
    "SchemeLook",
    "Session",
    "Spectrum",
    "Store",
    "StoreError",
    "StoreMoved",
    "Verification",
    "check_runs",
    "compact",
    "gather",
    "merge",
    "read_manifest",
    "repair",
    "verify",
    "writer",
]
