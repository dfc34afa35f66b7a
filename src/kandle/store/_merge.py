"""Join stores: shards written on several machines, or copies that went their own ways."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kandle.store._outcome import Outcome
from kandle.store._store import Store

_TRANSACTION = 1000


@dataclass
class Gathered:
    """What came of putting many runs into a store: how many were new, how many were there, which
    disagree.
    """

    added: int = 0
    kept: int = 0
    conflicts: list[str] = field(default_factory=list)


def gather(store: Store, runs: Iterable[tuple[str, dict[str, Any], Outcome]]) -> Gathered:
    """Put whole runs (identity, configuration, outcome) into `store`; what is there is never
    overwritten.
    """
    told, runs = Gathered(), iter(runs)
    while chunk := list(islice(runs, _TRANSACTION)):
        with store.transaction():
            for identity, configuration, outcome in chunk:
                match store.put(identity, configuration, outcome):
                    case "added":
                        told.added += 1
                    case "kept":
                        told.kept += 1
                    case "conflict":
                        told.conflicts.append(identity)
    return told


def merge(store: Store, source: Store) -> Gathered:
    """Put all runs of `source` into `store`. Doing it twice changes nothing."""
    return gather(store, source.records())
