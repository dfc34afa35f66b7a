"""Pack the results that come with the project, from the runs of stores.

python tools/pack_results.py STORE… --out results --commit HASH --command "kandle study run …"
"""

import argparse
import datetime
import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kandle import study
from kandle.cli._results import describe
from kandle.paper import STUDIES
from kandle.store import Store, merge
from kandle.store._packed import pack

SCALE = "overnight"
LIMIT = 20_000_000
"""The packed file must not exceed this many bytes."""


def coverage(identities: Mapping[str, set[str]]) -> dict[str, dict[str, Any]]:
    """How much of each study is present: runs of the plan at `overnight`, of `paper`, others.

    `identities` are those of the finished runs, by study. A run that the paper's design does not
    have counts as `unplanned`.
    """
    found = {}
    for name in STUDIES:
        planned, whole = _planned(name, SCALE), _planned(name, "paper")
        present = identities.get(name, set())
        found[name] = {
            "runs": len(present),
            "overnight": [len(present & planned), len(planned)],
            "paper": [len(present & whole), len(whole)],
            "unplanned": len(present - whole - planned),
            "complete_at_overnight": planned <= present,
        }
    return found


@functools.cache
def _planned(name: str, scale: str) -> frozenset[str]:
    """Identities of a study's runs; seconds at scale `paper`, so they are computed once."""
    return frozenset(spec.identity for spec in study.plan(study.get(name), scale).specs)


def finished_identities(store: Store) -> dict[str, set[str]]:
    """Identities of the runs with a result (finished or diverged), by study."""
    frame = store.frame()
    done = frame[frame["status"].ne("failed")]
    return {str(name): set(part["identity"]) for name, part in done.groupby("study")}


def build(sources: Sequence[Path], out: Path, *, commit: str, command: str) -> dict[str, Any]:
    """Merge the stores `sources`, pack them into `out`, and return the manifest.

    One of them may be the packed store in `out` itself, which is then extended. Of a run that
    several have, the first is taken.
    """
    with tempfile.TemporaryDirectory(prefix="kandle-") as folder:
        copy = Path(folder) / "store"
        with Store.open(copy, "w") as packed:
            for source in sources:
                with Store.open(source) as opened:
                    merge(packed, opened)
            frame = packed.frame()
            identities = finished_identities(packed)
        machines = frame.groupby("machine").size()
        manifest = {
            "scale": SCALE,
            "created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "commit": commit,
            "command": command,
            "versions": sorted(frame["version"].unique().tolist()),
            "machines": {str(name): int(count) for name, count in machines.items()},
            "core_hours": round(float(frame["wall_s"].sum()) / 3600, 2),
            "status": {str(k): int(v) for k, v in frame["status"].value_counts().items()},
            "studies": coverage(identities),
        }
        manifest = pack(copy / "runs.sqlite", out, manifest)
    if manifest["bytes"] > LIMIT:
        raise SystemExit(f"{out} has {manifest['bytes']:,} bytes, more than {LIMIT:,}.")
    return manifest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pack a store into the results of the project.")
    parser.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--commit", required=True, help="commit of the code that trained the runs")
    parser.add_argument("--command", required=True, help="command that trained the runs")
    given = parser.parse_args(arguments)
    made = build(given.stores, given.out, commit=given.commit, command=given.command)
    print("\n".join(describe(made)))
    print(f"\n{given.out}: {made['bytes']:,} bytes, sha256 {made['sha256']}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
