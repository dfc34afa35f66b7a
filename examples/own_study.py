"""A study of your own from a TOML file: run it, run it again, read its medians."""

import tempfile
from pathlib import Path

from kandle import analysis, study
from kandle.store import Store

STUDY = """
name = "depth-and-gain"
description = "Does depth change which initialization is better?"
problems = ["f1"]
grids = [5]
widths = [4]
depths = [1, 3]
steps = {steps}

[[schemes]]
name = "glorot"
seeds = 2

[[schemes]]
name = "power-law"
seeds = 2
alpha = [0.25]
beta = [1.75]
"""


def main(steps: int = 300) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "depth.toml"
        file.write_text(STUDY.format(steps=steps))
        plan = study.plan(study.get(str(file)))
        store = Path(folder) / "store"
        study.run(plan, store, executor=study.InlineExecutor)
        again = study.run(plan, store, executor=study.InlineExecutor)
        print(f"the second time nothing was left to do: {again}")
        with Store.open(store) as opened:
            frame = opened.frame()
    table = analysis.medians(frame)
    print(table.to_string())
    return len(frame)


if __name__ == "__main__":
    main()
