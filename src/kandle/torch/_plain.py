"""The layer in PyTorch's own operations: for any device, for export, and without a compiler."""

import torch
from torch import Tensor

from kandle.bases import cardinal_coefficients

# Added to the variance of a basis function before dividing by its square root.
_EPSILON = 1e-5


def uniform_basis(
    x: Tensor, grid: int, degree: int, lo: float, hi: float, order: int = 0
) -> Tensor:
    """B_m⁽ᵛ⁾(x) on uniform knots, (...) -> (..., G + k); NaN where x is not finite.

    With x = lo + (cell + u) h, function cell + j is the polynomial p_j(u), the same in every cell.
    """
    step = (hi - lo) / grid
    s = (x - lo) * (1.0 / step)
    cell = torch.floor(s).detach()
    u = (s - cell)[..., None]
    # Which of the k + 1 polynomials a function is in this cell; none of them far from it.
    tap = torch.arange(grid + degree, dtype=x.dtype, device=x.device) - cell[..., None]
    value = (0.0 * x)[..., None].expand(tap.shape)
    for j, coefficients in enumerate(cardinal_coefficients(degree, order).tolist()):
        p = torch.zeros_like(u)
        for coefficient in reversed(coefficients):
            p = p * u + coefficient
        value = torch.where(tap == j, p * step**-order, value)
    return value


def knot_basis(x: Tensor, knots: Tensor, degree: int) -> Tensor:
    """B_m(x_i) on any knots by the Cox-de Boor recursion.

    x is (..., n_in), knots is (n_in, n_basis + k + 1), the result (..., n_in, n_basis). A quotient
    whose denominator is zero (a repeated knot) is zero.
    """
    x = x[..., None]
    B = ((knots[:, :-1] <= x) & (x < knots[:, 1:])).to(x.dtype)
    for p in range(1, degree + 1):
        left = (x - knots[:, : -p - 1]) * _reciprocal(knots[:, p:-1] - knots[:, : -p - 1])
        right = (knots[:, p + 1 :] - x) * _reciprocal(knots[:, p + 1 :] - knots[:, 1:-p])
        B = left * B[..., :-1] + right * B[..., 1:]
    return B + 0.0 * x


def _reciprocal(d: Tensor) -> Tensor:
    return torch.where(d == 0, torch.zeros_like(d), 1.0 / torch.where(d == 0, 1.0, d))


def layer(B: Tensor, R: Tensor | None, r, c, b, bias) -> Tensor:
    """y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j.

    B is (N, n_in, M), R is R(x), (N, n_in), or None with r; c may be None for ones.
    """
    weights = b if c is None else c[..., None] * b
    y = B.flatten(-2) @ weights.flatten(-2).transpose(-2, -1)
    if R is not None and r is not None:
        y = y + R @ r.transpose(-2, -1)
    return y if bias is None else y + bias


