"""A KAN layer as a PyTorch module, with efficient-kan's arguments and parameter names."""

import math
import numbers
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from kandle._errors import UserError, must
from kandle._route import Route, route_of
from kandle.bases import BSpline
from kandle.init import Inputs, Scheme
from kandle.init import get as get_scheme
from kandle.torch import _derivatives, _grids, _plain, _route
from kandle.torch._draw import draw, draw_like_efficient_kan
from kandle.torch._grids import WatchedGrid
from kandle.torch._residuals import get_residual, residual_name


class KANLinear(nn.Module):
    """A layer of learnable univariate functions on edges.

        y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j

    r is `base_weight`, (out_features, in_features); c is `spline_scaler`, of the same shape; b is
    `spline_weight`, (out_features, in_features, grid_size + spline_order). The B_m are B-splines
    on the knots in the buffer `grid`, (in_features, grid_size + 2 spline_order + 1).

    On a CPU the layer runs on Kandle's native kernels if its grid is uniform and R is SiLU or None
    (any other R is added by PyTorch). Elsewhere, and for `torch.onnx.export`, it runs on PyTorch's
    own operations. Layers in float16 or bfloat16 compute in float32 and round the result.

    Args:
        in_features, out_features: widths.
        grid_size: G, the number of intervals of the grid.
        spline_order: k, the degree of the splines, from 1 to 5.
        scale_noise, scale_base, scale_spline: the scales of efficient-kan's own initialization,
            which is used if any of them is given. They contradict `init`.
        enable_standalone_scale_spline: False leaves c out.
        base_activation: R as a module class, efficient-kan's name for `residual`.
        grid_eps: what `update_grid` makes of the grid: None or 1 is a uniform grid, which keeps
            the native kernels; 0 is one of quantiles.
        grid_range: efficient-kan's name for `domain`.
        init: a scheme of `kandle.init` or its name; None is "power-law". A scheme that adapts to
            data takes its sample from `KAN`: a layer alone has the weights before that.
        residual: R: a name, an elementwise function, a module or its class, or None.
        bias: whether there is a bias. efficient-kan has none.
        domain: the interval that the grid divides.
        inputs: the distribution of inputs that the scheme assumes; None is uniform on the domain.
        device, dtype: of the parameters.

    Example:
        >>> import torch
        >>> from kandle.torch import KANLinear
        >>> layer = KANLinear(2, 8, grid_size=5, spline_order=3, init="glorot")
        >>> layer(torch.zeros(10, 2)).shape
        torch.Size([10, 8])
    """

    grid: Tensor
    basis_mean: Tensor | None
    basis_variance: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        grid_size: int = 5,
        spline_order: int = 3,
        scale_noise: float | None = None,
        scale_base: float | None = None,
        scale_spline: float | None = None,
        enable_standalone_scale_spline: bool = True,
        base_activation: Any = None,
        grid_eps: float | None = None,
        grid_range: Sequence[float] | None = None,
        *,
        init: str | Scheme | None = None,
        residual: Any = "silu",
        bias: bool = True,
        domain: Sequence[float] = (-1.0, 1.0),
        inputs: Inputs | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        _check_arguments(
            *(in_features, out_features, grid_eps, dtype),
            *(base_activation, residual, grid_range, domain),
        )
        self.in_features, self.out_features = int(in_features), int(out_features)
        self.grid_eps = grid_eps
        ends = domain if grid_range is None else grid_range
        basis = _spline_basis(grid_size, spline_order, ends)
        self.base_activation = get_residual(
            residual if base_activation is None else base_activation
        )
        self._scales = _efficient_kan_scales(init, scale_noise, scale_base, scale_spline)
        self.init = get_scheme("power-law" if init is None else init)
        self.inputs = inputs
        self.normalized = self._scales is None and self.init.normalized

        options: dict[str, Any] = {"device": device, "dtype": dtype}
        edges = (self.out_features, self.in_features)
        self.base_weight = None
        if self.base_activation is not None:
            self.base_weight = nn.Parameter(torch.empty(edges, **options))
        self.spline_weight = nn.Parameter(torch.empty((*edges, basis.n_basis), **options))
        self.enable_standalone_scale_spline = bool(enable_standalone_scale_spline)
        self.spline_scaler = None
        if self.enable_standalone_scale_spline:
            self.spline_scaler = nn.Parameter(torch.empty(edges, **options))
        self.bias = nn.Parameter(torch.empty(self.out_features, **options)) if bias else None
        knots = _grids.uniform_knots(basis, self.in_features)
        self.register_buffer("grid", knots.to(self.spline_weight))
        self.register_buffer("basis_mean", None)
        self.register_buffer("basis_variance", None)
        self._watched_grid = WatchedGrid(basis)
        self._watched_grid.see(self.grid)
        self.reset_parameters()

    # ---- what the layer is -----------------------------------------------------------------------

    @property
    def grid_size(self) -> int:
        """G, the number of intervals."""
        return self._watched_grid.basis.grid

    @property
    def spline_order(self) -> int:
        """k, the degree of the splines."""
        return self._watched_grid.basis.degree

    @property
    def domain(self) -> tuple[float, float] | None:
        """The interval that the grid divides; None if the knots are not uniform."""
        grid = self._watched_grid
        grid.follow(self.grid)
        return grid.basis.domain if grid.is_uniform else None

    @property
    def scaled_spline_weight(self) -> Tensor:
        """c_ji b_jim, (out_features, in_features, grid_size + spline_order)."""
        c = self.spline_scaler
        return self.spline_weight if c is None else self.spline_weight * c[..., None]

    def extra_repr(self) -> str:
        parts = [f"{self.in_features}, {self.out_features}"]
        parts.append(f"grid_size={self.grid_size}, spline_order={self.spline_order}")
        domain = self.domain
        ends = domain and "domain=({:g}, {:g})".format(*domain)
        parts.append(ends or "grid=non-uniform")
        if not isinstance(self.base_activation, nn.Module):
            parts.append(f"residual={residual_name(self.base_activation) or self.base_activation}")
        parts.append(f"bias={self.bias is not None}")
        parts.append(f"init={'efficient-kan' if self._scales is not None else self.init!r}")
        return ", ".join(parts)

    # ---- evaluation ------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        if x.shape[-1] != self.in_features:
            requirement = f"a tensor whose last axis has {self.in_features} components"
            raise must("'x' of KANLinear", requirement, tuple(x.shape))
        weight = self.spline_weight
        dtype = weight.dtype
        if x.dtype != dtype:
            if torch.promote_types(x.dtype, dtype) != dtype:
                raise must("'x' of KANLinear", f"of the weights' type {dtype}", x.dtype)
            x = x.to(dtype)
        rows = x if x.dim() == 2 else x.reshape(-1, self.in_features)
        if dtype in _route.LOW_PRECISION:
            weights: Any = (None if w is None else w.float() for w in self._weights)
            y = self._evaluate(rows.float(), *weights).to(dtype)
        else:
            y = self._evaluate(rows, *self._weights)
        return y if x.dim() == 2 else y.reshape(*x.shape[:-1], self.out_features)

    @property
    def _weights(self) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor | None]:
        return self.base_weight, self.spline_scaler, self.spline_weight, self.bias

    def _evaluate(self, x: Tensor, r, c, b: Tensor, bias) -> Tensor:
        grid, R = self._watched_grid, self.base_activation
        if not torch.compiler.is_compiling():  # the compiler has its own guards on buffers
            grid.follow(self.grid)
        if self.normalized:
            b, bias = self._standardized(x, c, b, bias)
        if _route.layer_obstacle(grid, x) is not None:
            values = None if R is None else R(x)
            return _plain.layer(self._functions(x), values, r, c, b, bias)
        if c is None:
            c = torch.ones(self.out_features, self.in_features, dtype=x.dtype, device=x.device)
        spline = (grid.basis.grid, grid.basis.degree, *grid.basis.domain)
        if R is None or r is None:
            return _derivatives.layer(x, None, c, b, bias, *spline)
        if _route.residual_obstacle(R) is None:
            return _derivatives.layer(x, r, c, b, bias, *spline)
        y = _derivatives.layer(x, None, c, b, bias, *spline)
        return y + R(x) @ r.transpose(-2, -1)

    def _functions(self, x: Tensor) -> Tensor:
        """B_m(x_i), (N, n_in) -> (N, n_in, M)."""
        basis = self._watched_grid.basis
        if self._watched_grid.is_uniform:
            return _plain.uniform_basis(x, basis.grid, basis.degree, *basis.domain)
        return _plain.knot_basis(x, self.grid.to(x.dtype), basis.degree)

    def _standardized(self, x: Tensor, c, b: Tensor, bias) -> tuple[Tensor, Tensor]:
        """Weights for the B_m as they are that equal (b, bias) on the standardized ones."""
        if self.basis_mean is None or self.basis_variance is None:
            mean, variance = _plain.statistics(self._functions(x))
        else:
            mean, variance = self.basis_mean.to(x.dtype), self.basis_variance.to(x.dtype)
        return _plain.standardized(c, b, bias, mean, variance)

    @torch.no_grad()
    def freeze(self, x: Tensor) -> "KANLinear":
        """Use the statistics of this batch from now on, if the layer standardizes its basis.

        Only layers initialized by "lecun-normalized" do: their B_m are standardized over the batch
        at hand, in training and evaluation alike, until the statistics of one batch are frozen.
        """
        if self.normalized:
            rows = x.reshape(-1, self.in_features).to(self.spline_weight.dtype)
            self.basis_mean, self.basis_variance = _plain.statistics(self._functions(rows))
        return self

    # ---- weights ---------------------------------------------------------------------------------

    @torch.no_grad()
    def reset_parameters(
        self,
        init: str | Scheme | None = None,
        *,
        inputs: Inputs | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw all weights again; the bias becomes zero and c one.

        Args:
            init: a scheme of `kandle.init` or its name; None is the one the layer was made with.
            inputs: the distribution of inputs that the scheme assumes; None is the layer's own.
            generator: of PyTorch on the CPU; None is the global one.
        """
        if init is not None:
            self.init, self._scales = get_scheme(init), None
            self.normalized = self.init.normalized
            self.basis_mean = self.basis_variance = None
        if inputs is not None:
            self.inputs = inputs
        if self.spline_weight.is_meta:
            return
        if self.bias is not None:
            self.bias.zero_()
        if self._scales is not None:
            draw_like_efficient_kan(self, *self._scales, generator)
            return
        grid = self._watched_grid
        knots = grid.knots(self.grid).numpy()
        if grid.is_uniform:
            knots = knots[:1]
        r, b = draw(
            self.init,
            self.in_features,
            self.out_features,
            knots,
            self.spline_order,
            self.base_activation,
            self.inputs,
            generator,
        )
        if self.base_weight is not None:
            self.base_weight.copy_(torch.zeros_like(b[..., 0]) if r is None else r)
        if self.spline_scaler is not None:
            self.spline_scaler.fill_(1.0)
        self.spline_weight.copy_(b)

    def regularization_loss(
        self,
        regularize_activation: float = 1.0,
        regularize_entropy: float = 1.0,
        x: Tensor | None = None,
    ) -> Tensor:
        """A penalty on the size of the edge functions, and on how many of them matter.

            L = λ₁ Σ_ji A_ji - λ₂ Σ_ji p_ji log p_ji,    p_ji = A_ji / Σ A

        With x, (..., in_features), A_ji is the mean of |φ_ji(x_i)| over its rows, where
        φ_ji = r_ji R + c_ji Σ_m b_jim B_m: the L1 norm of the edge's activation. Without x it is
        the mean of |c_ji b_jim| over m, which bounds the spline's mean absolute value.

        Args:
            regularize_activation: λ₁.
            regularize_entropy: λ₂.
            x: inputs of the layer, or None.
        """
        if x is None:
            A = self.scaled_spline_weight.abs().mean(-1)
        else:
            A = self._activations(x.reshape(-1, self.in_features)).abs().mean(0)
        total = A.sum()
        p = A / torch.where(total > 0, total, torch.ones_like(total))
        # p log p is zero where an edge does nothing, and its derivative stays finite there.
        entropy = -torch.xlogy(p, p.clamp_min(torch.finfo(p.dtype).tiny)).sum()
        return regularize_activation * total + regularize_entropy * entropy

    def _activations(self, x: Tensor) -> Tensor:
        """φ_ji(x_i), (N, n_in) -> (N, n_out, n_in)."""
        r, c, b, bias = self._weights
        if self.normalized:
            b, _ = self._standardized(x, c, b, bias)
        weights = b if c is None else b * c[..., None]
        phi = torch.einsum("nim,oim->noi", self._functions(x), weights)
        if r is None or self.base_activation is None:
            return phi
        return phi + r * self.base_activation(x)[:, None, :]

    # ---- the grid --------------------------------------------------------------------------------

    @torch.no_grad()
    def update_grid(self, x: Tensor, margin: float = 0.01) -> None:
        """Move the grid to where the data are, keeping the edge functions by least squares.

        With `grid_eps` None or 1 the new grid is uniform on [min x - margin, max x + margin], one
        interval for all inputs. With a smaller `grid_eps` each input has knots of its own, as in
        efficient-kan; the layer then runs on PyTorch's operations.

        Args:
            x: inputs of the layer, (..., in_features).
            margin: how far the grid reaches beyond the data.
        """
        rows = x.detach().reshape(-1, self.in_features)
        if self.grid_eps is None or self.grid_eps == 1:
            domain = _grids.spanning_domain(rows, margin)
            self._move_to(_spline_basis(self.grid_size, self.spline_order, domain))
            return
        old = self._watched_grid.knots(self.grid)
        new = _grids.adaptive_knots(rows, self.grid_size, self.spline_order, self.grid_eps, margin)
        self.spline_weight.copy_(_grids.refit(self.spline_weight, old, new, self.spline_order))
        self.grid.copy_(new)
        self._watched_grid.follow(self.grid)

    @torch.no_grad()
    def refine(self, grid_size: int) -> None:
        """Divide the same domain into another number of intervals, keeping the edge functions.

        On the domain this is exact if `grid_size` is a multiple of the present one; otherwise the
        nearest functions in the mean square are taken. `spline_weight` becomes a new parameter:
        build optimizers afterwards.
        """
        if not self._watched_grid.is_uniform:
            raise UserError("refine needs a uniform grid: set 'grid_eps' to None and update it.")
        domain = self._watched_grid.basis.domain
        self._move_to(_spline_basis(grid_size, self.spline_order, domain))

    def _move_to(self, basis: BSpline) -> None:
        old = self._watched_grid.knots(self.grid)
        new = _grids.uniform_knots(basis, self.in_features)
        b = _grids.refit(self.spline_weight, old, new, basis.degree)
        if b.shape == self.spline_weight.shape:
            self.spline_weight.copy_(b)
        else:
            required = self.spline_weight.requires_grad
            self.spline_weight = nn.Parameter(b, requires_grad=required)
        # Statistics belong to the functions of the old grid.
        self.basis_mean = self.basis_variance = None
        self.grid = new.to(self.grid)
        self._watched_grid = WatchedGrid(basis)
        self._watched_grid.see(self.grid)

    # ---- what PyTorch does with modules ----------------------------------------------------------

    def _apply(self, fn, recurse=True):
        self._watched_grid.follow(self.grid)
        super()._apply(fn, recurse)
        self._watched_grid.see(self.grid)  # the same knots, of another type or elsewhere
        return self

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for name in ("basis_mean", "basis_variance"):
            frozen = state_dict.get(prefix + name)
            if frozen is not None and self.normalized:
                setattr(self, name, torch.empty_like(frozen, device=self.grid.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._watched_grid.forget()
        self._watched_grid.follow(self.grid)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles hold the parts of the watched grid, so that its class may change."""
        state = self.__dict__.copy()
        grid = state.pop("_watched_grid")
        return state | {"_basis": grid.basis, "_is_uniform": grid.is_uniform}

    def __setstate__(self, state):
        grid = WatchedGrid(state["_basis"])
        grid.is_uniform = state["_is_uniform"]
        parts = ("_basis", "_is_uniform", "_seen_grid")  # the last one of earlier versions
        super().__setstate__({name: state[name] for name in state if name not in parts})
        self._watched_grid = grid


@route_of.register
def _(model: KANLinear, x: Any, y: Any = None) -> Route:
    return _route.route(model, x, y)


# ---- arguments -----------------------------------------------------------------------------------


def _check_arguments(
    in_features: Any,
    out_features: Any,
    grid_eps: Any,
    dtype: torch.dtype | None,
    base_activation: Any,
    residual: Any,
    grid_range: Any,
    domain: Any,
) -> None:
    """What no other part of the layer checks."""
    for name, n in (("in_features", in_features), ("out_features", out_features)):
        if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
            raise must(f"'{name}' of KANLinear", "an integer of at least 1", n)
    if grid_eps is not None and not 0 <= grid_eps <= 1:
        raise must("'grid_eps' of KANLinear", "a number from 0 to 1, or None", grid_eps)
    if dtype is not None and not dtype.is_floating_point:
        raise must("'dtype' of KANLinear", "a floating-point type", dtype)
    if base_activation is not None and residual != "silu":
        raise UserError("Give KANLinear either 'base_activation' or 'residual', not both.")
    if grid_range is not None and tuple(domain) != (-1.0, 1.0):
        raise UserError("Give KANLinear either 'grid_range' or 'domain', not both.")


def _spline_basis(grid_size: Any, spline_order: Any, domain: Any) -> BSpline:
    """The basis, with errors in the words of this module's arguments."""
    for name, value in (("grid_size", grid_size), ("spline_order", spline_order)):
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise must(f"'{name}' of KANLinear", "an integer of at least 1", value)
    if spline_order > 5:
        raise must("'spline_order' of KANLinear", "an integer from 1 to 5", spline_order)
    return BSpline(int(grid_size), int(spline_order), tuple(domain))


def _efficient_kan_scales(
    init: Any, noise: Any, base: Any, spline: Any
) -> tuple[float, float, float] | None:
    """(scale_noise, scale_base, scale_spline) if one is given, with efficient-kan's defaults."""
    given = {"scale_noise": noise, "scale_base": base, "scale_spline": spline}
    named = [name for name, value in given.items() if value is not None]
    if not named:
        return None
    if init is not None:
        raise UserError(
            f"Arguments of efficient-kan's initialization ({', '.join(map(repr, named))}) "
            f"contradict init={init!r} of KANLinear: leave out one or the other."
        )
    defaults = {"scale_noise": 0.1, "scale_base": 1.0, "scale_spline": 1.0}
    scales = []
    for name, value in given.items():
        value = defaults[name] if value is None else value
        if not isinstance(value, numbers.Real) or not math.isfinite(cast(float, value)):
            raise must(f"'{name}' of KANLinear", "a finite number", value)
        scales.append(float(value))
    return scales[0], scales[1], scales[2]
