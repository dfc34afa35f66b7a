"""The line at the foot of a figure that is made of less than the paper's runs."""

import pandas as pd

from kandle.analysis import finished

STEPS = {"function": 2000, "pde": 5000}


def remarks(
    runs: pd.DataFrame, *, steps: int | None, seeds: int | None = None, unfinished: bool = True
) -> str:
    """What the runs lack of the paper's, in a sentence; empty if nothing.

    `unfinished`: say how many did not finish, where the figure leaves those out.
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
    told = "; ".join(parts)
    return told[:1].upper() + told[1:]
