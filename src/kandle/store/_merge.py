"""Join stores: shards written on several machines, or copies that were continued separately."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kandle._errors import UserError
from kandle.store._blobs import Unreadable
from kandle.store._errors import StoreError
from kandle.store._outcome import Outcome
from kandle.store._store import Store

_RUNS_PER_TRANSACTION = 1000


@dataclass
class Gathered:
    """What happened to runs that were put into a store: how many were new, how many were there
    already, which differ from those that were there.
    """

    added: int = 0
    kept: int = 0
    conflicts: list[str] = field(default_factory=list)


def gather(store: Store, runs: Iterable[tuple[str, dict[str, Any], Outcome]]) -> Gathered:
    """Put whole runs (identity, configuration, outcome) into `store`; stored runs are never
    overwritten.
    """
    found, runs = Gathered(), iter(runs)
    while chunk := list(islice(runs, _RUNS_PER_TRANSACTION)):
        with store.transaction():
            for identity, configuration, outcome in chunk:
                match store.put(identity, configuration, outcome):
                    case "added":
                        found.added += 1
                    case "kept":
                        found.kept += 1
                    case "conflict":
                        found.conflicts.append(identity)
    return found


def check_runs(source: Store) -> None:
    """An error that names the first record of a store that is no run of this Kandle."""
    for row in source.rows():
        try:
            row.check_configuration()
        except (UserError, Unreadable) as error:
            raise StoreError(f"{source.path}: {row.name}: {error}") from None


def merge(store: Store, source: Store) -> Gathered:
    """Put all runs of `source` into `store`. Doing it twice changes nothing.

    A source that holds anything that is no run, such as a name with a line break, is refused.
    """
    check_runs(source)
    found = gather(store, source.records())
    if looks := {key: look for key, look in source.schemes().items() if key not in store.schemes()}:
        store.add_schemes(looks)
    return found
