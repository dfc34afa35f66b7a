"""Residual functions of tensors: by the names that saved models use, and over NumPy."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from kandle._errors import must, unknown
from kandle.interop._spline import Residual

# What each name stands for in JAX: its GELU is the approximation by tanh.
RESIDUALS: dict[str, Callable[[], Callable]] = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "gelu": lambda: nn.GELU(approximate="tanh"),
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "sin": lambda: torch.sin,
    "identity": nn.Identity,
}

_FUNCTIONS = {
    nn.functional.silu: "silu",
    nn.functional.relu: "relu",
    torch.relu: "relu",
    nn.functional.elu: "elu",
    nn.functional.softplus: "softplus",
    torch.sigmoid: "sigmoid",
    nn.functional.sigmoid: "sigmoid",
    torch.tanh: "tanh",
    nn.functional.tanh: "tanh",
    torch.sin: "sin",
}


def get_residual(residual: Any) -> Callable | None:
    """An elementwise function from a name, a function, a module or its class, or None."""
    if residual is None:
        return None
    if isinstance(residual, str):
        if residual not in RESIDUALS:
            raise unknown("residual function", residual, RESIDUALS)
        return RESIDUALS[residual]()
    if isinstance(residual, type):
        residual = residual()
    if not callable(residual):
        requirement = "an elementwise function, the name of one, a module or its class, or None"
        raise must("'residual'", requirement, residual)
    return residual


def residual_name(residual: Callable | None) -> str | None:
    """The name of a function in `RESIDUALS`, None for any other."""
    if not isinstance(residual, nn.Module):
        return _FUNCTIONS.get(residual) if residual is not None else None  # pyright: ignore
    for name, build in RESIDUALS.items():
        known: Any = build()
        # `inplace` changes no value; every other option does.
        if type(known) is type(residual) and _options(known) == _options(residual):
            return name
    return None


def _options(module: nn.Module) -> dict[str, Any]:
    public = {k: v for k, v in vars(module).items() if not k.startswith("_")}
    return {k: v for k, v in public.items() if k not in ("training", "inplace")}


def torch_residual(function: Any) -> Residual | None:
    """R and R' over NumPy from a function of tensors, differentiated by PyTorch in float64."""
    if function is None:
        return None
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("cpu").double()

    def residual(x: np.ndarray, order: int) -> np.ndarray:
        points = torch.tensor(x, dtype=torch.float64, device="cpu", requires_grad=order == 1)
        with torch.enable_grad():
            y = function(points)
            if order == 1 and not y.requires_grad:  # the same whatever x is
                y = torch.zeros_like(points)
            elif order == 1:
                [y] = torch.autograd.grad(y.sum(), points)
        return y.detach().numpy()

    return residual
