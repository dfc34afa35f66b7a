"""Feed damaged and hostile files to everything that reads one, for as long as you like.

    python benchmarks/fuzz.py [--minutes 10] [--seed 0] [load predict ntk json toml …]

Each target begins with valid files and changes them at random: bytes flipped, cut out, repeated,
replaced by other tokens (huge numbers, NaN, control characters, deep nesting, odd names). Most
changed model files get a right checksum again, as somebody who wants to deceive would give them;
otherwise nothing behind the checksum would ever be reached. A reader may accept the result or end
in an error of Kandle's own, in one line; anything else is a finding, printed with the input that
caused it (and worth a test). `predict` and `ntk` are the whole commands: all that they print is
looked at too.
"""

import argparse
import collections
import contextlib
import io
import json
import os
import random
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kandle import MissingExtra, UserError

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


@dataclass(frozen=True)
class Target:
    """Valid files to begin with, what reads them, and how they are changed."""

    seeds: list[bytes]
    read: Callable[[bytes, Path], object]
    change: Callable[[bytes, random.Random], bytes] = mutate


# Values that replace any part of a JSON document.
VALUES = (
    *(None, True, False, 0, 1, 2, 3, -1, 1.5, 1e-320, 1e308, 10**18, 10**400, 2**63, -(2**31)),
    *(float("nan"), float("inf"), "", "x", "1", "a\x1b[31m", "a\nb", "a\0b", "\ud800", "../../x"),
    *("os:system", "evil:thing", "chebyshev", "knots", "silu", "float64", "float16", "object"),
    *([], {}, [[]], [1, 2], [-1.0, 1.0], [1.0, -1.0], ["x"], {"name": "x"}, {"tuple": [1]}),
    *({"name": "chebyshev", "degree": 3}, {"name": "knots", "knots": [0, 1, 2], "degree": 1}),
)


