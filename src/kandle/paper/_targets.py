"""The tables and figures of the paper as targets, and which runs each needs."""

from collections.abc import Iterable
from dataclasses import dataclass

from kandle._errors import unknown
from kandle.paper._design import LARGE, SMALL
from kandle.study import RunSpec


@dataclass(frozen=True)
class Target:
    """A table or figure and its runs: those of `study` that match every field that is not None.

    `study` is None for a target without training (C1, C2). `scheduled` selects runs with a decaying
    (True) or constant (False) learning rate.
    """

    name: str
    what: str
    study: str | None = None
    problem: str | None = None
    G: int | None = None
    shapes: tuple[tuple[int, int, int], ...] | None = None
    scheme: str | None = None
    scheduled: bool | None = None

    @property
    def is_table(self) -> bool:
        return self.name.startswith("table")

    def needs(self, spec: RunSpec) -> bool:
        """Whether `spec`, a run of this target's study, is one of its runs."""
        return (
            self.problem in (None, spec.problem)
            and self.G in (None, spec.G)
            and (self.shapes is None or (spec.G, spec.width, spec.depth) in self.shapes)
            and self.scheme in (None, spec.scheme)
            and self.scheduled in (None, spec.schedule != "constant")
        )


def _curves(name: str, study: str, scheduled: bool) -> Target:
    kind = study.removeprefix("curves-")
    what = f"loss curves, {kind}, {'decaying' if scheduled else 'constant'} learning rate"
    return Target(name, what, study, shapes=(SMALL, LARGE), scheduled=scheduled)


def _heatmap(name: str, study: str, problem: str, G: int) -> Target:
    what = f"loss over the exponents, {problem}, G = {G}"
    return Target(name, what, study, problem, G, scheme="power-law")


def _spectra(name: str, study: str, problem: str) -> Target:
    return Target(name, f"kernel spectra, {problem}", study, problem, shapes=(LARGE,))


def _exponents(name: str, problem: str) -> Target:
    what = f"kernel spectra over the exponents, {problem}"
    return Target(name, what, "ntk-exponents", problem, shapes=(LARGE,))


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("table1", "win rates, functions", "functions"),
        Target("table2", "win rates, PDEs", "pdes"),
        Target("table3", "Feynman equations, small", "feynman", shapes=(SMALL,)),
        Target("table4", "Feynman equations, large", "feynman", shapes=(LARGE,)),
        Target("tableC1", "the Feynman equations"),
        _curves("fig1", "curves-functions", False),
        _curves("fig2", "curves-pdes", False),
        _spectra("fig3", "ntk-functions", "f3"),
        _spectra("fig4", "ntk-pdes", "allen-cahn"),
        Target("figC1", "the five functions"),
        Target("figC2", "the reference solutions of the PDEs"),
        *(_heatmap(f"figD{i}", "functions", "f3", G) for i, G in enumerate((5, 10, 20, 40), 1)),
        *(_heatmap(f"figD{i}", "pdes", "allen-cahn", G) for i, G in enumerate((5, 10, 20), 5)),
        _curves("figE1", "curves-functions", True),
        _curves("figE2", "curves-pdes", True),
        *(
            _spectra(f"figN{i}", "ntk-functions", problem)
            for i, problem in enumerate(("f1", "f2", "f4", "f5"), 1)
        ),
        _spectra("figN5", "ntk-pdes", "burgers"),
        _spectra("figN6", "ntk-pdes", "helmholtz"),
        _exponents("figN7", "f3"),
        _exponents("figN8", "burgers"),
    )
}


def chosen(names: Iterable[str]) -> list[Target]:
    """The named targets, each once, in the order of `TARGETS`; no name, or `all`, selects all."""
    spelt = {name.lower(): name for name in TARGETS}
    wanted = set()
    for name in names:
        if name.lower() not in (*spelt, "all"):
            raise unknown("target", name, [*TARGETS, "all"])
        wanted.add(name.lower())
    everything = not wanted or "all" in wanted
    return [TARGETS[name] for key, name in spelt.items() if everything or key in wanted]
