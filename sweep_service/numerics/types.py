"""Array types used throughout the package."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
AnyArray = np.ndarray[Any, np.dtype[Any]]  # of any type: words, counts, statuses
