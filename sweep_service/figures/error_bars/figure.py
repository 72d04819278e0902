"""Theory with error bars: the scatter of SGD and the offset of its mean, and a saddle, where theory fails."""

from __future__ import annotations

from sweep_service.figures.error_bars.checks import check
from sweep_service.figures.error_bars.drawing import draw
from sweep_service.figures.figure import Figure

FIGURE = Figure(
    name="error-bars",
    title="Theory with error bars",
    presets=("error-bars", "error-bars-shift", "error-bars-theorem", "error-bars-saddle"),
    full_presets=(
        "error-bars-full",
        "error-bars-full-shift",
        "error-bars-full-theorem",
        "error-bars-full-saddle",
    ),
    assumptions=("sd R may be 0.05 from the prediction beside its errors: the next order in √δt, at d = 10",),
    check=check,
    draw=draw,
)
