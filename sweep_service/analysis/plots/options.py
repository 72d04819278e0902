"""Drawing options: read from Python values or from the text of a URL, and checked before anything is drawn.

Each reader raises `InvalidInput` with what is allowed. Options that change the numbers of a view, such as the
unit of time, are read by the view itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.validation import read_integer, read_number

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

Scale = Literal["log", "linear"]
Levels = int | float | Sequence[float]
Limits = tuple[float, float]
SCALES = ("log", "linear")
SWITCHES = {"true": True, "false": False}
SUGGESTED_COLORMAPS = "viridis, cividis, magma, Greys or RdBu_r"
MAX_LEVELS = 30  # more lines hide the values


def read_scale(value: Any, field: str = "scale") -> Scale:
    """Read `log` or `linear`."""
    if value not in SCALES:
        raise unknown_name(field, value, SCALES)
    return value


def read_time_scale(value: Any) -> Scale:
    return read_scale(value, "time_scale")


def read_levels(value: Any) -> int | tuple[float, ...]:
    """Read the number of contour lines, an integer, or their values: `5`, `0.1`, `0.01,0.1`."""
    value = _parse_text(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return read_integer(value, "levels", 0, MAX_LEVELS)
    levels = [read_number(level, "levels") for level in np.ravel(value).tolist()]
    if len(levels) > MAX_LEVELS:
        raise InvalidInput("levels", value, f"must be at most {MAX_LEVELS} values")
    return tuple(sorted(set(levels)))


def read_limits(value: Any) -> Limits:
    """Read the values at the two ends of the colours: `0.001,1`."""
    pair = np.ravel(_parse_text(value)).tolist()
    if len(pair) != 2:
        raise InvalidInput("limits", value, "must be two numbers, the values at the ends of the colours")
    low, high = (read_number(end, "limits") for end in pair)
    if low >= high:
        raise InvalidInput("limits", value, "must be ascending")
    return low, high


def read_cmap(value: Any) -> Colormap:
    """Read the name of a colour map of matplotlib, or the colour map itself."""
    from matplotlib import colormaps
    from matplotlib.colors import Colormap

    if isinstance(value, Colormap):
        return value
    if not isinstance(value, str) or value not in colormaps:
        raise InvalidInput(
            "cmap", value, f"must be a colour map of matplotlib, such as {SUGGESTED_COLORMAPS}"
        )
    return colormaps[value]


def read_ratio_lines(value: Any) -> bool:
    """Read a switch: a bool, or `true` or `false`."""
    value = SWITCHES.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise unknown_name("ratio_lines", value, SWITCHES)
    return value


def _parse_text(value: Any) -> Any:
    """Numbers in a text, separated by commas; an integer alone stays one."""
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        return [_parse_number(item) for item in value.split(",")]


def _parse_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


READERS: dict[str, Callable[[Any], Any]] = {
    "scale": read_scale,
    "time_scale": read_time_scale,
    "levels": read_levels,
    "limits": read_limits,
    "cmap": read_cmap,
    "ratio_lines": read_ratio_lines,
}
