"""The studies of the paper, in the form of a study file.

At scale `paper` each is exactly the paper's design. The other scales choose among its runs;
`smoke` alone also shortens training, and its rows carry the steps they had.
"""

from typing import Any

FUNCTIONS = ["f1", "f2", "f3", "f4", "f5"]
PDES = ["allen-cahn", "burgers", "helmholtz"]
FEYNMAN = [
    *("I.6.2", "I.6.2b", "I.12.11", "I.13.12", "I.16.6", "I.18.4", "I.26.2", "I.27.6", "I.29.16"),
    *("I.30.3", "I.40.1", "I.50.26", "II.2.42", "II.6.15a", "II.11.7", "II.11.27", "II.35.18"),
    *("II.36.38", "III.10.19", "III.17.37"),
]
_EXPONENTS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
_SEARCHED = [
    {"name": "baseline", "seeds": 5},
    {"name": "lecun-numerical", "seeds": 5},
    {"name": "lecun-normalized", "seeds": 5},
    {"name": "glorot", "seeds": 5},
    {"name": "power-law", "seeds": 3, "alpha": _EXPONENTS, "beta": _EXPONENTS},
]
_TRACED = ["baseline", "lecun-numerical", "glorot", "power-law"]
_SMALL_AND_LARGE = ["small", "large"]
_TINY = [{"G": 5, "width": 2, "depth": 1}]


def _traced(seeds: int) -> list[dict[str, Any]]:
    return [{"name": name, "seeds": seeds} for name in _TRACED]


def _constant_and_decaying(factor: float, every: int) -> list[dict[str, Any]]:
    """Adam at 1e-3, constant and decaying continuously by `factor` per `every` steps."""
    decaying = {"name": "exponential", "factor": factor, "every": every}
    return [{"name": "adam", "learning_rate": 1e-3, "schedule": ["constant", decaying]}]


