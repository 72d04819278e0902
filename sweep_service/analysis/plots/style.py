"""The style of figures: sizes, colours, line styles, symbols, and which axes are logarithmic.

matplotlib keeps its settings in one global dictionary and reads them while it draws. `use_style` applies
ours on top of matplotlib's defaults while it holds a lock, and then restores the previous settings. All code
that creates or renders artists runs inside it, so threads draw one after the other without affecting each
other.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.labels import find_label
from sweep_service.model.parameters import PARAMETERS
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

SINGLE_COLUMN_INCHES, DOUBLE_COLUMN_INCHES = 3.4, 7.0  # of a journal page
DPI = 200
RC_PARAMS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so it is the same on every machine
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
    "pdf.fonttype": 42,  # embed text as text
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sweep-service",  # otherwise ids are random and files are not reproducible
    "savefig.dpi": DPI,
}
_STYLE_LOCK = threading.RLock()

# The palette of Okabe and Ito, without yellow, which is hardly visible on white.
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
LINE_STYLES: tuple[Any, ...] = ("-", (0, (1, 1.2)), "--", "-.", (0, (7, 1.5)), (0, (4, 1, 1, 1, 1, 1)))
MARKERS = "os^Dv<>ph*"
# The numbers of colours and of line styles have no common factor, so 42 regimes have distinct styles.
REGIME_STYLES = dict(zip(REGIMES, zip(cycle(OKABE_ITO), cycle(LINE_STYLES)), strict=False))
PHASE_COLOURS = {
    "perfect": GREEN,
    "plateau": BLUE,
    "bad": ORANGE,
    "diverged": VERMILLION,
    "unspecialised": PURPLE,
    "undecided": GREY,
    "holds": GREEN,
    "off": VERMILLION,
    "nonlinear": ORANGE,
    "unknown": GREY,
}
# Title at an axis, and symbol in a formula. Parameters and coordinates have their own labels.
QUANTITIES = {
    "risk": ("excess risk", "$R$"),
    "specialisation": ("specialisation", ""),
    "cosine": ("mean largest |cosine|", ""),
    "largest_norm": ("largest norm", r"$\max_i Q_{ii}$"),
    "mean_orthogonal_norm": ("orthogonal norm", r"$\mathrm{tr}\,Q_\perp/p$"),
    "discrepancy": ("discrepancy", "$D$"),
    "overlap_discrepancy": ("", r"$\|\Omega-\Omega_\mathrm{ODE}\|_\infty$"),
    "relative_discrepancy": ("discrepancy", "$D/R(0)$"),
    "largest_z_score": ("largest z-score", r"$\max_t |z|$"),
    "z_discrepancy": ("discrepancy / predicted sd", ""),
    "sgd_over_ode": ("final risk, SGD / theory", ""),
    "final_risk": ("final excess risk", "$R$"),
    "over_floor": ("final risk / noise floor", ""),
    "bound": ("largest norm", r"$\max_{i,t} Q_{ii}$"),
    "specialisation_time": ("time of specialisation", ""),
}
LOGARITHMIC_QUANTITIES = (
    "risk", "discrepancy", "largest_norm", "mean_orthogonal_norm", "orthogonal_operator_norm",
    "off_diagonal_rms", "seeds_needed",
)  # fmt: skip
TIMES = r"\times"
SHORT_AXIS_DECADES = 2.0  # a shorter axis has too few powers of ten for its ticks
MIN_LOG_RANGE = 5.0  # largest over smallest value: below it, a linear axis is easier to read


@contextmanager
def use_style() -> Iterator[None]:
    """Apply our settings to matplotlib, for one thread at a time."""
    import matplotlib

    with _STYLE_LOCK, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC_PARAMS)  # type: ignore[arg-type]
        yield


@contextmanager
def canvas(
    axes: Axes | None, width: float = SINGLE_COLUMN_INCHES, height: float = 2.6
) -> Iterator[tuple[Figure, Axes]]:
    """The figure and axes to draw on, in our style: the given axes, or those of a new figure."""
    with use_style():
        if axes is None:
            figure = new_figure(width, height)
            yield figure, figure.add_subplot()
        else:
            yield get_figure(axes), axes


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def get_figure(axes: Axes) -> Figure:
    """The figure of axes, also if they are in a subfigure."""
    return axes.figure.figure


def get_width(axes: Axes) -> float:
    """Width of axes in inches, before the layout makes room for labels."""
    return axes.get_position().width * get_figure(axes).get_figwidth()


def legend_below(
    axes: Axes, handles: list[Any], columns: int = 2, points: float = 32.0, **options: Any
) -> None:
    """Add a legend under the label of the x axis, `points` below the axes, where it covers nothing."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0.0, -points / 72.0, axes.figure.dpi_scale_trans)
    look: dict[str, Any] = {"loc": "upper left", "borderaxespad": 0.0, "columnspacing": 1.2, "ncols": columns}
    look |= {"bbox_to_anchor": (0.0, 0.0), "bbox_transform": axes.transAxes + shift}
    axes.legend(handles=handles, **(look | options))


