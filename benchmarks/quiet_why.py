"""What happens inside a network under different starts, from the first update to the last.

    python benchmarks/quiet_why.py --out docs/images/quiet-inside.png [--problem f3] [--csv FILE]

One architecture, several starts and seeds, 2,000 steps of Adam. At checkpoints, medians over seeds:
the standard deviation of hidden values (the spline interval ends at 1), the gradient of the loss a
layer, the share of the layers' output that the splines carry, Σ s²/(Σ s² + Σ r²) with s the spline
part and r the residual part of each output, and of the tangent kernel on 256 points the condition
number and the share of the error in its ten leading modes.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from kandle import init, kernels, ntk, problems
from kandle.report import _names
from kandle.report.figures import _style
from kandle.train import Architecture, Checkpoint, train

SCHEMES = (init.Baseline(), init.Glorot(), init.PowerLaw(), init.Quiet())
STEPS = 2000
CHECKPOINTS = (0, 5, 20, 60, 200, 600, STEPS)
POINTS, MODES = 256, 10
PANELS = {
    "spread": "Std of hidden values",
    "gradient first": "Gradient norm, first layer",
    "gradient last": "Gradient norm, last layer",
    "splines": "Share of the splines",
    "condition": "Condition of the tangent kernel",
    "aligned": f"Error in {MODES} leading modes",
}


def inside(model, x, y, points) -> dict[str, float]:
    """The figures of one network."""
    rows, spreads, spline_power, residual_power = x, [], 0.0, 0.0
    for layer in model.layers:
        options = {"basis": layer.basis, "residual": layer.residual}
        nothing = jnp.zeros_like(layer.b)
        residual = kernels.layer(rows, layer.r, layer.c, nothing, None, **options)
        whole = kernels.layer(rows, layer.r, layer.c, layer.b, None, **options)
        spline_power += float(jnp.mean((whole - residual) ** 2))
        residual_power += float(jnp.mean(residual**2))
        rows = layer(rows)
        spreads.append(float(jnp.std(rows)))
    gradient = jax.grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    norms = [
        float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(layer))))
        for layer in gradient.layers
    ]
    found = ntk.spectrum(model, points, y[: len(points)])
    return {
        "spread": float(np.mean(spreads[:-1])),
        "gradient first": norms[0],
        "gradient last": norms[-1],
        "splines": spline_power / (spline_power + residual_power),
        "condition": found.condition,
        "aligned": float(np.sum(found.error_share[:MODES])),
    }


def measure(problem: str, shape: Architecture, seeds: int) -> pd.DataFrame:
    """One row a start, seed and checkpoint."""
    found = problems.get(problem)
    data = found.arrays("float32")
    x, y = jnp.asarray(data["x"]), jnp.asarray(data["y"])
    members = [(scheme, seed) for scheme in SCHEMES for seed in range(seeds)]
    rows = []

    def look(step: int, models: list[Checkpoint]) -> None:
        for checkpoint in models:
            scheme, seed = members[checkpoint.index]
            measured = inside(checkpoint.model, x, y, x[:POINTS])
            rows.append({"scheme": scheme.name, "seed": seed, "step": step} | measured)

    results = train(found, shape, members, steps=STEPS, checkpoints=CHECKPOINTS, on_checkpoint=look)
    losses = {(m[0].name, m[1]): r.loss for m, r in zip(members, results, strict=True)}
    return pd.DataFrame(rows).assign(
        loss=[losses[row["scheme"], row["seed"]] for row in rows], problem=problem
    )


def draw(table: pd.DataFrame, out: Path) -> None:
    with _style.style():
        figure = _style.new_figure(3.6)
        axes = figure.subplots(2, 3, sharex=True)
        for ax, (column, title) in zip(np.ravel(axes), PANELS.items(), strict=True):
            for scheme in dict.fromkeys(table["scheme"]):
                rows = table[table["scheme"].eq(scheme)].groupby("step")[column].median()
                colour, dashes = _style.SCHEMES[scheme]
                label = _names.scheme(scheme)
                ax.plot(rows.index, rows, color=colour, linestyle=dashes, label=label)
            ax.set_title(title)
            ax.set_xscale("symlog", linthresh=5)
            ax.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1000"])
            if column in ("splines", "aligned"):
                ax.set_ylim(-0.03, 1.03)
            else:
                ax.set_yscale("log")
                _style.decades(ax.yaxis, 6)
        for ax in axes[-1]:
            ax.set_xlabel("Update")
        axes[0, 0].axhline(1.0, color="0.7", linewidth=0.6)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        _style.save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problem", default="f3")
    parser.add_argument("--grid", type=int, default=10)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    shape = Architecture(arguments.width, arguments.depth, arguments.grid)
    table = measure(arguments.problem, shape, arguments.seeds)
    if arguments.csv:
        table.to_csv(arguments.csv, index=False)
    draw(table, arguments.out)
    columns = [*PANELS, "loss"]
    chosen = table[table["step"].isin((0, STEPS))].groupby(["scheme", "step"], sort=False)[columns]
    print(chosen.median().to_string(float_format=lambda v: f"{v:.3g}"))


if __name__ == "__main__":
    main()
