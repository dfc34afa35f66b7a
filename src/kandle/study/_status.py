"""What a store holds, study by study, and how its sessions went."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kandle._text import printable
from kandle.store import Row, Session, Store, writer

_FAILURES_SHOWN = 20


def status(store: Store) -> dict[str, Any]:
    """The state of a store as plain data.

    For each study: runs by status, the seconds they took, what the last session planned and how it
    ended (`running`, `complete`, `stopped`, or `killed`), and the reasons of runs that failed.
    """
    writing = writer(store.directory)
    rows, sessions = store.rows(), store.sessions()
    names = {row.study for row in rows} | {session.study for session in sessions.values()}
    newest = max(sessions, default=None)
    studies = []
    for name in sorted(names - {""}):
        own = [row for row in rows if row.study == name]
        last = max((n for n, session in sessions.items() if session.study == name), default=None)
        running = writing is not None and last == newest
        session = None if last is None else _session(sessions[last], running)
        studies.append({**_study(name, own), "session": session})
    return {
        "store": str(store.directory),
        "writer": writing,
        "runs": len(rows),
        "bytes": store.path.stat().st_size,
        "studies": studies,
    }


def _study(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    counted = Counter(row.status for row in rows)
    reasons = Counter(row.reason for row in rows if row.status == "failed")
    return {
        "study": name,
        "runs": len(rows),
        **{status: counted[status] for status in ("ok", "diverged", "failed")},
        "wall_s": sum(row.wall_s or 0.0 for row in rows),
        "failures": [
            {"reason": reason, "runs": runs}
            for reason, runs in reasons.most_common(_FAILURES_SHOWN)
        ],
    }


def _session(session: Session, running: bool) -> dict[str, Any]:
    return {
        "scale": session.scale,
        "command": session.command,
        "started": session.started,
        "planned": session.planned,
        "done": session.done,
        "missing": session.planned - session.done,
        "state": session.ended or ("running" if running else "killed"),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The same for a person."""
    size = found["bytes"] / 1e6
    shown = [f"{found['store']}: {found['runs']:,} runs, {size:.1f} MB"]
    if found["writer"]:
        shown[0] += f", being written by {found['writer']}"
    for study in found["studies"]:
        shown.append(
            f"{study['study']}: {study['runs']:,} runs: {study['ok']:,} ok, {study['diverged']:,} "
            f"diverged, {study['failed']:,} failed; {study['wall_s'] / 3600:.2f} core-hours"
        )
        if session := study["session"]:
            scale = f" at scale {session['scale']}" if session["scale"] else ""
            shown.append(
                f"  last session{scale}: {session['done']:,} of {session['planned']:,} runs, "
                f"{session['state']}"
            )
            if session["state"] in ("stopped", "killed") and session["command"]:
                shown.append(f"  resume with: {session['command']}")
        shown += [f"  failed ({entry['runs']:,}): {entry['reason']}" for entry in study["failures"]]
    return [printable(line) for line in shown]
