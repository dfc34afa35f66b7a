"""PyTorch's side: efficient-kan, FastKAN and a plain MLP, trained alike.

Adam is PyTorch's fused one, for all of them.
"""

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import nn

from speed._arithmetic import cores
from speed._cases import Case
from speed._runner import Runner, data


class TorchRunner(Runner):
    def __init__(self, case: Case, build: Callable[[Sequence[int], int], nn.Module]):
        torch.set_num_threads(cores())
        torch.manual_seed(0)
        self._model, self._predict = build(case.widths, case.grid), case.predict
        arrays = data(case)
        self._x, self._y = (torch.from_numpy(arrays[name].copy()) for name in ("x", "y"))
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3, fused=True)

    def run(self, steps: int) -> float:
        if self._predict:
            return self._evaluate(steps)
        value = torch.tensor(float("nan"))
        for _ in range(steps):
            self._optimizer.zero_grad()
            value = torch.mean((self._model(self._x) - self._y) ** 2)
            value.backward()
            self._optimizer.step()
        return value.item()

    @torch.no_grad()
    def _evaluate(self, steps: int) -> float:
        y = self._x
        for _ in range(steps):
            y = self._model(self._x)
        return y[0, 0].item()

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self._model.parameters() if p.requires_grad)


def efficient_kan(case: Case) -> Runner:
    from efficient_kan import KAN  # pyright: ignore[reportMissingImports]

    return TorchRunner(case, lambda widths, grid: KAN(list(widths), grid_size=grid))


def fast_kan(case: Case) -> Runner:
    from fastkan import FastKAN  # pyright: ignore[reportMissingImports]

    # As many functions per edge as the splines are.
    return TorchRunner(case, lambda widths, grid: FastKAN(list(widths), num_grids=grid + 3))


def mlp(case: Case) -> Runner:
    def build(widths: Sequence[int], grid: int) -> nn.Module:
        layers: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(widths):
            layers += [nn.Linear(n_in, n_out), nn.SiLU()]
        return nn.Sequential(*layers[:-1])

    return TorchRunner(case, build)
