"""What a store holds, study by study, and how its sessions went."""

from typing import Any

from kandle.store import Store, writer

_FAILURES_SHOWN = 20


def status(store: Store) -> dict[str, Any]:
    """The state of a store as plain data.

    For each study: runs by status, the seconds they took, what the last session had planned and
    how it ended (`running`, `complete`, `stopped`, or `broken off` when its process was killed),
    and the runs that failed.
    """
    at_work = writer(store.directory)
    studies = [_study(store, name, at_work is not None) for name in _names(store)]
    return {
        "store": str(store.directory),
        "writer": at_work,
        "runs": len(store),
        "bytes": store.path.stat().st_size,
        "studies": studies,
    }


def _names(store: Store) -> list[str]:
    query = "SELECT study FROM runs UNION SELECT study FROM sessions ORDER BY study"
    return [name for (name,) in store.query(query) if name]


def _study(store: Store, name: str, at_work: bool) -> dict[str, Any]:
    counted = dict(
        store.query("SELECT status, count(*) FROM runs WHERE study = ? GROUP BY status", (name,))
    )
    seconds = store.query("SELECT coalesce(sum(wall_s), 0) FROM runs WHERE study = ?", (name,))[0][
        0
    ]
    failures = store.query(
        "SELECT reason, count(*) FROM runs WHERE study = ? AND status = 'failed' "
        f"GROUP BY reason ORDER BY 2 DESC LIMIT {_FAILURES_SHOWN}",
        (name,),
    )
    return {
        "study": name,
        "runs": sum(counted.values()),
        **{status: counted.get(status, 0) for status in ("ok", "diverged", "failed")},
        "wall_s": seconds,
        "failures": [{"reason": reason, "runs": runs} for reason, runs in failures],
        "session": _session(store, name, at_work),
    }


def _session(store: Store, study: str, at_work: bool) -> dict[str, Any] | None:
    rows = store.query(
        "SELECT id, scale, command, started, planned, done, ended FROM sessions "
        "WHERE study = ? ORDER BY id DESC LIMIT 1",
        (study,),
    )
    if not rows:
        return None
    id_, scale, command, started, planned, done, ended = rows[0]
    newest = store.query("SELECT max(id) FROM sessions")[0][0]
    return {
        "scale": scale,
        "command": command,
        "started": started,
        "planned": planned,
        "done": done,
        "missing": planned - done,
        "state": ended or ("running" if at_work and id_ == newest else "broken off"),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The same for a person."""
    size = found["bytes"] / 1e6
    told = [f"{found['store']}: {found['runs']:,} runs, {size:.1f} MB"]
    if found["writer"]:
        told[0] += f", being written by {found['writer']}"
    for study in found["studies"]:
        told.append(
            f"{study['study']}: {study['runs']:,} runs: {study['ok']:,} ok, {study['diverged']:,} "
            f"diverged, {study['failed']:,} failed; {study['wall_s'] / 3600:.2f} core-hours"
        )
        if session := study["session"]:
            scale = f" at scale {session['scale']}" if session["scale"] else ""
            told.append(
                f"  last session{scale}: {session['done']:,} of {session['planned']:,} runs, "
                f"{session['state']}"
            )
            if session["state"] in ("stopped", "broken off") and session["command"]:
                told.append(f"  go on with: {session['command']}")
        told += [f"  failed ({entry['runs']:,}): {entry['reason']}" for entry in study["failures"]]
    return told
