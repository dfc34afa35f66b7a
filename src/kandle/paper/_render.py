"""From a store to files: a table in four formats, a figure, the explorer's page."""

from pathlib import Path

from kandle.paper._targets import Target

_ENDINGS = {"text": "txt", "markdown": "md", "latex": "tex", "csv": "csv"}


def render(target: Target, steps: int | None, store: Path, out: Path) -> tuple[list[Path], str]:
    """Write the files of a target to `out`; return their paths and, for a table, its text.

    Only runs of `steps` steps are shown, since a store may hold several scales. Tables compare with
    the paper's numbers.
    """
    where = [] if steps is None else [f"steps={steps}"]
    out.mkdir(parents=True, exist_ok=True)
    return (_table if target.is_table else _figure)(target, store, out, where)


def _table(target: Target, store: Path, out: Path, where: list[str]) -> tuple[list[Path], str]:
    from kandle.paper._tables import table as build
    from kandle.report import tables

    paper = target.study is not None
    table = build(target.name.removeprefix("table"), store, paper=paper, where=where)
    texts = {ending: tables.render(table, name) for name, ending in _ENDINGS.items()}
    files = [out / f"{target.name}.{ending}" for ending in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    return files, texts["txt"]


def _figure(target: Target, store: Path, out: Path, where: list[str]) -> tuple[list[Path], str]:
    from kandle.paper._figures import figure
    from kandle.report import figures

    drawn = figure(target.name, store, where=where)
    return [figures.save(drawn, out / f"{target.name}.png")], ""


def explorer(store: Path, out: Path) -> Path:
    """Write the interactive page of the store."""
    from kandle.paper._design import STUDIES
    from kandle.report.explorer import explore

    return explore(store, out / "explorer.html", plain_studies=STUDIES)