def mutate_json(text: str, chance: random.Random) -> str:
    """A JSON document with a few of its parts replaced, left out, repeated or exchanged."""
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        document = {"": json.loads(text)}
        places = list(_places(document))
        parent, key = chance.choice(places)
        other, at = chance.choice(places)
        match chance.randrange(7):
            case 0 if parent is not document:
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[chance.choice(["x", "", "name", "a\nb", "fill"])] = parent[key]
            case 1:
                parent.insert(key, parent[key])
            case 2 if other is not document:
                parent[key], other[at] = other[at], None
            case 3:
                parent[key] = json.loads("[" * 100 + "1" + "]" * 100)
            case 4 if isinstance(parent[key], str):
                parent[key] = mutate(parent[key].encode("utf-8", "replace"), chance).decode(
                    "utf-8", "replace"
                )
            case _:
                parent[key] = chance.choice(VALUES)
        with contextlib.suppress(ValueError):  # what now holds itself
            text = json.dumps(document[""])
    return text


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a document, as what it is in and its key there."""
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _places(document[key])


def mutate_document(data: bytes, chance: random.Random) -> bytes:
    return mutate_json(data.decode(), chance).encode()


def mutate_model(data: bytes, chance: random.Random) -> bytes:
    """A model file with bytes changed, or with other text or tensors and a right checksum."""
    if chance.random() < 0.25:
        return mutate(data, chance)
    import numpy as np
    from safetensors.numpy import load, save

    from kandle._model_file import _digest

    size = int.from_bytes(data[:8], "little")
    header, tensors = json.loads(data[8 : 8 + size])["__metadata__"], load(data)
    if chance.random() < 0.25:
        name = chance.choice(list(tensors))
        tensor = tensors[name].copy()
        match chance.randrange(4):
            case 0:
                tensor = tensor.astype(chance.choice(["float16", "float64", "int32"]))
            case 1:
                tensor = tensor[:-1]
            case 2:
                tensor[...] = chance.choice([np.nan, np.inf, 1e30, 1e-40, 0.0])
            case _:
                tensor.flat[chance.randrange(tensor.size)] = chance.choice([np.nan, -np.inf, 3e38])
        tensors[name] = np.ascontiguousarray(tensor)
    else:
        entry = chance.choice(
            [key for key in header if key.startswith("kandle") and "-sha" not in key]
        )
        if chance.random() < 0.8:
            header[entry] = mutate_json(header[entry], chance)
        else:
            header[entry] = mutate(header[entry].encode(), chance).decode("utf-8", "replace")
    with contextlib.suppress(UnicodeEncodeError):  # else the old checksum stays
        header["kandle-sha256"] = _digest(header, tensors)
    return save(tensors, header)


def mutate_either(data: bytes, chance: random.Random) -> bytes:
    """A model file and a table, one of them changed, or both."""
    model, table = _parts(data)
    which = chance.choice(["model", "model", "table", "both"])
    model = model if which == "table" else mutate_model(model, chance)
    table = table if which == "model" else mutate(table, chance)
    return _together(model, table)


def _together(model: bytes, table: bytes) -> bytes:
    return len(model).to_bytes(8, "little") + model + table


def _parts(data: bytes) -> tuple[bytes, bytes]:
    end = 8 + int.from_bytes(data[:8], "little")
    return data[8:end], data[end:]


def saved_models(folder: Path) -> list[bytes]:
    import jax

    import kandle

    choices: list[dict[str, Any]] = [
        {"grid": 3},
        {"grid": 2, "degree": 1, "init": "lecun-normalized"},
        {"basis": kandle.bases.Chebyshev(3)},
        {"basis": kandle.bases.Knots((-1.0, 0.2, 1.0), 2), "residual": None},
    ]
    found = []
    for i, options in enumerate(choices):
        path = folder / f"model{i}.safetensors"
        kandle.save(kandle.KAN([2, 3, 1], key=jax.random.key(i), **options), path, {"by": "me"})
        found.append(path.read_bytes())
    return found


def fitted_models(folder: Path) -> list[bytes]:
    """Networks fitted to tables, each with a table to predict from."""
    import numpy as np

    import kandle
    from kandle.cli import main

    x, z = np.meshgrid(np.linspace(0, 1, 8), np.linspace(-3, 5, 5))
    kinds = np.array(["red", "green"])[(x > 0.5).astype(int).ravel()]
    rows = list(zip(x.ravel(), z.ravel(), kinds, strict=True))
    text = "x,z,kind,y,label\n" + "".join(
        f"{a:.3f},{b:.3f},{kind},{a * b:.4f},{'ab'[int(b > a)]}\n" for a, b, kind in rows
    )
    table = write(folder, "fit.csv", text.encode())
    found = []
    for target in ("y", "label"):
        out = folder / f"fitted-{target}.safetensors"
        options = ["--target", target, "--inputs", "x,z,kind", "--categorical", "kind"]
        options += ["--layers", "2", "--grid", "2", "--steps", "3", "--networks", "1"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if main(["fit", str(table), *options, "--out", str(out)]):
                raise SystemExit("a table to fuzz with could not be fitted")
        found.append(_together(out.read_bytes(), text.encode()))
    numbers = np.column_stack([x.ravel(), z.ravel()])
    for model, y in ((kandle.KANRegressor, x * z), (kandle.KANClassifier, (z > x).astype(int))):
        out = folder / f"{model.__name__}.safetensors"
        model(layers=(2,), grid=2, max_iter=3).fit(numbers, y.ravel()).save(out)
        found.append(_together(out.read_bytes(), b"x0,x1\n0.5,1\n0.25,7\n"))
    return found


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read_model(data: bytes, folder: Path) -> None:
    import kandle

    kandle.load(write(folder, "fuzzed.safetensors", data))


def read_estimator(data: bytes, folder: Path) -> None:
    import kandle

    path = write(folder, "fuzzed.safetensors", _parts(data)[0])
    refused = []
    for estimator in (kandle.KANRegressor, kandle.KANClassifier):
        try:
            estimator.load(path).predict([[0.5, 1.0], [0.25, 7.0]])
        except ALLOWED as error:
            refused.append(error)
    if len(refused) == 2:
        raise refused[0]


def command(*arguments: str) -> None:
    """Run a command of the program; what it prints must be safe, its errors one line."""
    from kandle.cli import main

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    printed = out.getvalue() + errors.getvalue()
    unsafe = [c for c in printed if c != "\n" and not c.isprintable()]
    if unsafe or "Traceback" in printed:
        raise AssertionError(f"printed {printed[:200]!r}")
    if code:
        lines = errors.getvalue().splitlines()
        if sum(line.startswith("kandle: error: ") for line in lines) != 1 or code != 2:
            raise AssertionError(f"exit code {code} with {errors.getvalue()[:200]!r}")
        raise UserError(lines[-1])


def predict(data: bytes, folder: Path) -> None:
    model, table = _parts(data)
    names = (write(folder, "fuzzed.safetensors", model), write(folder, "fuzzed.csv", table))
    command("predict", *map(str, names), "--out", str(folder / "predicted.csv"))


def take_kernel(data: bytes, folder: Path) -> None:
    command("ntk", str(write(folder, "fuzzed.safetensors", data)), "--problem", "f1")


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
    models, fitted = saved_models(folder), fitted_models(folder)
    return {
        "load": Target(models, read_model, mutate_model),
        "predict": Target(fitted, predict, mutate_either),
        "estimator": Target(fitted[2:], read_estimator, mutate_either),
        "ntk": Target(models, take_kernel, mutate_model),
        "json": Target([header], describe_model),
        "json-parts": Target([header], describe_model, mutate_document),
        "table-csv": Target([table], read_table),
        "table-parquet": Target([parquet["table"]], lambda d, f: read_table(d, f, "a.parquet")),
        "rows-csv": Target([rows], read_rows),
        "rows-parquet": Target([parquet["rows"]], lambda d, f: read_rows(d, f, "a.parquet")),
        "toml": Target([study], read_study),
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
            fuzz(target, found[target], folder, arguments)


def fuzz(name: str, target: Target, folder: Path, arguments: argparse.Namespace) -> None:
    chance = random.Random(f"{name}{arguments.seed}")
    counts: collections.Counter[str] = collections.Counter()
    findings: set[str] = set()
    until = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < until:
        data = target.change(chance.choice(target.seeds), chance)
        counts["inputs"] += 1
        try:
            target.read(data, folder)
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
