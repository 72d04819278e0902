"""Render a figure completely, without writing a file."""

from sweep_service.analysis.plots.style import use_style


def rendered(figure):
    with use_style():
        figure.draw_without_rendering()
    return figure
