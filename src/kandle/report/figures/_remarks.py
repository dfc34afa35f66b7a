"""The line at the foot of a figure that is made of less than the paper's runs."""

from collections.abc import Sequence

import pandas as pd

from kandle.analysis import finished


def of(count: int, whole: int | None, what: str) -> list[str]:
    """`4 of 81 exponent pairs`; nothing if all are present or none are planned."""
    return [f"{count} of {whole} {what}"] if whole is not None and count < whole else []


def remarks(
    runs: pd.DataFrame,
    *,
    steps: int | None,
    seeds: int | None = None,
    unfinished: bool = True,
    shows: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> str:
    """What the paper has and the runs lack, in a sentence; empty if nothing.

    `unfinished`: say how many did not finish, where the figure leaves those out. `shows` comes
    first; what was `left_out` because it was trained differently comes last.
    """
    parts = []
    if runs.empty:
        return ""
    taken = sorted({int(s) for s in runs["steps"]})
    if steps is not None and taken != [steps]:
        parts.append(f"trained for {', '.join(f'{s:,}' for s in taken)} steps (paper: {steps:,})")
    most = int(runs.groupby("scheme")["seed"].nunique().max())
    if seeds is not None and most < seeds:
        parts.append(f"{most} seed{'' if most == 1 else 's'} (paper: {seeds})")
    if unfinished and (lost := len(runs) - len(finished(runs))):
        parts.append(f"{lost} of {len(runs)} runs did not finish and are left out")
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        parts.append(f"excluded (different training settings): {left_out[0]}{more}")
    text = "; ".join([*shows, *parts])
    return text[:1].upper() + text[1:]
