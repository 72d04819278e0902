"""The figures of the two papers, the full model and the error bars: sweeps, golden numbers, and drawing."""

from __future__ import annotations

from sweep_service.figures.error_bars import figure as error_bars
from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.full_model import (
    best_schedule,
    giant_steps,
    second_layer_mean_field,
    second_layer_width,
    weight_decay,
)
from sweep_service.figures.papers import (
    fig1_triangle,
    fig2_left,
    fig2_right,
    fig3_left,
    fig3_right,
    fig4_noise,
    fig5a,
    fig5b,
    fig5c,
    fig5d,
    rates,
    veiga_phase_plane,
)

__all__ = ["FIGURES", "Check", "Datasets", "Figure", "find_figure"]

FIGURES = {
    module.FIGURE.name: module.FIGURE
    for module in (
        fig1_triangle,
        fig2_left,
        fig2_right,
        fig3_left,
        fig3_right,
        fig4_noise,
        fig5a,
        fig5b,
        fig5c,
        fig5d,
        veiga_phase_plane,
        rates,
        second_layer_width,
        second_layer_mean_field,
        giant_steps,
        best_schedule,
        weight_decay,
        error_bars,
    )
}


def find_figure(preset: str) -> Figure | None:
    """The figure that a preset belongs to, or None."""
    return next(
        (figure for figure in FIGURES.values() if preset in (*figure.presets, *figure.full_presets)), None
    )
