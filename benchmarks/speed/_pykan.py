"""pykan's side: its speed mode and the Adam step of its own `fit`, without what surrounds it there.

`fit` also draws a permutation of the samples and evaluates a test set every step; both are left
out. Its symbolic branch is off, and the parameters of it are not counted.
"""

from typing import Any

import torch
from kan import KAN

from speed._cases import Case
from speed._runner import Runner, data

_TRAINED = ("coef", "scale_base", "scale_sp")


class PykanRunner(Runner):
    def __init__(self, case: Case):
        self._model: Any = KAN(
            width=list(case.widths),
            grid=case.grid,
            k=3,
            seed=0,
            symbolic_enabled=False,
            save_act=False,
            auto_save=False,
        ).speed()
        arrays = data(case)
        self._x, self._y = (torch.from_numpy(arrays[name].copy()) for name in ("x", "y"))
        self._predict = case.predict
        self._optimizer = torch.optim.Adam(self._model.get_params(), lr=1e-3)

    def run(self, steps: int) -> float:
        if self._predict:
            with torch.no_grad():
                for _ in range(steps - 1):
                    self._model(self._x)
                return self._model(self._x)[0, 0].item()
        value = torch.tensor(float("nan"))
        for _ in range(steps):
            value = torch.mean((self._model(self._x) - self._y) ** 2)
            self._optimizer.zero_grad()
            value.backward()
            self._optimizer.step()
        return value.detach().item()

    @property
    def parameters(self) -> int:
        named = self._model.named_parameters()
        return sum(p.numel() for name, p in named if name.rsplit(".", 1)[-1] in _TRAINED)
