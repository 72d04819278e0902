"""Figures as files: views of a sweep, reproduced figures with their numbers, and the gallery page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.text import format_table, make_printable

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure as Drawing

    from sweep_service.figures import Check, Figure

SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Report:
    """A reproduced figure: its sweeps, checks and files."""

    figure: Figure
    sweeps: tuple[str, ...]
    checks: tuple[Check, ...]
    assumptions: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure.name,
            "title": self.figure.title,
            "sweeps": list(self.sweeps),
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
            "assumptions": list(self.assumptions),
            "files": [str(file) for file in self.files],
        }

    def __str__(self) -> str:
        rows = [(check.name, f"{check.value:.3g}", check.bound, _verdict(check)) for check in self.checks]
        lines = [self.figure.title, *self.files, "", format_table(("number", "measured", "bound", ""), rows)]
        return "\n".join(map(str, [*lines, "", *(f"assumed: {text}" for text in self.assumptions)]))


def reproduce_figure(
    figure: Figure, sweeps: Mapping[str, tuple[str, xr.Dataset]], folder: Path | None
) -> Report:
    """Check and draw a figure from the sweeps of its presets, given as (sweep id, dataset) by preset."""
    from sweep_service.analysis.plots.save import caption

    datasets = {figure.dataset_name(preset): dataset for preset, (_, dataset) in sweeps.items()}
    sweep_ids = tuple(sweep_id for sweep_id, _ in sweeps.values())
    checks = tuple(figure.check(datasets))
    files: tuple[Path, ...] = ()
    if folder is not None:
        caption_text = f"{figure.title}. {caption(datasets[''], sweep_ids[0])}"
        if len(sweep_ids) > 1:
            caption_text += f" With sweeps {', '.join(sweep_ids[1:])}."
        files = _write_files(
            figure.draw(datasets), folder / figure.name, datasets[""], caption_text, sweep_ids[0]
        )
    return Report(figure, sweep_ids, checks, tuple(figure.list_assumptions(sweeps)), files)


def draw_suggested_view(dataset: xr.Dataset, sweep_id: str, folder: Path) -> tuple[Path, ...]:
    """Draw the view that shows most of a sweep, and return the files."""
    from sweep_service.analysis.plots.save import caption
    from sweep_service.analysis.views import VIEWS, suggest_view

    name, options = suggest_view(dataset)
    return _write_files(
        VIEWS[name].plot(dataset, options), folder / sweep_id, dataset, caption(dataset, sweep_id), sweep_id
    )


def draw_view(
    dataset: xr.Dataset, sweep_id: str, path: Path, view: str, options: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]]:
    """Draw a view to a file; return its name and options, which are suggested if `view` is empty."""
    from sweep_service.analysis.plots.save import caption, save
    from sweep_service.analysis.views import VIEWS, choose_view

    view, options = choose_view(dataset, view, options)
    save(VIEWS[view].plot(dataset, options), path, None, dataset, caption(dataset, sweep_id), sweep_id)
    return view, options


def _write_files(
    drawing: Drawing, path: Path, dataset: xr.Dataset, caption_text: str, sweep_id: str
) -> tuple[Path, ...]:
    from sweep_service.analysis.plots.save import save

    path.parent.mkdir(parents=True, exist_ok=True)
    files = tuple(path.with_name(path.name + suffix) for suffix in SUFFIXES)
    for file in files:
        save(drawing, file, None, dataset, caption_text, sweep_id)
    return files


def render_page(reports: Iterable[Report]) -> str:
    """The gallery page in Markdown: all figures with their numbers."""
    lines = [
        "# Gallery",
        "",
        "The figures of the two papers, the full model and the error bars in their quick forms, with their "
        "golden numbers. `sweep gallery` makes this page; `sweep run fig2-left` reproduces one figure, "
        "`sweep run fig2-left-full` its full form, which takes longer.",
    ]
    for report in reports:
        lines += ["", f"## {report.figure.name}", "", f"{report.figure.title}.", ""]
        lines += [
            f"![{report.figure.title}]({report.figure.name}.png)",
            "",
            "| number | measured | bound | |",
        ]
        lines += ["|---|---|---|---|"]
        for check in report.checks:
            lines.append(
                f"| {_escape_cell(check.name)} | {check.value:.3g} | {check.bound} | {_verdict(check)} |"
            )
        lines += ["", *(f"- Assumed: {text}." for text in report.assumptions)]
    return "\n".join(lines) + "\n"


def _verdict(check: Check) -> str:
    return "passes" if check.passed else "FAILS"


def _escape_cell(text: str) -> str:
    return make_printable(text).replace("|", "\\|")
