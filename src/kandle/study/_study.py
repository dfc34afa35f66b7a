"""A study: a declared grid of trainings."""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kandle._errors import UserError, unknown
from kandle.study._axes import Axes, Shape, reshaped
from kandle.study._catalogue import facts
from kandle.study._spec import RunSpec, compact

SCALES = ("smoke", "quick", "overnight", "paper")

_EXPONENTS = {"alpha": 0.25, "beta": 1.75}  # of `power-law` by name alone
_OWN_FIELDS = ("alpha", "beta", "gain")


@dataclass(frozen=True)
class SchemeAxis:
    """One scheme of a study: every combination of its settings, each with these seeds."""

    name: str
    seeds: tuple[int, ...] = (0,)
    settings: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def fields(self) -> Iterator[dict[str, Any]]:
        """What each combination of settings makes of a run's fields."""
        axes = dict(self.settings)
        if self.name == "power-law":
            axes = {name: (value,) for name, value in _EXPONENTS.items()} | axes
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            own = {name: float(chosen.pop(name)) for name in _OWN_FIELDS if name in chosen}
            yield {"scheme": self.name, **own, "settings": compact(chosen) if chosen else ""}


@dataclass(frozen=True)
class OptimizerChoice:
    """How a run is trained; `schedule` and `arguments` are canonical JSON, or a schedule's name."""

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    arguments: str = ""

    def made(self) -> Any:
        """The optimizer as `kandle.train` takes it."""
        from kandle.train import Optimizer

        schedule = json.loads(self.schedule) if self.schedule.startswith("{") else self.schedule
        arguments = json.loads(self.arguments) if self.arguments else {}
        return Optimizer(self.name, self.learning_rate, schedule, arguments)


