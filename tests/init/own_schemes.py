"""Schemes of a user's own, as a module that names like `own_schemes:Small` point at."""

from dataclasses import dataclass

from kandle.init import Scheme


@dataclass(frozen=True)
class Small(Scheme):
    size: float = 0.01
    name = "my small one"

    def scales_from_moments(self, n_in, n_out, moments):
        return (None if moments.mu_R0 is None else self.size), self.size / moments.n_basis


@dataclass(frozen=True)
class Centered(Small):
    """Moves the biases so that the outputs on the training inputs have mean zero."""

    needs_data = True

    def adapt(self, model, x):
        import equinox as eqx

        return eqx.tree_at(
            lambda m: m.layers[-1].bias, model, model.layers[-1].bias - model(x).mean(0)
        )


not_a_scheme = 3
