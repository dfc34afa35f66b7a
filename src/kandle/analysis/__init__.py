"""From runs to answers: medians, best exponents, win rates, intervals. Frames in, frames out."""

from kandle._errors import needs_extra

with needs_extra("kandle.analysis", "study"):
    import pandas as _pandas  # noqa: F401

from kandle.analysis._curves import MeanCurve, mean_curve, thin
from kandle.analysis._frames import (
    ARCHITECTURE,
    REQUIRED,
    TRAINING,
    VARIANT,
    Choice,
    distinct,
    finished,
    full_length,
    pooled_axes,
    power_law,
    trained_alike,
)
from kandle.analysis._held_out import HeldOut, held_out
from kandle.analysis._medians import (
    CELL,
    best_exponents,
    fixed_exponents,
    medians,
    representatives,
)
from kandle.analysis._region import confidence, describe, favourable_region, trivial_settings
from kandle.analysis._uncertainty import (
    holm,
    median_interval,
    percentage,
    share_interval,
    sign_test,
    signed_rank_direction,
    signed_rank_test,
)
from kandle.analysis._variants import named_variants, variants_apart, versus
from kandle.analysis._wins import METRICS, paired, win_rates

__all__ = [
    "ARCHITECTURE",
    "CELL",
    "METRICS",
    "REQUIRED",
    "TRAINING",
    "VARIANT",
    "Choice",
    "HeldOut",
    "MeanCurve",
    "best_exponents",
    "confidence",
    "describe",
    "distinct",
    "favourable_region",
    "finished",
    "fixed_exponents",
    "full_length",
    "held_out",
    "holm",
    "mean_curve",
    "median_interval",
    "medians",
    "named_variants",
    "paired",
    "percentage",
    "pooled_axes",
    "power_law",
    "representatives",
    "share_interval",
    "sign_test",
    "signed_rank_direction",
    "signed_rank_test",
    "thin",
    "trained_alike",
    "trivial_settings",
    "variants_apart",
    "versus",
    "win_rates",
]
