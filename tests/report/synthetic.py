"""Made-up runs with the shape of the study: plausible losses over exponents, widths and depths."""

import itertools
import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from kandle.problems import FEYNMAN
from kandle.report._load import Data
from kandle.store import COLUMNS, FIELDS, TYPES, Curve, Outcome, RunSpec, Spectrum, Store

FUNCTIONS = ("f1", "f2", "f3", "f4", "f5")
PDES = ("allen-cahn", "burgers", "helmholtz")
SCHEMES = ("baseline", "lecun-numerical", "lecun-normalized", "glorot", "power-law")
FOUR = ("baseline", "lecun-numerical", "glorot", "power-law")
EXPONENTS = tuple(i / 4 for i in range(9))
SMALL, LARGE = (5, 8, 2), (20, 32, 3)
_EASE = {"f1": -5.5, "f2": -4.0, "f3": -5.0, "f4": -4.2, "f5": -3.2}
_EASE |= {"allen-cahn": -1.8, "burgers": -1.2, "helmholtz": 1.3}
_BEST_BETA = 1.4


def grid_study(
    study="functions",
    problems=FUNCTIONS,
    shapes=None,
    schemes=SCHEMES,
    exponents=EXPONENTS,
    seeds=5,
    power_seeds=3,
    steps=None,
    key=0,
    **fields,
):
    """One row per run of a grid search, as a store's frame has them."""
    steps = steps or (5000 if study.endswith("pdes") else 2000)
    shapes = list(shapes or itertools.product((5, 10, 20, 40), (2, 4, 8, 16, 32, 64), (1, 2, 3, 4)))
    variants = [(s, np.nan, np.nan, i) for s in schemes if s != "power-law" for i in range(seeds)]
    if "power-law" in schemes:
        pairs = (
            exponents
            if isinstance(exponents[0], tuple)
            else [*itertools.product(exponents, repeat=2)]
        )
        variants += [("power-law", a, b, i) for a, b in pairs for i in range(power_seeds)]
    rows = [
        (p, *shape, *variant) for p, shape, variant in itertools.product(problems, shapes, variants)
    ]
    names = ["problem", "G", "width", "depth", "scheme", "alpha", "beta", "seed"]
    runs = pd.DataFrame(rows, columns=names)
    return _complete(runs, study, steps, key, fields)


def _complete(runs, study, steps, key, fields):
    n = len(runs)
    draw = np.random.default_rng([key, n])
    size = np.log2(runs["width"] * runs["depth"]) / 8
    ease = runs["problem"].map(_EASE).fillna(-4.0)
    gain = {"baseline": 0.0, "lecun-numerical": 1.4, "lecun-normalized": 0.9, "glorot": 0.7}
    slope = {"baseline": 0.3, "lecun-numerical": -0.6, "lecun-normalized": -1.4, "glorot": -2.0}
    height = runs["scheme"].map(gain) + runs["scheme"].map(slope) * size
    valley = 3.0 * (runs["alpha"] - 0.3) ** 2 + 0.9 * np.abs(runs["beta"] - _BEST_BETA) ** 1.5
    height = height.where(runs["scheme"].ne("power-law"), valley - 0.3 - 2.4 * size)
    loss = 10 ** (ease + height + draw.normal(0, 0.15, n))
    rough = draw.normal(0, 0.12, n) + 1.2 * size.where(runs["scheme"].str.match("base|lecun"), 0)
    diverged = (runs["alpha"] + runs["beta"] < 0.3) & (size > 0.75) & (draw.random(n) < 0.7)
    defaults = {name: "" if kind == "str" else 0 for name, kind in TYPES.items()}
    defaults |= {"study": study, "degree": 3, "steps": steps, "optimizer": "adam"}
    defaults |= {"learning_rate": 1e-3, "schedule": "constant", "dtype": "float32", "bias": True}
    defaults |= {
        "gain": np.nan,
        "domain": "[-1.0,1.0]",
        "residual": "silu",
        "draws": "independent",
        "curve": "log",
        "status": "ok",
    }
    defaults |= {"l2_robust": np.nan, "test_mse": np.nan, "wall_s": 1.0, "version": "0.1.0"}
    defaults["diverged_at"] = pd.NA
    runs = runs.assign(**{k: v for k, v in (defaults | fields).items() if k not in runs})
    runs = runs.assign(
        loss=loss.mask(diverged),
        l2=(10 ** (rough + np.log10(loss) / 2 + 0.6)).mask(diverged),
        status=np.where(diverged, "diverged", "ok"),
        diverged_at=pd.Series(np.where(diverged, 17, -1)).astype("Int64").replace(-1, pd.NA),
        identity=[f"{study}-{i:07d}" for i in range(n)],
    )
    if study.startswith("feynman"):
        runs["l2_robust"] = runs["l2"] / 3
    return runs.astype({k: v for k, v in TYPES.items() if k != "diverged_at"})[list(COLUMNS)]


