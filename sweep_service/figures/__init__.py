"""The figures of the two papers: their sweeps, the numbers that must come out, and how they are drawn."""

from __future__ import annotations

from sweep_service.figures.figure import Check, Figure, Parts
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

__all__ = ["FIGURES", "Check", "Figure", "Parts", "figure_of"]

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
    )
}


def figure_of(preset: str) -> Figure | None:
    """The figure that a preset is for; None if it is for none."""
    return next((one for one in FIGURES.values() if preset in (*one.presets, *one.full)), None)
