"""A study: a declared grid of trainings."""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kandle import bases
from kandle._errors import UserError, unknown
from kandle.store import RunSpec, compact
from kandle.study._axes import Axes, Shape, counted_seeds, replace_coordinates
from kandle.study._catalogue import Facts, facts, scheme_facts

if TYPE_CHECKING:
    from kandle.train import Optimizer, Recipe

SCALES = ("smoke", "quick", "overnight", "paper")

_OWN_FIELDS = ("alpha", "beta", "gain")  # settings that have a field of their own in a run


@dataclass(frozen=True)
class SchemeAxis:
    """One scheme of a study: every combination of its settings, each with these seeds.

    `name` is a built-in scheme or `module:Class`.
    """

    name: str
    seeds: tuple[int, ...] = (0,)
    settings: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def fields(self) -> Iterator[dict[str, Any]]:
        """The fields of a run for each combination of settings."""
        axes = dict(self.settings)
        exponents = scheme_facts(self.name, _first(axes)).exponents
        axes = {name: (value,) for name, value in exponents.items()} | axes
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            own = {name: float(chosen.pop(name)) for name in _OWN_FIELDS if name in chosen}
            yield {"scheme": self.name, **own, "settings": compact(chosen) if chosen else ""}


@dataclass(frozen=True)
class OptimizerChoice:
    """How a run is trained; `schedule` (unless it is a name) and `arguments` are canonical JSON."""

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    arguments: str = ""

    @classmethod
    def of(
        cls,
        name: str = "adam",
        learning_rate: float = 1e-3,
        schedule: str | Mapping[str, Any] = "constant",
        arguments: Mapping[str, Any] | None = None,
    ) -> "OptimizerChoice":
        """The choice with these fields of `kandle.train.Optimizer`."""
        encoded = schedule if isinstance(schedule, str) else compact(schedule)
        return cls(name, float(learning_rate), encoded, compact(arguments) if arguments else "")

    def build(self) -> "Optimizer":
        """The optimizer as `kandle.train` takes it."""
        from kandle.train import Optimizer

        schedule = json.loads(self.schedule) if self.schedule.startswith("{") else self.schedule
        arguments = json.loads(self.arguments) if self.arguments else {}
        return Optimizer(self.name, self.learning_rate, schedule, arguments)


@dataclass(frozen=True)
class Study:
    """A declared grid: problems × architectures × ways of training × schemes × seeds.

    Axes that do not apply to a problem (`rba` and `references` of a function) are ignored there.
    `bases` are canonical JSON; "" stands for uniform B-splines, the only ones that multiply with
    the grids and degrees. `checkpoints` is the number of spectra, evenly spaced from before the
    first update to after the last. `refinements` are multiples of G: after training on G intervals
    a run trains on these, `steps` updates on each grid. A `recipe` takes the place of `optimizers`,
    for its schedule follows the number of steps. With `steps` None a problem has the length that
    the recipe gives it, or else its own. `source` is the file that declares the study, for error
    messages.
    """

    name: str
    problems: tuple[str, ...]
    architectures: tuple[Shape, ...]
    schemes: tuple[SchemeAxis, ...]
    description: str = ""
    steps: int | None = None
    optimizers: tuple[OptimizerChoice, ...] = (OptimizerChoice(),)
    bases: tuple[str, ...] = ("",)
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
    refinements: tuple[int, ...] = ()
    recipe: "Recipe | None" = None
    scales: tuple[tuple[str, Axes], ...] = ()
    source: str = ""

    def at_scale(self, scale: str) -> "Study":
        """The study narrowed to a scale; `paper` is the whole study unless declared otherwise."""
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
            architectures=replace_coordinates(self.architectures, axes),
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
        initializations = self._initializations()
        specs = [
            RunSpec(**common, **fields, seed=seed)
            for common in self.trainings()
            for fields, seed in initializations
        ]
        names = [axis.name for axis in self.schemes]
        # Only a scheme that is listed twice can give a run twice.
        return specs if len(set(names)) == len(names) else list(dict.fromkeys(specs))

    def __len__(self) -> int:
        """How many runs the study has, counted without listing them."""
        return sum(1 for _ in self.trainings()) * len(self._initializations())

    def _initializations(self) -> list[tuple[dict[str, Any], int]]:
        return [
            (fields, seed)
            for axis in self.schemes
            for fields in axis.fields()
            for seed in axis.seeds
        ]

    def _edges(self) -> list[dict[str, Any]]:
        """The fields of every architecture with every basis."""
        domain = compact([float(end) for end in self.domain])
        found: list[dict[str, Any]] = []
        for description in self.bases:
            if description:
                basis = bases.from_dict(json.loads(description))
                fields = {"G": basis.n_basis, "degree": 3, "basis": description}
                fields["domain"] = compact(list(basis.domain))
                shapes = dict.fromkeys(shape[1:] for shape in self.architectures)
                found += [{**fields, "width": w, "depth": d} for w, d in shapes]
            else:
                found += [
                    {"G": G, "width": w, "depth": d, "degree": k, "domain": domain}
                    for (G, w, d), k in itertools.product(self.architectures, self.degrees)
                ]
        return found

    def _steps_of(self, problem: Facts) -> int:
        """The updates per grid on a problem, unless the study sets them."""
        return problem.default_steps if self.recipe is None else self.recipe.steps_for(problem)

    def _optimizers_for(self, steps: int) -> tuple[OptimizerChoice, ...]:
        """The optimizers of runs with so many updates per grid."""
        if self.recipe is None:
            return self.optimizers
        return (OptimizerChoice.of(**self.recipe.optimizer_for(steps).to_dict()),)

    def trainings(self, ask: Callable[[str], Facts] = facts) -> Iterator[dict[str, Any]]:
        """The fields that runs of one problem, architecture and way of training share, in order.

        `ask` returns the facts of a problem.
        """
        every_edge = self._edges()
        for problem in self.problems:
            known = ask(problem)
            steps = self.steps or self._steps_of(known)
            ways = itertools.product(
                every_edge,
                self.residuals,
                self.biases,
                self._optimizers_for(steps),
                self.dtypes,
                self.draws,
            )
            rba = self.rba if known.kind == "pde" else ("",)
            references = (self.references or (known.reference,)) if known.reference else ("",)
            for way, weights, reference in itertools.product(ways, rba, references):
                edges, residual, bias, optimizer, dtype, draws = way
                # Only uniform B-splines can be refined.
                refined = self.refinements and "basis" not in edges
                total = steps * (1 + len(self.refinements)) if refined else steps
                yield {
                    "study": self.name,
                    "problem": problem,
                    **edges,
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
                    "curve": self.curve,
                    "checkpoints": _spaced(self.checkpoints, total),
                    "refinements": compact(list(self.refinements)) if refined else "",
                }


def _with_axes(scheme: SchemeAxis, axes: Axes) -> SchemeAxis:
    settings = dict(scheme.settings)
    for name, values in (("alpha", axes.alphas), ("beta", axes.betas)):
        if values is not None and (
            name in settings or name in scheme_facts(scheme.name, _first(settings)).exponents
        ):
            settings[name] = values
    seeds: Any = (
        axes.seeds if isinstance(axes.seeds, int) else dict(axes.seeds or ()).get(scheme.name)
    )
    return SchemeAxis(
        scheme.name,
        counted_seeds(seeds) if seeds else scheme.seeds,
        tuple(settings.items()),
    )


def _first(settings: Mapping[str, tuple[Any, ...]]) -> str:
    """One combination of settings, as JSON."""
    return compact({name: values[0] for name, values in settings.items()})


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
