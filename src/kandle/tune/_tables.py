"""Settings of a fit for a table: successive halving by cross-validation, with a nested score."""

import copy
import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kandle import init
from kandle._errors import UserError
from kandle.tabular import FitSettings, Scaler, fit_rows
from kandle.tabular._rows import Block, InMemory, merge_equal_rows
from kandle.tabular._scaler import IGNORED, in_float32

# progress(seconds used, seconds allowed, best validation loss)
TableProgress = Callable[[float, float, float], None]

LAYERS = ((8,), (16,), (32,), (8, 8))
GRIDS = (3, 5, 10)
DECAYS = (0.0, 1e-3)
# The exponents (α, β) that are tried with the best of the others.
PAIRS = ((0.25, 1.75), (0.25, 1.0), (1.0, 1.0), (0.5, 0.0))

# Per rung: one candidate in this many survives, and how many folds they are compared on.
_RUNGS = ((1, 1), (3, 3), (3, 5))
_OUTER = 3
_FOLDS = 5


@dataclass(frozen=True)
class TableData:
    """Rows to search on, in their own units: x (N, n_in); y (N, n_out), or class numbers (N, 1)."""

    x: np.ndarray
    y: np.ndarray
    n_classes: int | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: np.ndarray) -> "TableData":
        return TableData(self.x[rows], self.y[rows], self.n_classes)


@dataclass(frozen=True)
class RankedSettings:
    """Settings with what cross-validation found.

    Attributes:
        settings: of the fit.
        losses: on each fold: mean squared error over the target's variance, or cross-entropy.
        scores: on each fold: R², or accuracy.
    """

    settings: FitSettings
    losses: tuple[float, ...]
    scores: tuple[float, ...]

    @property
    def loss(self) -> float:
        return float(np.mean(self.losses))

    @property
    def score(self) -> float:
        return float(np.mean(self.scores))


@dataclass(frozen=True)
class TunedTable:
    """The outcome of a search.

    Attributes:
        ranked: all settings, the best first: by the number of folds, then by the mean loss.
        nested: the score on each outer fold of settings that were found without it. Its mean is
            what to expect on new rows; the score of `best` is that of a selected maximum.
        complete: whether the time sufficed for the whole search.
    """

    ranked: tuple[RankedSettings, ...]
    nested: tuple[float, ...]
    complete: bool

    @property
    def best(self) -> RankedSettings:
        return self.ranked[0]

    @property
    def expected(self) -> float:
        """The score to expect on new rows; NaN if the time did not suffice for an outer fold."""
        return float(np.mean(self.nested)) if self.nested else float("nan")


def tune_table(
    data: TableData,
    *,
    seconds: float = 300.0,
    base: FitSettings = FitSettings(),  # noqa: B008 (frozen)
    layers: Sequence[Sequence[int]] = LAYERS,
    grids: Sequence[int] = GRIDS,
    decays: Sequence[float] = DECAYS,
    pairs: Sequence[tuple[float, float]] = PAIRS,
    progress: TableProgress | None = None,
) -> TunedTable:
    """Find widths, grid, weight decay and exponents for a table.

    All combinations are compared on one fold, a third of them on three and a ninth on five. Then
    exponents of the power law are tried with the best. The number of updates and the smoothness are
    chosen within every fit, by its own validation. The same search, without a third of the rows at
    a time and scored on that third, gives the score to expect on new rows.

    Args:
        data: the rows; those to test on later are not among them.
        seconds: the time for all of it. No fit is begun that will probably not end in time, but
            for those without which there would be no answer.
        base: all other settings.
        layers, grids, decays, pairs: what to choose from.
        progress: called after every fit.
    """
    if len(data) < 4 * _FOLDS:
        raise UserError(f"Tuning needs at least {4 * _FOLDS} training rows. Got {len(data)}.")
    clock = _Clock(seconds, progress)
    candidates = [
        dataclasses.replace(base, layers=tuple(widths), grid=grid, weight_decay=decay)
        for widths, grid, decay in itertools.product(layers, grids, decays)
    ]
    # The settings as they are come first: without time for others, nothing gets worse.
    as_given = dataclasses.replace(base, layers=tuple(base.layers))
    candidates.sort(key=lambda candidate: candidate != as_given)
    # The search comes first: without time for more, there is at least an answer.
    parts = [clock.until((part + 1) / (_OUTER + 1)) for part in range(_OUTER + 1)]
    ranked = _search(data, candidates, pairs, parts[0])
    nested = []
    for part, (train, test) in zip(parts[1:], _folds(data, _OUTER, base.seed + 1), strict=True):
        if nested and not part.allows(1):
            break
        found = _search(data[train], candidates, pairs, part)
        nested.append(clock.timed(found[0].settings, data[train], data[test])[1])
    complete = len(nested) == _OUTER and not any(part.cut for part in parts)
    return TunedTable(tuple(ranked), tuple(nested), complete)