STUDIES: dict[str, dict[str, Any]] = {
    "functions": {
        "description": "Grid search over architectures and exponents on five functions",
        "problems": FUNCTIONS,
        "grids": [5, 10, 20, 40],
        "widths": [2, 4, 8, 16, 32, 64],
        "depths": [1, 2, 3, 4],
        "steps": 2000,
        "schemes": _SEARCHED,
        "scales": {
            "smoke": {
                "problems": ["f1", "f3"],
                "widths": [2],
                "depths": [1],
                "alphas": [0.25, 1.0],
                "betas": [1.0, 1.75],
                "seeds": 1,
                "steps": 10,
            },
            "quick": {
                "problems": ["f1", "f3", "f5"],
                "grids": [5, 20],
                "widths": [4, 8],
                "depths": [2],
                "schemes": _TRACED,  # layers that standardize their basis take eight times as long
                "alphas": [0.25, 1.0],
                "betas": [1.0, 1.75],
                "seeds": {"baseline": 2, "lecun-numerical": 2, "glorot": 2, "power-law": 1},
            },
            "overnight": {
                "widths": [4, 16],
                "depths": [1, 2],
                "seeds": {
                    "baseline": 3,
                    "lecun-numerical": 3,
                    "lecun-normalized": 3,
                    "glorot": 3,
                    "power-law": 1,
                },
            },
        },
    },
    "pdes": {
        "description": "Grid search over architectures and exponents on three PDEs",
        "problems": PDES,
        "grids": [5, 10, 20],
        "widths": [2, 4, 8, 16, 32, 64],
        "depths": [1, 2, 3, 4],
        "steps": 5000,
        "schemes": _SEARCHED,
        "scales": {
            "smoke": {
                "problems": ["allen-cahn"],
                "schemes": _TRACED,
                "widths": [2],
                "depths": [1],
                "alphas": [0.25, 1.0],
                "betas": [1.0, 1.75],
                "seeds": 1,
                "steps": 5,
            },
            "quick": {
                "problems": ["allen-cahn"],
                "grids": [5],
                "widths": [4],
                "depths": [2],
                "schemes": ["baseline", "glorot", "power-law"],
                "alphas": [0.25],
                "betas": [1.0],
                "seeds": 1,
            },
            "overnight": {
                "widths": [2, 8],
                "depths": [1, 2],
                "seeds": {
                    "baseline": 3,
                    "lecun-numerical": 3,
                    "lecun-normalized": 3,
                    "glorot": 3,
                    "power-law": 1,
                },
            },
        },
    },
    "feynman": {
        "description": "Twenty Feynman equations, small and large architecture",
        "problems": FEYNMAN,
        "architectures": _SMALL_AND_LARGE,
        "steps": 2000,
        "schemes": [{"name": name, "seeds": 5} for name in ("baseline", "glorot", "power-law")],
        "scales": {
            "smoke": {"problems": ["I.6.2", "I.12.11", "I.18.4"], "seeds": 1, "steps": 5},
            "quick": {
                "problems": ["I.12.11", "I.26.2", "I.40.1", "II.11.27"],
                "architectures": ["small"],
                "seeds": 2,
            },
            "overnight": {"seeds": 3},
        },
    },
    "curves-functions": {
        "description": "Loss curves on the functions, constant and decaying learning rate",
        "problems": FUNCTIONS,
        "architectures": _SMALL_AND_LARGE,
        "steps": 2000,
        "schemes": _traced(5),
        "optimizers": _constant_and_decaying(0.9, 50),
        "curve": "all",
        "scales": {
            "smoke": {"seeds": 1, "steps": 5},
            "quick": {"problems": ["f3"], "architectures": ["small"], "seeds": 2},
            "overnight": {"seeds": 3},
        },
    },
    "curves-pdes": {
        "description": "Loss curves on the PDEs, constant and decaying learning rate",
        "problems": PDES,
        "architectures": _SMALL_AND_LARGE,
        "steps": 5000,
        "schemes": _traced(5),
        "optimizers": _constant_and_decaying(0.85, 100),
        "curve": "all",
        "scales": {
            "smoke": {"seeds": 1, "steps": 3},
            "quick": {
                "problems": ["allen-cahn"],
                "architectures": ["small"],
                "schemes": ["baseline", "power-law"],
                "seeds": 1,
            },
            "overnight": {"seeds": 2},
        },
    },
    "ntk-functions": {
        "description": "Spectra of the tangent kernel while the functions are learned",
        "problems": FUNCTIONS,
        "architectures": ["large"],
        "steps": 2000,
        "schemes": _traced(1),
        "dtypes": ["float64"],
        "checkpoints": 5,
        "scales": {
            "smoke": {"steps": 4},
            "quick": {"problems": ["f3"], "architectures": ["small"]},
            "overnight": {},
        },
    },
    "ntk-pdes": {
        "description": "Spectra of the tangent kernel while the PDEs are solved",
        "problems": PDES,
        "architectures": ["large"],
        "steps": 5000,
        "schemes": _traced(1),
        "dtypes": ["float64"],
        "checkpoints": 6,
        "scales": {
            "smoke": {"steps": 5},
            "quick": {"problems": ["allen-cahn"], "architectures": _TINY},
            "overnight": {},
        },
    },
    "ntk-exponents": {
        "description": "Spectra of the tangent kernel for every pair of exponents",
        "problems": ["f3", "burgers"],
        "architectures": ["large"],
        "schemes": [{"name": "power-law", "seeds": 1, "alpha": _EXPONENTS, "beta": _EXPONENTS}],
        "dtypes": ["float64"],
        "checkpoints": 3,
        "scales": {
            "smoke": {"alphas": [0.25, 1.0], "betas": [1.0, 1.75], "steps": 2},
            "quick": {
                "problems": ["f3"],
                "architectures": ["small"],
                "alphas": [0.25, 1.0],
                "betas": [0.25, 1.0, 1.75],
            },
            "overnight": {"alphas": [0.0, 0.25, 1.0, 1.75], "betas": [0.0, 0.25, 1.0, 1.75]},
        },
    },
}
