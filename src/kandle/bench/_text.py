"""The benchmark's results for people, a line at a time."""

from kandle.bench import _arithmetic
from kandle.bench._bench import Growth, Row
from kandle.bench._cases import CASES, GROWTH, GROWTH_BAR, MEMORY, MEMORY_BAR
from kandle.bench._memory import Memory
from kandle.bench._peers import PEERS
from kandle.kernels import _library


def machine(rate: float) -> list[str]:
    """What the numbers were measured on, and how the last column counts."""
    return [
        f"{_arithmetic.cores()} threads, kernels for {_library.instruction_set()}, "
        f"{rate / 1e9:.0f} GFLOP/s a core on fused multiply-adds (measured now).",
        "Full-batch Adam, float32, compilation excluded; ms a step and network, medians in turns.",
        f"FMA: share of all threads' rate at {_arithmetic.VALUE} fused multiply-adds an edge and "
        f"sample, {_arithmetic.JET} at collocation points (u, u_t, u_x, u_xx).",
        "",
        f"{'case':<26}{'peer':<8}{'kandle ms':>10}{'peer ms':>10}{'ratio':>9}{'bar':>6}{'FMA':>7}",
    ]


def row(row: Row, rate: float) -> str:
    peer = PEERS[row.peer].label if row.peer else "-"
    theirs = "-" if row.peer_ms is None else f"{row.peer_ms:.4g}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.1f}x"
    bar = "" if row.bar is None else f"{row.bar:g}x"
    share = _arithmetic.share(CASES[row.case], row.kandle_ms, rate)
    return (
        f"{row.case:<26}{peer:<8}{row.kandle_ms:>10.4g}{theirs:>10}{ratio:>9}{bar:>6}{share:>7.1%}"
    )


def growth(grown: Growth) -> str:
    label = PEERS[grown.library].label if grown.library in PEERS else "Kandle"
    coarse, fine = GROWTH
    bar = f" (bar: at most {GROWTH_BAR:g})" if grown.library == "kandle" else ""
    return (
        f"{label}, width {fine.width}, depth {fine.depth}: G={fine.grid} takes {grown.ratio:.2f} "
        f"times G={coarse.grid} ({grown.coarse_ms:.4g} -> {grown.fine_ms:.4g} ms){bar}"
    )


def memory(used: Memory) -> str:
    mib = 2.0**20
    shape = ",".join(map(str, MEMORY.widths))
    text = (
        f"Peak memory of training [{shape}], G={MEMORY.grid}, above an idle JAX process "
        f"({used.idle / mib:.0f} MiB): Kandle {used.kandle / mib:.0f} MiB"
    )
    if used.jaxkan is None or used.ratio is None:
        return text
    return (
        f"{text}, jaxKAN {used.jaxkan / mib:.0f} MiB, "
        f"ratio {used.ratio:.3f} (bar: below {MEMORY_BAR:g})"
    )
