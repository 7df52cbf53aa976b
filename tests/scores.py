"""Numbers that tests of the formulas draw and compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

unit = st.floats(0.0, 1.0)
coefficient = st.floats(0.0, 10.0)
#: Of the weight, as the configuration takes them: finite, none below 0, not all 0.
ANY_COEFFICIENTS = st.tuples(*[st.floats(0.0, allow_infinity=False)] * 4).filter(any)
moderate = settings(max_examples=80)
SLACK = 1e-9


def one(value: float) -> Any:
    return np.array([value], dtype=np.float64)


def ordered(a: float, b: float) -> tuple[float, float]:
    return (a, b) if a <= b else (b, a)
