"""How figures look: sizes, colours and line styles, symbols, which axes are logarithmic.

matplotlib keeps its settings in one global dictionary and reads them while it draws. `style` sets ours
inside one lock, on top of matplotlib's own defaults, and puts back what was there; whoever makes artists
or renders them does so inside it. Threads therefore draw one after the other, and each as if alone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.labels import label_of
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE, DOUBLE = 3.4, 7.0  # inches: one column of a journal, or both
DPI = 200
RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same everywhere
    "font.size": 8.0,
    "axes.labelsize": 8.5,
    "axes.titlesize": 8.0,
    "axes.titlelocation": "left",
    "legend.fontsize": 7.0,
    "legend.title_fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.labelspacing": 0.35,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # text stays text
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sweep-service",  # else ids are random, and no figure has the same bytes twice
    "savefig.dpi": DPI,
}
_ONE = threading.RLock()

# Okabe and Ito's palette, without the yellow that white paper swallows.
BLUE, GREEN, VERMILLION, PURPLE, SKY, ORANGE = (
    "#0072B2",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
)
BLACK, GREY = "#222222", "#999999"
OKABE_ITO = (BLUE, GREEN, VERMILLION, PURPLE, SKY, ORANGE, BLACK)
LINES: tuple[Any, ...] = ("-", (0, (1, 1.2)), "--", "-.", (0, (7, 1.5)), (0, (4, 1, 1, 1, 1, 1)))
MARKERS = "os^Dv<>ph*"
# The numbers of colours and of lines have no common factor: 42 regimes have 42 styles.
REGIME_STYLES = dict(zip(REGIMES, zip(cycle(OKABE_ITO), cycle(LINES)), strict=False))
CATEGORIES = {
    "perfect": GREEN,
    "plateau": BLUE,
    "bad": ORANGE,
    "diverged": VERMILLION,
    "unspecialised": PURPLE,
    "undecided": GREY,
}
# What quantities are called at an axis, and in a formula; parameters and coordinates have their own labels.
QUANTITIES = {
    "risk": ("excess risk", "$R$"),
    "specialisation": ("specialisation", ""),
    "cosine": ("mean largest |cosine|", ""),
    "largest_norm": ("largest norm", r"$\max_i Q_{ii}$"),
    "mean_orthogonal_norm": ("orthogonal norm", r"$\mathrm{tr}\,Q_\perp/p$"),
    "discrepancy": ("discrepancy", "$D$"),
    "overlap_discrepancy": ("", r"$\|\Omega-\Omega_\mathrm{ODE}\|_\infty$"),
    "relative_discrepancy": ("discrepancy", "$D/R(0)$"),
    "sgd_over_ode": ("final risk, SGD / theory", ""),
    "final_risk": ("final excess risk", "$R$"),
    "over_floor": ("final risk / noise floor", ""),
    "bound": ("largest norm", r"$\max_{i,t} Q_{ii}$"),
    "specialisation_time": ("time of specialisation", ""),
}
LOGARITHMIC = (
    "risk", "discrepancy", "largest_norm", "mean_orthogonal_norm", "orthogonal_operator_norm",
    "off_diagonal_rms",
)  # fmt: skip
TIMES = r"\times"
CROWDED = 2.0  # decades that have ticks enough at their powers of ten
ENOUGH = 5.0  # a shorter range than this factor is easier to read on a linear axis


@contextmanager
def style() -> Iterator[None]:
    """matplotlib with our settings and nobody else's, for one thread at a time."""
    import matplotlib

    with _ONE, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)  # type: ignore[arg-type]
        yield


@contextmanager
def canvas(axes: Axes | None, width: float = SINGLE, height: float = 2.6) -> Iterator[tuple[Figure, Axes]]:
    """What to draw on, in our style: the axes that were given, or a new figure."""
    with style():
        if axes is None:
            figure = new_figure(width, height)
            yield figure, figure.add_subplot()
        else:
            yield figure_of(axes), axes


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def figure_of(axes: Axes) -> Figure:
    """Also where the axes are in a part of a figure."""
    return axes.figure.figure


