"""The benchmark's results for people, line by line."""

from kandle.kernels import _library
from speed import _arithmetic
from speed._cases import GROWTH, GROWTH_BAR, MEMORY, MEMORY_BAR, WIDE, WIDE_BAR
from speed._kernels import KERNELS
from speed._measure import Growth, Row
from speed._memory import Memory
from speed._peers import PEERS


def machine(rate: float) -> list[str]:
    """What the numbers were measured on, and how the last column counts."""
    return [
        f"{_arithmetic.cores()} threads, kernels for {_library.instruction_set()}, "
        f"{rate / 1e9:.0f} GFLOP/s per core on fused multiply-adds (measured now).",
        "Adam, float32, compilation excluded; ms per step and network, medians in turns.",
        f"FMA: share of all threads' rate at {_arithmetic.VALUE} fused multiply-adds per edge and "
        f"sample, {_arithmetic.JET} at collocation points (u, u_t, u_x, u_xx);",
        "fwd, dW, dx: that of each native kernel on the layers of the case.",
        "",
        f"{'case':<26}{'peer':<15}{'kandle ms':>10}{'peer ms':>10}{'ratio':>9}{'bar':>6}{'FMA':>7}"
        f"{'fwd':>6}{'dW':>6}{'dx':>6}",
    ]


def row(row: Row) -> str:
    peer = PEERS[row.peer].label if row.peer else "-"
    theirs = "-" if row.peer_ms is None else f"{row.peer_ms:.4g}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.1f}x"
    bar = "" if row.bar is None else f"{row.bar:g}x"
    kernels = (f"{row.kernels[name]:>6.0%}" if name in row.kernels else "" for name in KERNELS)
    return (
        f"{row.case:<26}{peer:<15}{row.kandle_ms:>10.4g}{theirs:>10}{ratio:>9}{bar:>6}"
        f"{row.share:>7.1%}{''.join(kernels)}"
    )


def growth(grown: Growth) -> str:
    label = PEERS[grown.library].label if grown.library in PEERS else "Kandle"
    coarse, fine = GROWTH
    bar = f" (bar: at most {GROWTH_BAR:g})" if grown.library == "kandle" else ""
    return (
        f"{label}, width {fine.width}, depth {fine.depth}: G={fine.grid} takes {grown.ratio:.2f} "
        f"times G={coarse.grid} ({grown.coarse_ms:.4g} -> {grown.fine_ms:.4g} ms){bar}"
    )


def memory(used: Memory) -> list[str]:
    mib = 2.0**20
    shapes = (",".join(map(str, case.widths)) for case in (MEMORY, WIDE))
    text = (
        f"Peak memory of training [{next(shapes)}], G={MEMORY.grid}, above an idle JAX process "
        f"({used.idle / mib:.0f} MiB): Kandle {used.kandle / mib:.0f} MiB"
    )
    if used.jaxkan is not None and used.ratio is not None:
        text += (
            f", jaxKAN {used.jaxkan / mib:.0f} MiB, "
            f"ratio {used.ratio:.3f} (bar: below {MEMORY_BAR:g})"
        )
    wide = (
        f"[{next(shapes)}], G={WIDE.grid}, above a tiny network: {used.wide / mib:.0f} MiB; "
        f"weights, gradients "
        f"and moments alone are {used.wide_state / mib:.0f} MiB (bar: at most "
        f"{WIDE_BAR / mib:.0f} more)"
    )
    return [text, wide]
