"""Everything that drawing does, without a file."""

from sweep_service.analysis.plots.style import style


def rendered(figure):
    with style():
        figure.draw_without_rendering()
    return figure