def width_of(axes: Axes) -> float:
    """Inches, before the layout makes room for labels."""
    return axes.get_position().width * figure_of(axes).get_figwidth()


def legend_below(
    axes: Axes, handles: list[Any], columns: int = 2, points: float = 32.0, **options: Any
) -> None:
    """Under the label of the x axis, so many points below the axes, where it covers nothing."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0.0, -points / 72.0, axes.figure.dpi_scale_trans)
    look: dict[str, Any] = {"loc": "upper left", "borderaxespad": 0.0, "columnspacing": 1.2, "ncols": columns}
    look |= {"bbox_to_anchor": (0.0, 0.0), "bbox_transform": axes.transAxes + shift}
    axes.legend(handles=handles, **(look | options))


def outlined(texts: Iterable[Any]) -> None:
    """Readable on any ground."""
    from matplotlib.patheffects import withStroke

    for one in texts:
        one.set(color="k", path_effects=[withStroke(linewidth=1.6, foreground="w")])


def swatch(name: str, colour: Any) -> Any:
    """A colour for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, lw=4, solid_capstyle="butt", label=name)


def blanks(count: int) -> list[Any]:
    """Entries of a legend that show nothing: matplotlib spreads entries over columns as evenly as it can."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], ls="none", label=" ") for _ in range(count)]


# ---- words


def title_and_latex(name: str) -> tuple[str, str]:
    """What stands at an axis, and in a formula; nothing where a name has no words of its own."""
    label = label_of(name)
    return QUANTITIES.get(name, ("", "")) if label is None else (label.title, label.latex)


def is_known(name: str) -> bool:
    """Has it words of its own?"""
    return any(title_and_latex(name))


def symbol(name: str) -> str:
    """As in a formula, or the name itself in words."""
    return title_and_latex(name)[1] or words(name)


def words(name: str) -> str:
    return name.removeprefix("init.").replace("_", " ")


def label(name: str, units: str = "1") -> str:
    """What stands beside an axis, such as "learning rate $\\gamma$"."""
    source, _, rest = name.partition("_")
    if source in ("sgd", "ode") and rest and not is_known(name):
        return f"{label(rest, units)} ({'SGD' if source == 'sgd' else 'theory'})"
    text = " ".join(title_and_latex(name)).strip() or words(name)
    return text if units in ("1", "") else f"{text} ({units})"


def number(value: Any, digits: int = 3) -> str:
    """So many digits, with a power of ten where they are far from one; a text is itself."""
    if isinstance(value, str | bool | np.str_):
        return words(str(value))
    value = float(f"{float(value):.{max(digits, 5)}g}")  # 999.9999 is 1000
    if value == 0.0 or not math.isfinite(value) or 1e-3 < abs(value) < 1e5:
        shown = f"{value:.0f}" if 10**digits <= abs(value) + 0.5 < math.inf else f"{value:.{digits}g}"
        return shown.replace("-", "\N{MINUS SIGN}")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = f"10^{{{int(exponent)}}}"
    return {"1": f"${power}$", "-1": f"$-{power}$"}.get(mantissa, rf"${mantissa}\times{power}$")


def with_error(value: float, error: float) -> str:
    """0.503 ± 0.012: two digits of the error, and as many places of the value."""
    if not 0.0 < error < math.inf:
        return number(value)
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{places}f} ± {error:.{places}f}".replace("-", "\N{MINUS SIGN}")


def text(name: str, value: Any) -> str:
    """Such as "$\\gamma$ = 0.1"; of several values the smallest and the largest."""
    if isinstance(value, list | tuple | np.ndarray):
        ends = dict.fromkeys(number(one) for one in (min(value), max(value)))
        return f"{symbol(name)} = {' … '.join(ends)}"
    return f"{symbol(name)} = {number(value)}"


def title(at: dict[str, Any]) -> str:
    """What is the same everywhere, in one line."""
    return ", ".join(text(name, value) for name, value in at.items())


# ---- scales and colours


def is_log(name: str, values: Any) -> bool:
    """Is an axis of these values better logarithmic? None of them may be zero or below."""
    numbers, label = finite(values), label_of(name)
    quantity = name.removeprefix("sgd_").removeprefix("ode_")
    by_habit = quantity in LOGARITHMIC if label is None else label.logarithmic
    if not by_habit or numbers.size == 0:
        return False
    return bool(numbers.min() > 0 and numbers.max() >= ENOUGH * numbers.min())


def finite(values: Any) -> Array:
    numbers = np.asarray(values, dtype=float).ravel()
    return numbers[np.isfinite(numbers)]


def set_scales(axes: Axes, x: tuple[str, Any] | None = None, y: tuple[str, Any] | None = None) -> None:
    """Logarithmic where the named values ask for it."""
    for side, given in (("x", x), ("y", y)):
        if given is not None and is_log(*given):
            axes.set(**{f"{side}scale": "log"})


def log_ticks(axes: Axes) -> None:
    """Few numbers on those axes that are logarithmic."""
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            log_axis(axis)


def log_axis(axis: Any) -> None:
    """Numbers at powers of ten, and on less than two decades at 2 and 5 between: no crowd of them."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(partial(_tick, axis, False)))
    axis.set_minor_formatter(FuncFormatter(partial(_tick, axis, True)))


