"""Feed damaged and hostile files to everything that reads one, for as long as you like.

    python benchmarks/fuzz.py [--minutes 10] [--seed 0] [load predict csv parquet toml json …]

Each target begins with valid files and changes them at random: bytes flipped, cut out, repeated,
replaced by other tokens (huge numbers, NaN, control characters, deep nesting, odd names). A reader
may accept the result or end in an error of Kandle's own, in one line; anything else is a finding,
printed with the input that caused it (and worth a test).
"""

import argparse
import collections
import contextlib
import json
import os
import random
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from kandle._errors import MissingExtra, UserError

TOKENS = [
    *(b"0", b"-1", b"1e400", b"NaN", b"-inf", b"9" * 5000, b"18446744073709551616", b"1.5"),
    *(b"\0", b"\x1b[31m", b"\n", b"\r", b'"', b"'", b",", b"\xff\xfe", "é×\u202e".encode()),
    *(b"true", b"null", b"[" * 3000, b"{" * 3000, b"../../x", b"os:system", b"evil:thing"),
    *(b"name", b"problems", b"G", b"width", b"domain", b"basis", b"version", b"layers"),
]
ALLOWED = (UserError, MissingExtra, OSError)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A few random changes."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        at = chance.randrange(len(changed) + 1)
        length = min(chance.choice([1, 1, 2, 4, 16, 200]), len(changed) - at)
        match chance.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at : at + length] = chance.choice(TOKENS)
            case 3:
                changed[at:at] = changed[at : at + length] * chance.choice([1, 3])
            case _:
                changed[at:at] = chance.choice(TOKENS)
    return bytes(changed)


Target = tuple[list[bytes], Callable[[bytes, Path], object]]


def saved_models(folder: Path) -> list[bytes]:
    import jax

    import kandle

    found = []
    for i, options in enumerate(
        ({"grid": 3}, {"grid": 2, "degree": 1, "init": "lecun-normalized"})
    ):
        path = folder / f"model{i}.safetensors"
        kandle.save(kandle.KAN([2, 3, 1], key=jax.random.key(i), **options), path, {"by": "me"})
        found.append(path.read_bytes())
    return found


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read_model(data: bytes, folder: Path) -> None:
    import kandle

    kandle.load(write(folder, "fuzzed.safetensors", data))


def describe_model(data: bytes, folder: Path) -> None:
    from kandle._model_file import from_json

    from_json(data.decode("utf-8", "surrogateescape"))


def read_table(data: bytes, folder: Path, name: str = "fuzzed.csv") -> None:
    from kandle.problems import Table

    Table(write(folder, name, data), "y").arrays("float32")


def read_rows(data: bytes, folder: Path, name: str = "rows.csv") -> None:
    from kandle import study

    study.read_file(write(folder, name, data))


def read_study(data: bytes, folder: Path) -> None:
    from kandle import study

    found = study.get(write(folder, "fuzzed.toml", data))
    if len(found) < 10_000:
        study.plan(found)


def targets(folder: Path) -> dict[str, Target]:
    import pandas as pd

    table = b"x,z,y\n" + b"".join(b"%d,%d.5,%d\n" % (i, i * i % 7, i % 3) for i in range(30))
    rows = (
        b"study,problem,scheme,alpha,beta,G,width,depth,seed,steps,loss,l2,settings,status\n"
        b"pdes,burgers,power-law,0.25,1.0,5,8,2,0,100,0.5,0.25,,ok\n"
        b'own,mine:thing,glorot,,,5,8,2,1,7,nan,,"{""a"":1}",diverged\n'
    )
    for name, text in (("table", table), ("rows", rows)):
        write(folder, f"{name}.csv", text)
        pd.read_csv(folder / f"{name}.csv").to_parquet(folder / f"{name}.parquet")
    study = b'problems = ["f1"]\ngrids = [5]\nwidths = [2]\ndepths = [1]\nsteps = 3\n'
    study += b'[[schemes]]\nname = "glorot"\nseeds = 2\ngain = [1.0, 2.0]\n'
    study += b'[[optimizers]]\nname = "adam"\nlearning_rate = 1e-3\n[scales.smoke]\nseeds = 1\n'
    layer = {"n_in": 2, "n_out": 1, "grid": 3, "degree": 3, "domain": [-1.0, 1.0]}
    layer |= {"residual": "silu", "bias": True, "normalized": False, "frozen": False}
    header = json.dumps({"version": 1, "dtype": "float32", "layers": [layer]}).encode()
    parquet = {name: (folder / f"{name}.parquet").read_bytes() for name in ("table", "rows")}
    return {
        "load": (saved_models(folder), read_model),
        "json": ([header], describe_model),
        "table-csv": ([table], read_table),
        "table-parquet": ([parquet["table"]], lambda d, f: read_table(d, f, "fuzzed.parquet")),
        "rows-csv": ([rows], read_rows),
        "rows-parquet": ([parquet["rows"]], lambda d, f: read_rows(d, f, "rows.parquet")),
        "toml": ([study], read_study),
    }


def main() -> None:
    layout = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--minutes", type=float, default=10.0, help="per target")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.nice(10)
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        found = targets(folder)
        for target in arguments.targets or found:
            fuzz(target, *found[target], folder, arguments)


def fuzz(
    name: str,
    seeds: list[bytes],
    read: Callable[[bytes, Path], object],
    folder: Path,
    arguments: argparse.Namespace,
) -> None:
    chance = random.Random(f"{name}{arguments.seed}")
    counts: collections.Counter[str] = collections.Counter()
    findings: set[str] = set()
    until = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < until:
        data = mutate(chance.choice(seeds), chance)
        try:
            read(data, folder)
            counts["accepted"] += 1
        except ALLOWED as error:
            counts["refused"] += 1
            if "\n" in str(error) and isinstance(error, UserError):
                report(findings, counts, "several lines", error, data)
        except Exception as error:
            report(findings, counts, type(error).__name__, error, data)
    print(f"{name}: {dict(counts)}, {len(findings)} distinct findings", flush=True)


def report(
    findings: set[str],
    counts: collections.Counter[str],
    kind: str,
    error: BaseException,
    data: bytes,
) -> None:
    """Print an input that a reader did not handle, once for each place."""
    counts["findings"] += 1
    at = traceback.extract_tb(error.__traceback__)[-1]
    key = f"{kind} at {at.filename}:{at.lineno}"
    if key not in findings:
        findings.add(key)
        print(f"{key}: {str(error)[:200]!r}\n  input: {data[:400]!r}", flush=True)


if __name__ == "__main__":
    main()
