"""How a network is computed: which bases native kernels take."""

from kandle.bases import RBF, Basis, BSpline, Chebyshev, Fourier, Knots, Legendre

# Families without local support, in the order of the kernels' own enumeration.
GLOBAL_FAMILIES = (Chebyshev, Legendre, Fourier, RBF)

_MAX_FUNCTIONS = 1024


def is_local(basis: Basis) -> bool:
    """Whether a basis is of uniform B-splines, of which only k + 1 are not zero at a point."""
    return type(basis) is BSpline


def basis_obstacle(basis: Basis) -> str | None:
    """Why there are no native kernels for layers of a basis."""
    if is_local(basis):
        return None
    if isinstance(basis, Knots):
        return "the kernels for splines need equal intervals, which bases.Knots may not have"
    if type(basis) not in GLOBAL_FAMILIES:
        return f"there are no kernels for the basis {type(basis).__name__}"
    if basis.n_basis > _MAX_FUNCTIONS:
        return f"{basis.n_basis} basis functions, the kernels take up to {_MAX_FUNCTIONS}"
    return None