@dataclass(frozen=True)
class Study:
    """A declared grid: problems × architectures × ways of training × schemes × seeds.

    What does not apply to a problem (`rba` and `references` of a function) is left empty there and
    multiplies nothing. `checkpoints` is how many spectra are taken, evenly spaced from before the
    first update to after the last. `steps` of None is each problem's own length. `source` is the
    file it came from, for errors.
    """

    name: str
    problems: tuple[str, ...]
    architectures: tuple[Shape, ...]
    schemes: tuple[SchemeAxis, ...]
    description: str = ""
    steps: int | None = None
    optimizers: tuple[OptimizerChoice, ...] = (OptimizerChoice(),)
    degrees: tuple[int, ...] = (3,)
    dtypes: tuple[str, ...] = ("float32",)
    rba: tuple[str, ...] = ("published",)
    draws: tuple[str, ...] = ("independent",)
    references: tuple[str, ...] = ()
    residuals: tuple[str, ...] = ("silu",)
    biases: tuple[bool, ...] = (True,)
    domain: tuple[float, float] = (-1.0, 1.0)
    curve: str = "log"
    checkpoints: int = 0
    scales: tuple[tuple[str, Axes], ...] = ()
    source: str = ""

    def at_scale(self, scale: str) -> "Study":
        """The study narrowed to a scale; `paper` is the whole study unless it is declared
        otherwise.
        """
        declared = dict(self.scales)
        if scale not in (*SCALES, *declared):
            raise unknown("scale", scale, dict.fromkeys((*declared, *SCALES)))
        if scale not in declared and scale != "paper":
            known = ", ".join(dict.fromkeys((*declared, "paper")))
            where = self.source or f"Study {self.name!r}"
            raise UserError(f"{where} declares no scale {scale!r}. Declared: {known}.")
        return self.with_axes(declared.get(scale, Axes()))

    def with_axes(self, axes: Axes) -> "Study":
        """The study with some of its axes replaced."""
        return dataclasses.replace(
            self,
            problems=axes.problems or self.problems,
            architectures=reshaped(self.architectures, axes),
            schemes=tuple(_with_axes(scheme, axes) for scheme in self._chosen(axes.schemes)),
            steps=axes.steps or self.steps,
        )

    def _chosen(self, names: tuple[str, ...] | None) -> Iterator[SchemeAxis]:
        if names is None:
            yield from self.schemes
            return
        most = max((scheme.seeds for scheme in self.schemes), key=len)
        for name in names:
            declared = [scheme for scheme in self.schemes if scheme.name == name]
            if not declared:
                from kandle import init

                init.get(name)
            yield from declared or [SchemeAxis(name, most)]

    def specs(self) -> list[RunSpec]:
        """Every run of the study, none twice, in a fixed order."""
        starts = self._starts()
        made = [
            RunSpec(**common, **fields, seed=seed)
            for common in self.trainings()
            for fields, seed in starts
        ]
        names = [axis.name for axis in self.schemes]
        # Only a scheme that is listed twice can make a run twice.
        return made if len(set(names)) == len(names) else list(dict.fromkeys(made))

    def __len__(self) -> int:
        """How many runs the study has, counted without making them."""
        return sum(1 for _ in self.trainings()) * len(self._starts())

    def _starts(self) -> list[tuple[dict[str, Any], int]]:
        return [
            (fields, seed)
            for axis in self.schemes
            for fields in axis.fields()
            for seed in axis.seeds
        ]

    def trainings(self) -> Iterator[dict[str, Any]]:
        """The fields that runs of one problem, architecture and way of training share, in order."""
        ways = list(
            itertools.product(
                self.architectures,
                self.degrees,
                self.residuals,
                self.biases,
                self.optimizers,
                self.dtypes,
                self.draws,
            )
        )
        for problem in self.problems:
            known = facts(problem)
            steps = self.steps or known.default_steps
            rba = self.rba if known.kind == "pde" else ("",)
            references = (self.references or (known.reference,)) if known.reference else ("",)
            for way, weights, reference in itertools.product(ways, rba, references):
                (G, width, depth), degree, residual, bias, optimizer, dtype, draws = way
                yield {
                    "study": self.name,
                    "problem": problem,
                    "G": G,
                    "width": width,
                    "depth": depth,
                    "degree": degree,
                    "steps": steps,
                    "optimizer": optimizer.name,
                    "learning_rate": optimizer.learning_rate,
                    "schedule": optimizer.schedule,
                    "optimizer_arguments": optimizer.arguments,
                    "dtype": dtype,
                    "rba": weights,
                    "draws": draws,
                    "reference": reference,
                    "residual": residual,
                    "bias": bias,
                    "domain": compact([float(end) for end in self.domain]),
                    "curve": self.curve,
                    "checkpoints": _spaced(self.checkpoints, steps),
                }


def _with_axes(scheme: SchemeAxis, axes: Axes) -> SchemeAxis:
    settings = dict(scheme.settings)
    for name, values in (("alpha", axes.alphas), ("beta", axes.betas)):
        if values is not None and (name in settings or scheme.name == "power-law"):
            settings[name] = values
    seeds: Any = (
        axes.seeds if isinstance(axes.seeds, int) else dict(axes.seeds or ()).get(scheme.name)
    )
    return SchemeAxis(
        scheme.name,
        tuple(range(seeds)) if seeds else scheme.seeds,
        tuple(settings.items()),
    )


def _spaced(count: int, steps: int) -> str:
    if not count:
        return ""
    return json.dumps(
        [round(i * steps / max(count - 1, 1)) for i in range(count)], separators=(",", ":")
    )


def residual_function(name: str) -> str | None:
    """The residual of an architecture from its name in a study; `none` is no residual."""
    return None if name == "none" else name


def scheme_axes(settings: Mapping[str, Any]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Settings of a scheme as axes: a list is an axis, anything else an axis of one."""
    return tuple(
        (name, tuple(value) if isinstance(value, list | tuple) else (value,))
        for name, value in settings.items()
    )