def outline(texts: Iterable[Any]) -> None:
    """Give texts a white outline, so that they are readable on any background."""
    from matplotlib.patheffects import withStroke

    for artist in texts:
        artist.set(color="k", path_effects=[withStroke(linewidth=1.6, foreground="w")])


def add_halo(lines: Any) -> None:
    """Give lines a faint white outline, so that they are visible on dark colours."""
    from matplotlib.patheffects import Normal, Stroke

    lines.set_path_effects([Stroke(linewidth=1.6, foreground="w", alpha=0.6), Normal()])


def colour_swatch(name: str, colour: Any) -> Any:
    """A legend entry that shows a colour."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, lw=4, solid_capstyle="butt", label=name)


def blank_entries(count: int) -> list[Any]:
    """Empty legend entries, to control how matplotlib distributes entries over columns."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], ls="none", label=" ") for _ in range(count)]


# ---- texts


def title_and_latex(name: str) -> tuple[str, str]:
    """Title at an axis, and symbol in a formula; empty for names without a label."""
    label = find_label(name)
    return QUANTITIES.get(name, ("", "")) if label is None else (label.title, label.latex)


def has_label(name: str) -> bool:
    """Whether a name has a title or a symbol."""
    return any(title_and_latex(name))


def latex_symbol(name: str) -> str:
    """The symbol in a formula, or the name as text."""
    return title_and_latex(name)[1] or name_to_text(name)


def name_to_text(name: str) -> str:
    """A name with spaces, without the prefix of initial-condition numbers."""
    return name.removeprefix("init.").replace("_", " ")


def axis_label(name: str, units: str = "1") -> str:
    """The label of an axis, such as "learning rate $\\gamma$"."""
    source, _, rest = name.partition("_")
    if source in ("sgd", "ode") and rest and not has_label(name):
        return f"{axis_label(rest, units)} ({'SGD' if source == 'sgd' else 'theory'})"
    text = " ".join(title_and_latex(name)).strip() or name_to_text(name)
    return text if units in ("1", "") else f"{text} ({units})"


def format_number(value: Any, digits: int = 3) -> str:
    """A number with `digits` significant digits, and a power of ten if it is far from one; or a text."""
    if isinstance(value, str | bool | np.str_):
        return name_to_text(str(value))
    value = float(f"{float(value):.{max(digits, 5)}g}")  # 999.9999 is 1000
    if value == 0.0 or not math.isfinite(value) or 1e-3 < abs(value) < 1e5:
        shown = f"{value:.0f}" if 10**digits <= abs(value) + 0.5 < math.inf else f"{value:.{digits}g}"
        return shown.replace("-", "\N{MINUS SIGN}")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = f"10^{{{int(exponent)}}}"
    return {"1": f"${power}$", "-1": f"$-{power}$"}.get(mantissa, rf"${mantissa}\times{power}$")


def format_with_error(value: float, error: float) -> str:
    """Such as 0.503 ± 0.012: two digits of the error, and as many decimals of the value."""
    if not 0.0 < error < math.inf:
        return format_number(value)
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def format_parameter(name: str, value: Any) -> str:
    """Such as "$\\gamma$ = 0.1"; for several values, the smallest and the largest."""
    if isinstance(value, list | tuple | np.ndarray):
        ends = dict.fromkeys(format_number(end) for end in (min(value), max(value)))
        return f"{latex_symbol(name)} = {' … '.join(ends)}"
    return f"{latex_symbol(name)} = {format_number(value)}"


def format_title(at: dict[str, Any], fixed: Mapping[str, Any] | None = None) -> str:
    """Coordinates with their values in one line, then fixed parameters, such as "$k$ = 2, erf".

    The name of an activation says what it is, and a teacher like the student is left out.
    """
    fixed = {name: value for name, value in (fixed or {}).items() if name in PARAMETERS}
    activation, teacher = fixed.pop("activation", ""), fixed.pop("teacher_activation", "")
    texts = [format_parameter(name, value) for name, value in {**at, **fixed}.items()]
    texts.append(activation)
    texts.append(f"{teacher} teacher" if teacher not in ("", activation) else "")
    return ", ".join(text for text in texts if text)


