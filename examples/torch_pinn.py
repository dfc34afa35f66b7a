"""Solve a differential equation in PyTorch with derivatives of a KAN by autograd.

The Poisson equation u_xx + u_yy = f on the square [-1, 1]², with u = 0 on its edges and f such that
the solution is sin(πx) sin(πy). The residual is written as always in PyTorch: `torch.autograd.grad`
with `create_graph=True`, twice.
"""

import math

import torch

from kandle.torch import KAN


def gradient(u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    return du


def exact(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(math.pi * x[:, :1]) * torch.sin(math.pi * x[:, 1:])


def residual(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """u_xx + u_yy - f at the rows of x."""
    x = x.requires_grad_()
    du = gradient(model(x), x)
    u_xx, u_yy = gradient(du[:, 0], x)[:, :1], gradient(du[:, 1], x)[:, 1:]
    return u_xx + u_yy + 2 * math.pi**2 * exact(x)


def on_edges(points: torch.Tensor) -> torch.Tensor:
    """The points, each moved to the edge of the square that its row's number selects."""
    moved = points.clone()
    for edge in range(4):
        moved[edge::4, edge % 2] = -1.0 if edge < 2 else 1.0
    return moved


def main(steps: int = 2000) -> float:
    torch.manual_seed(0)
    model = KAN([2, 16, 1], grid_size=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        inside, edges = 2 * torch.rand(400, 2) - 1, on_edges(2 * torch.rand(200, 2) - 1)
        optimizer.zero_grad()
        loss = torch.mean(residual(model, inside) ** 2) + 50 * torch.mean(model(edges) ** 2)
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 500 == 0:
            print(f"step {step + 1}: loss {loss.item():.2e}")
    x = 2 * torch.rand(2000, 2) - 1
    with torch.no_grad():
        error = torch.linalg.norm(model(x) - exact(x)) / torch.linalg.norm(exact(x))
    print(f"relative L2 error {error.item():.2e}")
    return error.item()


if __name__ == "__main__":
    main()
