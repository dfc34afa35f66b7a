"""A table as text, Markdown, LaTeX (booktabs) or CSV."""

import textwrap
from collections.abc import Callable, Sequence

from kandle._errors import unknown
from kandle._text import printable
from kandle.report._names import tex
from kandle.report.tables._table import Cell, Table

# A longer table does not fit a page and is broken over several.
_LINES_PER_PAGE = 40
# Without booktabs its rules are plain lines, so that a table compiles with any LaTeX.
_RULES = [
    "% looks best with \\usepackage{booktabs}",
    *(rf"\providecommand{{\{name}rule}}{{\hline}}" for name in ("top", "mid", "bottom")),
]


def render(table: Table, format: str = "text") -> str:
    """The table in `format`, ending in a newline. CSV is the tidy frame alone, without notes."""
    if format not in FORMATS:
        raise unknown("table format", format, FORMATS)
    # Headings and notes quote names of a store that may come from anywhere.
    return "\n".join(map(printable, FORMATS[format](table).split("\n")))


def _text(table: Table) -> str:
    rows = [row for block in table.blocks for row in block]
    shown = [[c.text + ("*" if c.bold else "") for c in row] for row in (table.header, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    parts = [table.heading, rule]
    if table.spans:
        parts.append(_span_line(table, widths))
    parts += [line(shown[0]), rule]
    body = iter(shown[1:])
    for i, block in enumerate(table.blocks):
        if i and len(block) > 1:
            parts.append("")
        parts += [line(next(body)) for _ in block]
    parts.append(rule)
    if any(c.bold for row in rows for c in row):
        parts.append("* best")
    width = max(len(rule), 80)
    notes = [textwrap.fill(note, width, subsequent_indent="  ") for note in table.notes]
    return "\n".join([*parts, *notes]) + "\n"


def _span_line(table: Table, widths: Sequence[int]) -> str:
    at, parts = 0, []
    for label, columns in table.spans:
        width = sum(widths[at : at + columns]) + 2 * (columns - 1)
        parts.append(label.ljust(width))
        at += columns
    return "  ".join(parts).rstrip()


def _markdown(table: Table) -> str:
    def cell(c: Cell) -> str:
        text = c.text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
        return f"**{text}**" if c.bold and text else text

    header = [c.text for c in table.header]
    if table.spans:
        groups = [label for label, columns in table.spans for _ in range(columns)]
        header = [f"{g} {h}".strip() for g, h in zip(groups, header, strict=True)]
    lines = [f"**{table.heading}**", "", _bars(header), _bars(["---"] * len(header))]
    lines += [_bars([cell(c) for c in row]) for block in table.blocks for row in block]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes)]).rstrip() + "\n"


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex(table: Table) -> str:
    def cell(c: Cell) -> str:
        if c.latex is not None:
            return c.latex
        return f"\\textbf{{{tex(c.text)}}}" if c.bold and c.text else tex(c.text)

    def line(cells: Sequence[Cell]) -> str:
        row = " & ".join(map(cell, cells))
        # After the `\\` before it, LaTeX would read these as an option of the line break.
        return "    " + ("{}" if row.startswith(("[", "*")) else "") + row + r" \\"

    count = len(table.header)
    columns = "@{}" + "l" * count + "@{}"
    letters, gap = (r"\scriptsize", 2 if count < 9 else 1) if count > 6 else (r"\footnotesize", 3)
    size = rf"{letters}\setlength{{\tabcolsep}}{{{gap}pt}}"
    head = []
    if table.spans:
        spans = [rf"\multicolumn{{{n}}}{{c}}{{{tex(label)}}}" for label, n in table.spans]
        head.append("    " + " & ".join(spans) + r" \\")
    head += [line([_stacked(c) for c in table.header]), r"    \midrule"]
    body = []
    for i, block in enumerate(table.blocks):
        if i and len(block) > 1:
            body.append(r"    \midrule")
        body += [line(row) for row in block]
    notes = ""
    if table.notes:
        # Not by `\\`, which would take a note's opening bracket for the length of a skip.
        notes = r"\par".join("\n    " + tex(note) for note in table.notes)
    title = [f"  \\caption{{{tex(table.caption)}}}", f"  \\label{{{table.label}}}"]
    if len(body) > _LINES_PER_PAGE:
        lines = [
            "% needs \\usepackage{longtable}",
            *_RULES,
            rf"{{{size}",
            rf"\begin{{longtable}}{{{columns}}}",
            *title[:1],
            title[1] + r" \\",
            r"    \toprule",
            *head,
            r"    \endfirsthead",
            r"    \toprule",
            *head,
            r"    \endhead",
            r"    \bottomrule",
            r"    \endfoot",
            *body,
            r"\end{longtable}",
            *([rf"\noindent\parbox{{\linewidth}}{{{notes}}}"] if notes else []),
            "}",
        ]
        return "\n".join(lines) + "\n"
    lines = [
        *_RULES,
        r"\begin{table}",
        rf"  \centering{size}",
        *title,
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *head,
        *body,
        r"    \bottomrule",
        r"  \end{tabular}",
        *([r"  \par\smallskip", rf"  \parbox{{\linewidth}}{{{notes}}}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _stacked(title: Cell) -> Cell:
    """A column title like `module:object` on two lines, so that the column stays narrow."""
    first, colon, second = title.text.partition(":")
    if not colon or title.latex is not None:
        return title
    return Cell(title.text, latex=rf"\shortstack[l]{{{tex(first)}:\\{tex(second)}}}")


def _csv(table: Table) -> str:
    text = [
        name for name, dtype in table.tidy.dtypes.items() if dtype.kind == "O" or dtype == "str"
    ]
    safe = table.tidy.assign(**{str(name): table.tidy[name].map(_safe) for name in text})
    return safe.to_csv(index=False, lineterminator="\n")


def _safe(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
