"""The interval that a basis is meant for."""

import math
from typing import Any

from kandle._errors import must


def check_domain(domain: Any, intervals: int = 1) -> tuple[float, float]:
    """A domain as two floats, wide enough for `intervals` distinct equal parts, or an error."""
    requirement = "a pair of finite numbers (lo, hi) with lo < hi"
    try:
        lo, hi = (float(end) for end in domain)
        if isinstance(domain, str) or any(isinstance(end, str) for end in domain):
            raise TypeError
    except (TypeError, ValueError):
        raise must("'domain'", requirement, domain) from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi and math.isfinite(hi - lo)):
        raise must("'domain'", requirement, domain)
    if (hi - lo) / intervals <= 2.0 * math.ulp(max(abs(lo), abs(hi))):
        raise must("'domain'", f"wide enough for {intervals} distinct intervals", domain)
    return lo, hi
