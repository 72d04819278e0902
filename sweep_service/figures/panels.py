"""Panels side by side in the style of the plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def panels(*widths: float, height: float = 3.0, **options: Any) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with a panel of each of these relative widths, with letters if there are several."""
    from sweep_service.analysis.plots import style

    with style.style():
        figure = style.new_figure(style.SINGLE if len(widths) == 1 else style.DOUBLE, height)
        axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths, **options)[0]
        yield figure, list(axes)
        if len(widths) > 1:
            for letter, one in zip("abcdef", axes, strict=False):
                one.set_title(f"({letter}) {one.get_title(loc='left')}".rstrip(), loc="left")


def risk_curves(dataset: Any, **where: Any) -> Figure:
    """A figure of R(t) alone."""
    from sweep_service.analysis.plots.curves import plot_curves

    with panels(1, height=3.2) as (figure, (axes,)):
        plot_curves(dataset, "risk", axes, **where)
    return figure
