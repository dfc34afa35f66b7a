"""Layers of PyTorch to initialize: one with efficient-kan's attributes, one of a user's own."""

import torch


class KANLinear(torch.nn.Module):
    """y = base_weight · act(x) + (spline_weight · spline_scaler) · B(x), as in efficient-kan."""

    def __init__(
        self,
        in_features,
        out_features,
        grid_size=5,
        spline_order=3,
        enable_standalone_scale_spline=True,
        base_activation=torch.nn.SiLU,
        grid_range=(-1, 1),
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.grid_size, self.spline_order = grid_size, spline_order
        step = (grid_range[1] - grid_range[0]) / grid_size
        knots = torch.arange(-spline_order, grid_size + spline_order + 1) * step + grid_range[0]
        self.register_buffer("grid", knots.expand(in_features, -1).contiguous())
        n_basis = grid_size + spline_order
        self.base_weight = torch.nn.Parameter(torch.randn(out_features, in_features))
        self.spline_weight = torch.nn.Parameter(torch.randn(out_features, in_features, n_basis))
        self.enable_standalone_scale_spline = enable_standalone_scale_spline
        if enable_standalone_scale_spline:
            self.spline_scaler = torch.nn.Parameter(torch.randn(out_features, in_features))
        self.base_activation = base_activation()

    def b_splines(self, x):
        grid, x = self.grid, x.unsqueeze(-1)
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.spline_order + 1):
            rising = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)])
            falling = (grid[:, k + 1 :] - x) / (grid[:, k + 1 :] - grid[:, 1:-k])
            bases = rising * bases[:, :, :-1] + falling * bases[:, :, 1:]
        return bases

    @property
    def scaled_spline_weight(self):
        if not self.enable_standalone_scale_spline:
            return self.spline_weight
        return self.spline_weight * self.spline_scaler.unsqueeze(-1)

    def forward(self, x):
        base = torch.nn.functional.linear(self.base_activation(x), self.base_weight)
        return base + torch.einsum("nim,oim->no", self.b_splines(x), self.scaled_spline_weight)


class Own(torch.nn.Module):
    """A spline layer that nothing knows: weights (in, basis, out), one grid, tanh beside."""

    def __init__(self, n_in, n_out, grid=4):
        super().__init__()
        self.knots = torch.linspace(-3, 3, grid + 7)
        self.w = torch.nn.Parameter(torch.randn(n_in, grid + 3, n_out))
        self.v = torch.nn.Parameter(torch.randn(n_in, n_out))
