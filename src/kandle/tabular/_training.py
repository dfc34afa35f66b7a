"""One training on scaled rows: choose the penalty, keep the best weights, average."""

import itertools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kandle._errors import UserError
from kandle.init import get
from kandle.nn import KAN
from kandle.tabular._average import average
from kandle.tabular._candidate import Candidate
from kandle.tabular._draw import draw_networks
from kandle.tabular._loop import (
    LONGEST,
    Program,
    Rows,
    State,
    advance,
    keep_best,
    validate,
)
from kandle.tabular._outcome import Outcome, Report
from kandle.tabular._rows import (
    LEAST_ROWS,
    MOST_HELD_OUT,
    Block,
    InMemory,
    RowSource,
    validation_folds,
)
from kandle.tabular._settings import SMOOTHNESS, FitSettings
from kandle.tabular._size import check_size, check_widths

# Updates after which penalties that do clearly worse are given up.
_COMPARED_AFTER = 200


class Training:
    """Training on one grid: for each candidate penalty the same P networks train side by side.

    Args:
        source, loss, settings: those of `fit_rows`.
        start: networks to begin with; None draws them.
        refined: whether these come from a training on a coarser grid.
    """

    _smoothness: Sequence[float] = SMOOTHNESS

    def __init__(
        self,
        source: RowSource,
        loss: str,
        settings: FitSettings,
        start: Sequence[KAN] | None,
        refined: bool = False,
    ):
        s = self._settings = self._usable(source, loss, settings)
        self._refined = refined
        self._rng = np.random.default_rng(s.seed)
        batch = s.rows_per_update(source.rows)
        self._validates = s.early_stopping and source.rows >= LEAST_ROWS
        if self._validates and batch is not None and isinstance(source, InMemory):
            source = _hold_out(source, s, self._rng)
        [first] = itertools.islice(source.blocks(np.random.default_rng(s.seed)), 1)
        if not isinstance(source, InMemory):
            batch = min(batch or len(first), len(first))
        self._source, self._loss, self._batch = source, loss, batch
        networks = _initial(first, s) if start is None else list(start)
        self._count, self._widths = len(networks), networks[0].widths
        penalties = self._penalties(s)
        check_size(networks[0], len(networks) * len(penalties))
        self._normalized = any(layer.normalized for layer in networks[0].layers)
        self._program = Program.of(networks[0], loss, whole=batch is None)
        self.decay_steps = float(s.steps)
        self._candidates = [
            Candidate(smoothness, s.weight_decay, self._program.start(networks))
            for smoothness in penalties
        ]
        self._first = first
        self._prepare(first)
        if refined and self._validates:
            self._validate_start()

    def _usable(self, source: RowSource, loss: str, settings: FitSettings) -> FitSettings:
        """The settings that this training follows on these rows, or an error."""
        return settings

    @property
    def inputs(self) -> Float[np.ndarray, "N n_in"]:
        """The inputs of the first block of rows."""
        return self._first.x.astype(np.float32)

    def _validate_start(self) -> None:
        """Measure networks that come from a coarser grid, so that no worse ones replace them."""
        rows = self._rows(self._first, self._held) if self._batch is None else self._validation
        for candidate in self._candidates:
            loss, _ = validate(self._program, candidate.state.weights, rows)
            candidate.state = jax.jit(keep_best)(candidate.state, loss)

    def _penalties(self, settings: FitSettings) -> Sequence[float]:
        if settings.smoothness != "auto":
            return (float(settings.smoothness),)
        return self._smoothness if self._validates else (0.0,)

    def resume(self, state: State) -> None:
        """Continue from where a training with one penalty ended."""
        [candidate] = self._candidates
        candidate.state = jax.tree.map(jnp.copy, state)

    def _prepare(self, block: Block) -> None:
        """Which rows each network trains on, and which rows validate it."""
        n, held = len(block), np.zeros((self._count, len(block)))
        self._held_out_rows = 0
        shared = self._source.held_out
        if self._validates and shared is None:
            order_by = block.y[:, 0] if self._loss == "values" else block.y.argmax(axis=1)
            order_by = order_by.astype(np.float64)
            fraction = self._settings.validation_fraction
            part = validation_folds(order_by, fraction, self._count, self._rng)
            parts = part.max() + 1
            held = (part[None] == (np.arange(self._count) % parts)[:, None]).astype(float)
            self._held_out_rows = round(held.sum() / self._count)
        self._train_mask = 1 - held
        self._held = _normalized(held * block.weight, self._padded(n))
        if shared is not None:
            self._held_out_rows = len(shared)
            weight = np.broadcast_to(shared.weight, (self._count, len(shared)))
            self._validation = self._rows(shared, _normalized(weight, self._padded(len(shared))))
        elif self._batch is not None:
            self._validation = self._rows(block, self._held)

    def _padded(self, rows: int) -> int:
        """So many rows and up to an eighth more: one compilation serves the folds of a table."""
        if self._normalized:  # batch statistics would see the rows that fill it up
            return rows
        step = max(16, 1 << max(0, (rows - 1).bit_length() - 4))
        return -(-rows // step) * step

    def _rows(self, block: Block, weight: np.ndarray) -> Rows:
        """The rows on the device, with zeros up to the size of `weight` (P, n)."""
        fill = ((0, weight.shape[1] - len(block)), (0, 0))
        x, y = (np.pad(values.astype(np.float32), fill) for values in (block.x, block.y))
        return Rows(*jax.device_put((x, y, weight)))

    def run(self, report: Report | None) -> Outcome:
        s, made = self._settings, 0
        alive = self._candidates
        for rows, batches, available in self._chunks():
            steps = min(available, s.steps - made)
            for candidate in alive:
                self._advance(candidate, rows, batches, steps)
            made += steps
            if report is not None:
                report(made, s.steps, float(np.mean(self._best().losses[-1][-1])))
            alive = self._continuing(alive, made)
            if made >= s.steps or not alive:
                break
        return self._outcome(self._best())

    def _best(self) -> Candidate:
        return min(self._candidates, key=lambda c: (c.validation_loss, c.smoothness))

    def _continuing(self, alive: Sequence[Candidate], made: int) -> list[Candidate]:
        """Those that got better lately and may still become the best."""
        s, best = self._settings, self._best()
        if not self._validates:
            return list(alive)
        return [
            c
            for c in alive
            if made - int(np.max(c.state.noted_step)) < s.patience
            and not (made >= _COMPARED_AFTER and c.is_worse_than(best))
        ]

    def _chunks(self) -> Iterator[tuple[Rows, np.ndarray, int]]:
        """(rows, which of them each update sees, the number of updates), as long as asked for."""
        if self._batch is None:
            weight = self._train_mask * self._first.weight
            rows = self._rows(self._first, _normalized(weight, self._padded(len(self._first))))
            yield from itertools.repeat((rows, np.zeros((LONGEST, 0), np.int32), LONGEST))
            return
        size = self._batch
        while True:
            for block in self._source.blocks(self._rng):
                mask = self._train_mask if block is self._first else np.ones((1, len(block)))
                weight = np.broadcast_to(mask * block.weight, (self._count, len(block)))
                rows = self._rows(block, _filled(weight, self._padded(len(block))))
                order = self._batches(np.flatnonzero(block.weight > 0), size)
                for start in range(0, len(order), LONGEST):
                    chosen = order[start : start + LONGEST]
                    batches = np.zeros((LONGEST, size), np.int32)
                    batches[: len(chosen)] = chosen
                    yield rows, batches, len(chosen)

    def _batches(self, rows: np.ndarray, size: int) -> Int[np.ndarray, "updates size"]:
        """Rows in random order, all of them about equally often, for at least `LONGEST` updates.

        The last rows of an epoch that fill no batch have their turn in another.
        """
        per_epoch = max(1, len(rows) // size)
        epochs = [
            np.resize(self._rng.permutation(rows), per_epoch * size)
            for _ in range(-(-LONGEST // per_epoch))
        ]
        return np.concatenate(epochs).reshape(-1, size)

    def _advance(self, candidate: Candidate, rows: Rows, batches: np.ndarray, steps: int) -> None:
        s, c = self._settings, candidate
        scalars = np.int32(steps), np.float32(s.learning_rate), np.float32(self.decay_steps)
        c.state, curve = advance(
            self._program, c.state, rows, self._held, c.penalty, batches, *scalars
        )
        c.updates += steps
        c.losses.append(np.asarray(curve.loss)[:steps])
        if not self._validates:
            return
        if self._batch is None:
            c.scores.append(np.asarray(curve.validation_score)[:steps])
        else:
            loss, score = validate(self._program, c.state.weights, self._validation)
            c.state = jax.jit(keep_best)(c.state, loss)
            c.scores.append(np.asarray(score)[None])

    def _outcome(self, chosen: Candidate) -> Outcome:
        s, state = self._settings, chosen.state
        losses = np.concatenate(chosen.losses)
        weights = np.asarray(state.best if self._validates else state.weights)
        finite = np.isfinite(weights).all() and (
            np.isfinite(chosen.validation_loss) if self._validates else np.isfinite(losses).all()
        )
        if not finite:
            bad = np.flatnonzero(~np.isfinite(losses).all(axis=1))
            step = int(bad[0]) + 1 if bad.size else chosen.updates
            raise UserError(
                f"Training diverged at step {step} of {s.steps}. "
                f"A learning rate below {s.learning_rate:g} or another init may help."
            )
        networks = tuple(map(self._frozen, weights))
        return Outcome(
            average(networks),
            networks,
            losses.mean(axis=1),
            np.concatenate(chosen.scores).mean(axis=1) if chosen.scores else np.empty(0),
            chosen.validation_loss if self._validates else float("nan"),
            chosen.smoothness,
            chosen.updates,
            state,
            self._held_out_rows,
        )

    def _frozen(self, weights: Float[np.ndarray, " n"]) -> KAN:
        """The network with these weights, and with its batch statistics if it uses any."""
        model = jax.tree.map(jnp.asarray, self._program.model(weights))
        return model.freeze(self._first.x.astype(np.float32)) if self._normalized else model


def _initial(block: Block, settings: FitSettings) -> list[KAN]:
    s, scheme = settings, get(settings.init)
    widths = [block.x.shape[1], *map(int, s.layers), block.y.shape[1]]
    check_widths(widths, s)
    return draw_networks(widths, s.grid, s.degree, scheme, s.networks, s.seed, block.x)


def _hold_out(source: InMemory, settings: FitSettings, rng: np.random.Generator) -> InMemory:
    """Rows of which all networks hold out the same ones, if there are many."""
    block = source.block
    if len(block) <= MOST_HELD_OUT:
        return source
    order = rng.permutation(len(block))
    n = min(MOST_HELD_OUT, max(1, round(len(block) * settings.validation_fraction)))
    return InMemory(block[np.sort(order[n:])], held_out=block[np.sort(order[:n])])


def _normalized(weight: np.ndarray, n: int) -> np.ndarray:
    """Weights (P, N) that add up to one for every network, with zeros up to n rows."""
    return _filled(weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300), n)


def _filled(weight: np.ndarray, n: int) -> np.ndarray:
    return np.pad(weight, ((0, 0), (0, n - weight.shape[1]))).astype(np.float32)
