"""The columns of exported rows, in their order."""

CONFIGURATION = (
    *(
        "study",
        "problem",
        "scheme",
        "alpha",
        "beta",
        "G",
        "degree",
        "width",
        "depth",
        "seed",
        "steps",
    ),
    *("optimizer", "learning_rate", "schedule", "dtype", "rba", "gain", "reference"),
)
RESULTS = ("status", "diverged_at", "loss", "l2", "l2_robust", "test_mse", "wall_s")
# What makes the configuration whole …
WHOLE = (
    "settings",
    "optimizer_arguments",
    "domain",
    "residual",
    "bias",
    "curve",
    "checkpoints",
    "draws",
    "replicate",
)
# … and where a row comes from.
FURTHER = (
    *WHOLE,
    *("machine", "backend", "version", "reason", "identity"),
)
COLUMNS = (*CONFIGURATION, *RESULTS, *FURTHER)

# Configurations leave these out at these values: stores that were written before they came do too.
LATER = {"draws": "independent"}

_NUMBERS = (
    "alpha",
    "beta",
    "learning_rate",
    "gain",
    "loss",
    "l2",
    "l2_robust",
    "test_mse",
    "wall_s",
)
_WHOLE = ("G", "degree", "width", "depth", "seed", "steps", "replicate")
# The type of each column in a frame; text is empty where a column does not apply, numbers are NaN.
TYPES: dict[str, str] = (
    dict.fromkeys(COLUMNS, "str")
    | dict.fromkeys(_NUMBERS, "float64")
    | dict.fromkeys(_WHOLE, "int64")
    | {"diverged_at": "Int64", "bias": "bool"}
)
