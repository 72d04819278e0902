"""Figures with several panels side by side, in the style of the plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def panels(
    *widths: float, height: float = 3.0, rows: int = 1, **options: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with rows of panels of these relative widths, labelled by letters if there are several."""
    from sweep_service.analysis.plots import style

    with style.use_style():
        figure = style.new_figure(
            style.SINGLE_COLUMN_INCHES if len(widths) == 1 else style.DOUBLE_COLUMN_INCHES, height
        )
        axes = figure.subplots(rows, len(widths), squeeze=False, width_ratios=widths, **options).ravel()
        yield figure, list(axes)
        if len(axes) > 1:
            for letter, panel in zip("abcdef", axes, strict=False):
                panel.set_title(f"({letter}) {panel.get_title(loc='left')}".rstrip(), loc="left")


def draw_risk_curves(dataset: Any, **where: Any) -> Figure:
    """Draw a figure of R(t) alone."""
    from sweep_service.analysis.view_plots import plot_curves

    with panels(1, height=3.2) as (figure, (axes,)):
        plot_curves(dataset, "risk", ax=axes, **where)
    return figure