# ---- scales and colours


def is_log(name: str, values: Any) -> bool:
    """Whether to draw a quantity on a logarithmic axis.

    It usually is, its finite values are positive, and they span at least a factor `MIN_LOG_RANGE`.
    """
    numbers, label = finite_values(values), find_label(name)
    quantity = name.removeprefix("sgd_").removeprefix("ode_")
    usually_log = quantity in LOGARITHMIC_QUANTITIES if label is None else label.logarithmic
    if not usually_log or numbers.size == 0:
        return False
    return bool(numbers.min() > 0 and numbers.max() >= MIN_LOG_RANGE * numbers.min())


def finite_values(values: Any) -> Array:
    """The finite values as a flat array of floats."""
    numbers = np.asarray(values, dtype=float).ravel()
    return numbers[np.isfinite(numbers)]


def set_scales(axes: Axes, x: tuple[str, Any] | None = None, y: tuple[str, Any] | None = None) -> None:
    """Make axes logarithmic if `is_log` says so for their names and values."""
    for side, named_values in (("x", x), ("y", y)):
        if named_values is not None and is_log(*named_values):
            axes.set(**{f"{side}scale": "log"})


def format_log_ticks(axes: Axes) -> None:
    """Reduce the tick labels of logarithmic axes."""
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            format_log_axis(axis)


def format_log_axis(axis: Any) -> None:
    """Label powers of ten, and on less than two decades also 2 and 5 times them."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(partial(_format_tick, axis, False)))
    axis.set_minor_formatter(FuncFormatter(partial(_format_tick, axis, True)))


def _format_tick(axis: Any, minor: bool, value: float, position: Any) -> str:
    """A plain number on a short axis near one, otherwise with a power of ten."""
    low, high = sorted(axis.get_view_interval())  # the limits at the time of drawing
    short = high < 10.0**SHORT_AXIS_DECADES * low
    mantissa, exponent = f"{value:.0e}".split("e")
    if minor and not (short and mantissa in ("2", "5")):
        return ""
    if short and 1e-2 < low < high < 1e4:
        return format_number(value)
    return rf"${'' if mantissa == '1' else mantissa + TIMES}10^{{{int(exponent)}}}$"


def regime_style(name: str) -> tuple[str, Any]:
    """Colour and line style of a regime; a solid black line for other names, such as `auto`."""
    return REGIME_STYLES.get(name, (BLACK, "-"))


def category_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: that of the phase or regime, which come first, else the next unused one."""
    known = PHASE_COLOURS | {name: colour for name, (colour, _) in REGIME_STYLES.items()}
    wanted = {str(name) for name in names}
    assigned = {name: colour for name, colour in known.items() if name in wanted}
    others = chain((colour for colour in OKABE_ITO if colour not in assigned.values()), repeat(GREY))
    return assigned | dict(zip(sorted(wanted - set(known)), list(islice(others, len(wanted))), strict=False))


def sequential_colours(count: int, cmap: Colormap | None = None) -> list[Any]:
    """`count` colours from one end of a colour map to the other, by default from dark to light."""
    colours = (sequential_colormap() if cmap is None else cmap)(np.linspace(0, 1, max(count, 2)))
    return [tuple(colour) for colour in islice(colours, count)]


def add_ranked_bar(
    axes: Axes, name: str, values: list[Any], max_ticks: int = 6, cmap: Colormap | None = None
) -> None:
    """Add a colour bar of `sequential_colours`: one field for each value, some of them labelled."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    count = len(values)
    colours = ListedColormap(sequential_colours(count, cmap))
    fields = ScalarMappable(Normalize(-0.5, count - 0.5), colours)
    bar = axes.figure.colorbar(fields, ax=axes, pad=0.02, fraction=0.06, aspect=30)
    ticks = np.unique(np.linspace(0, count - 1, min(count, max_ticks)).round().astype(int))
    bar.set_ticks(ticks.tolist(), labels=[format_number(values[at]) for at in ticks])
    bar.set_label(axis_label(name))
    bar.outline.set_visible(False)


def sequential_colormap() -> Any:
    """viridis without its light end, which is hardly visible on white."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.86, 256)), name="sweep")
