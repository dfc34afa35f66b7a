"""Sessions: which command wrote into a store, how far it came and how it ended."""

import sqlite3
from dataclasses import astuple, dataclass, fields, replace

from kandle.store._checks import checksum

_COLUMNS = "study, scale, command, started, planned, done, ended"


@dataclass(frozen=True)
class Session:
    """One call of `kandle study run` (or of `kandle.study.run`).

    `planned` runs, of which `done` are stored; `ended` is `complete`, `stopped`, or empty while it
    runs and after its process was killed.
    """

    study: str
    scale: str
    command: str
    started: str
    planned: int
    done: int
    ended: str = ""


def insert(connection: sqlite3.Connection, session: Session) -> int:
    """Write a new session and return its number."""
    values = (*astuple(session), checksum(astuple(session)))
    statement = f"INSERT INTO sessions ({_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    return connection.execute(statement, values).lastrowid or 0


def update(
    connection: sqlite3.Connection, number: int, *, more: int = 0, ended: str | None = None
) -> None:
    """Count `more` runs as done, and record how the session ended."""
    old = read(connection)[0][number]
    new = replace(old, done=old.done + more, ended=old.ended if ended is None else ended)
    connection.execute(
        "UPDATE sessions SET done = ?, ended = ?, checksum = ? WHERE id = ?",
        (new.done, new.ended, checksum(astuple(new)), number),
    )


def read(connection: sqlite3.Connection) -> tuple[dict[int, Session], list[str]]:
    """All intact sessions by number, in order, and the names of the damaged ones."""
    intact, damaged = {}, []
    for number, *values, found in connection.execute(
        f"SELECT id, {_COLUMNS}, checksum FROM sessions ORDER BY id"
    ):
        # An older format has no checksums; what is not even of the right kind is damaged anyway.
        if found == checksum(tuple(values)) or (found is None and _plausible(values)):
            intact[number] = Session(*values)
        else:
            damaged.append(f"session {number}")
    return intact, damaged


def _plausible(values: list[object]) -> bool:
    return [type(value) for value in values] == [field.type for field in fields(Session)]