def _tick(axis: Any, minor: bool, value: float, place: Any) -> str:
    """A plain number if all of a short axis is near one, else with its power of ten."""
    low, high = sorted(axis.get_view_interval())  # as they are when it is drawn
    short = high < 10.0**CROWDED * low
    mantissa, exponent = f"{value:.0e}".split("e")
    if minor and not (short and mantissa in ("2", "5")):
        return ""
    if short and 1e-2 < low < high < 1e4:
        return number(value)
    return rf"${'' if mantissa == '1' else mantissa + TIMES}10^{{{int(exponent)}}}$"


def regime_style(name: str) -> tuple[str, Any]:
    """Its colour and its line; what is no regime, such as `auto`, is a solid black line."""
    return REGIME_STYLES.get(name, (BLACK, "-"))


def category_colours(names: Iterable[str]) -> dict[str, str]:
    """One for each name, known ones first: that of the phase or of the regime, else the next one."""
    known = CATEGORIES | {name: colour for name, (colour, _) in REGIME_STYLES.items()}
    there = {str(name) for name in names}
    found = {name: colour for name, colour in known.items() if name in there}
    others = chain((colour for colour in OKABE_ITO if colour not in found.values()), repeat(GREY))
    return found | dict(zip(sorted(there - set(known)), list(islice(others, len(there))), strict=False))


def sequence(count: int) -> list[Any]:
    """So many colours from dark to light, in an order that every eye sees."""
    return [tuple(colour) for colour in islice(sequential()(np.linspace(0, 1, max(count, 2))), count)]


def ranked_bar(axes: Axes, name: str, values: list[Any], most: int = 6) -> None:
    """A colour bar of `sequence`: one field for each value, some of them with their number."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    count = len(values)
    fields = ScalarMappable(Normalize(-0.5, count - 0.5), ListedColormap(sequence(count)))
    bar = axes.figure.colorbar(fields, ax=axes, pad=0.02, fraction=0.06, aspect=30)
    ticks = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    bar.set_ticks(ticks.tolist(), labels=[number(values[at]) for at in ticks])
    bar.set_label(label(name))
    bar.outline.set_visible(False)


def sequential() -> Any:
    """viridis without the end that white paper swallows."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.86, 256)), name="sweep")