class _Clock:
    """The time of a search: its first comparison is always made, whatever it takes.

    Args:
        seconds: the time for everything.
        progress: as of `tune_table`.
    """

    def __init__(self, seconds: float, progress: TableProgress | None):
        self._began, self._seconds, self._share = time.perf_counter(), seconds, 1.0
        self._progress, self.cut = progress, False
        self._took = [0.0]  # seconds of each fit, of all parts

    def until(self, share: float) -> "_Clock":
        """The part of the time that ends after this share of it."""
        part = copy.copy(self)
        part._share, part.cut = share, False
        return part

    def allows(self, fits: int) -> bool:
        """Whether so many fits, and one to score what they find, will probably end in time."""
        needed = (fits + 1) * max(self._took)
        allowed = time.perf_counter() - self._began + needed <= self._share * self._seconds
        self.cut = self.cut or not allowed
        return allowed

    def timed(self, settings: FitSettings, train: TableData, test: TableData):
        """`_evaluate` these settings, and note how long it takes."""
        began = time.perf_counter()
        measured = _evaluate(settings, train, test)
        self._took.append(time.perf_counter() - began)
        return measured

    def report(self, loss: float) -> None:
        if self._progress is not None:
            self._progress(time.perf_counter() - self._began, self._seconds, loss)


def _search(
    data: TableData,
    candidates: Sequence[FitSettings],
    pairs: Sequence[tuple[float, float]],
    clock: _Clock,
) -> list[RankedSettings]:
    """Settings, the best first."""
    folds = list(_folds(data, _FOLDS, candidates[0].seed))
    found: dict[int, RankedSettings] = {}
    settings = list(candidates)
    alive = list(range(len(settings)))

    def compare(chosen: Sequence[int], count: int) -> bool:
        for i in chosen:
            known = found.get(i)
            if found and not clock.allows(count - (0 if known is None else len(known.losses))):
                return False
            found[i] = _validated(settings[i], data, folds[:count], known, clock)
            clock.report(min(c.loss for c in found.values()))
        return True

    for keep, count in _RUNGS:
        alive = alive[: max(1, -(-len(alive) // keep))]
        if not compare(alive, count):
            break
        alive = sorted(alive, key=lambda i: found[i].loss)
    else:
        best = settings[alive[0]]
        others = [init.PowerLaw(*pair) for pair in pairs]
        new = [dataclasses.replace(best, init=s) for s in others if s != init.get(best.init)]
        settings += new
        compare(range(len(candidates), len(settings)), _FOLDS)
    return sorted(found.values(), key=lambda c: (-len(c.losses), c.loss))


def _validated(
    settings: FitSettings,
    data: TableData,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    known: RankedSettings | None,
    clock: _Clock,
) -> RankedSettings:
    losses, scores = (list(known.losses), list(known.scores)) if known else ([], [])
    for train, test in folds[len(losses) :]:
        loss, score = clock.timed(settings, data[train], data[test])
        losses.append(loss)
        scores.append(score)
    return RankedSettings(settings, tuple(losses), tuple(scores))


def _evaluate(settings: FitSettings, train: TableData, test: TableData) -> tuple[float, float]:
    """(loss, score) on rows that were not trained on; infinite if training diverged."""
    columns = [f"x{i}" for i in range(train.x.shape[1])]
    inputs = Scaler.to_interval(train.x, columns, flat=IGNORED)
    x, x_test = (in_float32(inputs.apply(part.x)) for part in (train, test))
    if train.n_classes is None:
        names = [f"y{i}" for i in range(train.y.shape[1])]
        target = Scaler.standard(train.y, names, flat=1.0)
        y, y_test, loss = target.apply(train.y), target.apply(test.y), "values"
    else:
        one_hot = np.eye(train.n_classes)
        y, y_test = (one_hot[part.y[:, 0].astype(int)] for part in (train, test))
        loss = "classes"
    block = Block(*merge_equal_rows(x, y, np.ones(len(x))))
    try:
        model = fit_rows(InMemory(block), loss, settings).model
    except UserError:
        return float("inf"), float("-inf")
    u = np.asarray(model(x_test.astype(np.float32)), np.float64)
    if train.n_classes is None:
        error = np.mean((u - y_test) ** 2)
        return float(error), float(1 - error / max(np.var(y_test, axis=0).mean(), 1e-300))
    top = u.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(u - top).sum(axis=1))
    right = u.argmax(axis=1) == y_test.argmax(axis=1)
    return float(np.mean(log_sum - (u * y_test).sum(axis=1))), float(np.mean(right))


def _folds(data: TableData, count: int, seed: int):
    """(rows to train on, rows to compare on), each class or range of values in every fold."""
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.permutation(len(data)), data.y[:, 0]))
    fold = np.empty(len(data), int)
    fold[order] = np.arange(len(data)) % count
    for i in range(count):
        yield np.flatnonzero(fold != i), np.flatnonzero(fold == i)
