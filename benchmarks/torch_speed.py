"""Training steps of `kandle.torch.KAN` beside efficient-kan and FastKAN, in one interleaved run.

    python benchmarks/torch_speed.py --peer-path efficient-kan=DIR --peer-path fastkan=DIR
    python benchmarks/torch_speed.py --overhead

A step is forward, backward and Adam (1e-3) in float32; `pinn` is an Allen-Cahn residual with second
derivatives by `torch.autograd.grad(create_graph=True)`. Peers are not on the package index: DIR is
the folder that contains their package (`src` of a checkout of Blealtan/efficient-kan, the checkout
of ZiyaoLi/fast-kan itself). All networks have the same widths and number of basis functions. Rounds
of a few steps alternate between the libraries; printed are medians per step and their ratios.
"""

import argparse
import json
import statistics
import sys
import time
import timeit
from collections.abc import Callable

import torch

import kandle.torch
from kandle._errors import UserError, unknown

# name: widths, grid intervals, rows
CASES = {
    "small": ([2, 8, 8, 1], 5, 4000),
    "large": ([2, 32, 32, 32, 1], 20, 4000),
    "wide": ([20, 64, 64, 1], 8, 1024),
    "digits": ([784, 64, 10], 5, 128),
    "pinn": ([2, 8, 8, 1], 5, 1024),
}
PEERS = ("efficient-kan", "fastkan")


def build(library: str, widths: list[int], grid: int) -> torch.nn.Module:
    if library == "kandle":
        return kandle.torch.KAN(widths, grid_size=grid)
    if library == "efficient-kan":
        from efficient_kan import KAN

        return KAN(widths, grid_size=grid)
    from fastkan import FastKAN

    return FastKAN(widths, num_grids=grid + 3)


def regression(model: Callable, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mean((model(x) - y) ** 2)


def allen_cahn(model: Callable, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean square of u_t - 1e-4 u_xx + 5 (u³ - u), with columns t and x."""
    x = x.detach().requires_grad_()
    u = model(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (d_xx,) = torch.autograd.grad(du[:, 1].sum(), x, create_graph=True)
    residual = du[:, :1] - 1e-4 * d_xx[:, 1:] + 5 * (u**3 - u)
    return torch.mean(residual**2)


def step_of(
    model: torch.nn.Module, compiled: bool, case: str, fused: bool = False
) -> Callable[[], None]:
    widths, _, rows = CASES[case]
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(rows, widths[0], generator=generator) - 1
    y = torch.randn(rows, widths[-1], generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    loss = allen_cahn if case == "pinn" else regression
    forward = torch.compile(model) if compiled else model

    def step() -> None:
        optimizer.zero_grad()
        loss(forward, x, y).backward()
        optimizer.step()

    return step


def measure(
    case: str, libraries: list[str], compiled: bool, seconds: float, fused: bool
) -> dict[str, float]:
    """Milliseconds per step of each library."""
    widths, grid, _ = CASES[case]
    steps = {}
    for library in libraries:
        torch.manual_seed(0)
        steps[library] = step_of(build(library, widths, grid), False, case, fused)
        # PyTorch's compiler does not differentiate twice.
        if compiled and library != "kandle" and case != "pinn":
            steps[f"{library} compiled"] = step_of(build(library, widths, grid), True, case, fused)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["kandle"]) < 5:
        for name, step in steps.items():
            repeats = 5 if name == "kandle" else 1
            start = time.perf_counter()
            for _ in range(repeats):
                step()
            times[name].append(1e3 * (time.perf_counter() - start) / repeats)
    return {name: statistics.median(values) for name, values in times.items()}


def overhead() -> dict[str, float]:
    """Microseconds per call of the operator on a layer too small to matter."""
    layer = kandle.torch.KANLinear(2, 3)
    x = torch.zeros(1, 2)

    def microseconds(call: Callable) -> float:
        return 1e6 * min(timeit.repeat(call, number=2000, repeat=7)) / 2000

    from kandle.torch._derivatives import layer as operator

    weights = (layer.base_weight, layer.spline_scaler, layer.spline_weight, layer.bias)
    spline = (5, 3, -1.0, 1.0)
    result = {"operator with gradients": microseconds(lambda: operator(x, *weights, *spline))}
    result["module with gradients"] = microseconds(lambda: layer(x))
    with torch.no_grad():
        result["operator without"] = microseconds(lambda: operator(x, *weights, *spline))
        result["module without"] = microseconds(lambda: layer(x))
        registered = torch.ops.kandle.layer.default
        result["registered without"] = microseconds(lambda: registered(x, *weights, *spline))
    result["registered with gradients"] = microseconds(lambda: registered(x, *weights, *spline))
    return result


def main(argv: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--peer-path", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--compiled", action="store_true", help="also torch.compile the peers")
    parser.add_argument("--fused", action="store_true", help="Adam(fused=True) for all libraries")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="per case")
    parser.add_argument("--overhead", action="store_true", help="time single calls instead")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    if arguments.overhead:
        rows = [{"call": name, "us": round(us, 1)} for name, us in overhead().items()]
        for row in rows:
            print(json.dumps(row) if arguments.json else f"{row['call']:28} {row['us']:8.1f} µs")
        return rows
    libraries = ["kandle"]
    for entry in arguments.peer_path:
        name, _, path = entry.partition("=")
        if name not in PEERS:
            raise unknown("peer", name, PEERS)
        sys.path.insert(0, path)
        libraries.append(name)
    rows = []
    for case in arguments.cases.split(","):
        if case not in CASES:
            raise unknown("case", case, CASES)
        known = [name for name in libraries if case != "pinn" or name != "fastkan"]
        options = (arguments.compiled, arguments.seconds, arguments.fused)
        times = measure(case, known, *options)
        for name, ms in times.items():
            row = {"case": case, "library": name, "ms": ms, "ratio": ms / times["kandle"]}
            rows.append(row)
            text = f"{case:8} {name:24} {ms:9.3f} ms {row['ratio']:7.1f}×"
            print(json.dumps(row) if arguments.json else text, flush=True)
    return rows


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"torch_speed.py: error: {error}")