def statistics(B: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each function over the rows, (N, n_in, M) -> (n_in, M) twice."""
    return B.mean(0), B.var(0, unbiased=False)


def standardized(c, b: Tensor, bias, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Weights for the B_m as they are that equal (b, bias) on the standardized ones.

    c Σ_m b_m (B_m - mean_m) / s_m = c Σ_m (b_m / s_m) B_m - c Σ_m (b_m / s_m) mean_m
    """
    b = b * torch.rsqrt(variance + _EPSILON)
    shift = (b * mean).sum(-1)
    shift = (shift if c is None else c * shift).sum(-1)
    return b, -shift if bias is None else bias - shift


def silu_derivative(x: Tensor, order: int) -> Tensor:
    """R⁽ᵛ⁾(x) of R(x) = x s(x), s the logistic function: x s⁽ᵛ⁾ + ν s⁽ᵛ⁻¹⁾.

    With q = s (1 - s), s⁽ᵛ⁾ = q Q_ν(s), Q_1 = 1 and Q_{ν+1} = q Q_ν' + (1 - 2 s) Q_ν.
    """
    s = torch.sigmoid(x)
    if order == 0:
        return x * s
    q = s * (1 - s)
    below, coefficients = s, [1.0]
    for _ in range(order - 1):
        below = q * _polynomial(coefficients, s)
        raised = [0.0] * (len(coefficients) + 1)
        for j, c in enumerate(coefficients):
            raised[j] += (1 + j) * c
            raised[j + 1] -= (2 + j) * c
        coefficients = raised
    return x * (q * _polynomial(coefficients, s)) + order * below


def _polynomial(coefficients: list[float], s: Tensor) -> Tensor:
    p = torch.full_like(s, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        p = p * s + c
    return p


# ---- the operators of `_ops`, for tensors that the kernels do not take ---------------------------


def operator_layer(x, r, c, b, bias, grid, degree, lo, hi) -> Tensor:
    options = (grid, degree, lo, hi, 0, r is not None)
    y = trilinear(x, torch.ones_like(x), packed(r, c, b), None, *options)
    return y if bias is None else y + bias[..., None, :]


def operator_layer_backward(
    x, r, c, b, g, grid, degree, lo, hi, want_x, want_w
) -> tuple[Tensor, ...]:
    spline, residual = (grid, degree, lo, hi), r is not None
    lead = torch.broadcast_shapes(
        x.shape[:-2], c.shape[:-2], b.shape[:-3], g.shape[:-2], r.shape[:-2] if residual else ()
    )
    results = [x.new_empty(0) for _ in range(5)]
    if want_x:
        results[0] = trilinear(x, None, packed(r, c, b), g, *spline, 1, residual)
    if want_w:
        dw = trilinear(x, torch.ones_like(x), None, g, *spline, 0, residual)
        dr, dw = unpacked(dw, residual)
        gradients = [dr, (b * dw).sum(-1), c[..., None] * dw, g.sum(-2)]
        for position, (d, rank) in enumerate(zip(gradients, (2, 2, 3, 1), strict=True), start=1):
            if d is not None:
                results[position] = d.expand(*lead, *d.shape[d.dim() - rank :])
    # An operator's results are fresh and contiguous, whatever computed them.
    return tuple(result.clone(memory_format=torch.contiguous_format) for result in results)


def trilinear(x, a, w, g, grid, degree, lo, hi, order, residual) -> Tensor:
    """The derivative of Σ a·w·g·B⁽ᵛ⁾(x) in the one of a, w and g that is None."""
    B = uniform_basis(x, grid, degree, lo, hi, order)
    if residual:
        B = torch.cat([B, silu_derivative(x, order)[..., None]], dim=-1)
    if g is None:
        return torch.einsum("...nim,...ni,...imo->...no", B, a, w)
    if a is None:
        return torch.einsum("...nim,...imo,...no->...ni", B, w, g)
    return torch.einsum("...nim,...ni,...no->...imo", B, a, g)


def packed(r: Tensor | None, c: Tensor, b: Tensor) -> Tensor:
    """Weights as the trilinear form has them: c·b, and r for the residual, which comes last.

    (..., n_out, n_in) and (..., n_out, n_in, M) -> (..., n_in, M, n_out), or M + 1 for M with r.
    """
    w = c[..., None] * b
    if r is not None:
        lead = torch.broadcast_shapes(w.shape[:-3], r.shape[:-2])
        parts = (w.expand(*lead, *w.shape[-3:]), r.expand(*lead, *r.shape[-2:])[..., None])
        w = torch.cat(parts, dim=-1)
    return w.movedim(-3, -1)


def unpacked(w: Tensor, residual: bool) -> tuple[Tensor | None, Tensor]:
    """What `packed` put together, as r (or None) and c·b."""
    w = w.movedim(-1, -3)
    return (w[..., -1], w[..., :-1]) if residual else (None, w)