def pdes(**options):
    shapes = itertools.product((5, 10, 20), (2, 4, 8, 16, 32, 64), (1, 2, 3, 4))
    given = {"study": "pdes", "problems": PDES, "shapes": list(shapes), "key": 1}
    return grid_study(**(given | options))


def feynman(**options):
    given = {"study": "feynman", "problems": tuple(FEYNMAN), "shapes": [SMALL, LARGE], "key": 2}
    given |= {"schemes": ("baseline", "glorot", "power-law"), "exponents": [(0.25, 1.75)]}
    return grid_study(**(given | {"power_seeds": 5} | options))


class Curves(Mapping):
    """Loss curves that end at their runs' losses, made when asked for."""

    def __init__(self, runs, points=None):
        self.rows = runs.set_index("identity")[["loss", "steps", "seed", "scheme", "schedule"]]
        self.points = points

    def __getitem__(self, identity):
        row = self.rows.loc[identity]
        steps = np.arange(1, int(row["steps"]) + 1)
        if self.points:
            steps = np.unique(np.geomspace(1, row["steps"], self.points).astype(int))
        loss = 1.0 if np.isnan(row["loss"]) else row["loss"]
        t = np.log(steps) / np.log(row["steps"])
        draw = np.random.default_rng(abs(hash(identity)) % 2**32)
        wobble = 0.0 if row["schedule"] != "constant" else 0.12 * draw.normal(size=t.size) * t
        return Curve(steps, 10 ** ((1 - t**1.5) * 0.3 + t**1.5 * np.log10(loss) + wobble))

    def __iter__(self):
        return iter(self.rows.index)

    def __len__(self):
        return len(self.rows)


def curves_study(study="curves-functions", problems=FUNCTIONS, steps=None, seeds=5, points=None):
    """Both sizes, constant and scheduled rate, every step kept."""
    frames = []
    steps = steps or (5000 if study.endswith("pdes") else 2000)
    decay = json.dumps({"name": "exponential", "rate": 0.9, "every": 50}, separators=(",", ":"))
    for schedule in ("constant", decay):
        frames.append(
            grid_study(
                study, problems, [SMALL, LARGE], FOUR, [(0.25, 1.75)], seeds, seeds, steps, 3
            ).assign(schedule=schedule, curve="all")
        )
    runs = pd.concat(frames, ignore_index=True)
    runs["identity"] = [f"{study}-{i:07d}" for i in range(len(runs))]
    return Data(runs, Curves(runs, points))


def ntk_study(study="ntk-functions", problems=FUNCTIONS, exponents=((0.25, 1.75),), schemes=FOUR):
    """Spectra of the large architecture at five checkpoints, one seed."""
    pde = not set(problems) <= set(FUNCTIONS)
    steps = 5000 if pde else 2000
    runs = grid_study(study, problems, [LARGE], schemes, list(exponents), 1, 1, steps, 4)
    runs = runs.assign(dtype="float64")
    checkpoints = np.linspace(0, steps, 6 if pde else 5).astype(int)
    spectra = {}
    for row in runs.itertuples():
        is_pde = row.problem in PDES
        spectra[row.identity] = [
            Spectrum(block, int(step), _spectrum(row, i, n))
            for block, n in ((("pde", 256), ("bc", 96)) if is_pde else (("ntk", 256),))
            for i, step in enumerate(checkpoints)
        ]
    return Data(runs, Curves(runs, 200), spectra)


def _spectrum(row, checkpoint, n):
    steep = {"baseline": 4.0, "lecun-numerical": 5.0, "glorot": 2.2}.get(row.scheme)
    if steep is None:
        steep = 1.5 + 1.5 * abs(row.alpha - 0.3) + abs(row.beta - _BEST_BETA)
    collapse = 0.4 * checkpoint if row.scheme in ("baseline", "lecun-numerical") else 0.05
    index = np.arange(1, n + 1)
    return 10 ** (steep - (steep + collapse * 0.3) * np.log10(index) - 0.1 * checkpoint * 0.3)


def write_store(directory, *parts):
    """A real store of the given frames or data."""
    with Store.open(directory, "w") as store:
        for part in parts:
            data = part if isinstance(part, Data) else Data(part)
            rows = []
            for row in data.runs.to_dict("records"):
                fields = {k: row[k] for k in FIELDS}
                for name in ("alpha", "beta", "gain"):
                    fields[name] = None if np.isnan(fields[name]) else fields[name]
                outcome = Outcome(
                    row["status"],
                    None if pd.isna(row["diverged_at"]) else int(row["diverged_at"]),
                    *(row[k] for k in ("loss", "l2", "l2_robust", "test_mse", "wall_s")),
                    curve=data.curves[row["identity"]] if data.curves else None,
                    spectra=tuple(data.spectra.get(row["identity"], ())),
                )
                rows.append((RunSpec.from_dict(fields), outcome))
            store.add_many(rows)
    return directory
