"""Figures as files: what a sweep suggests, those of the papers with their numbers, and a page of them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.text import printable, table

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure as Drawing

    from sweep_service.figures import Check, Figure

SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Report:
    """A figure of the papers as it came out."""

    figure: Figure
    sweeps: tuple[str, ...]
    checks: tuple[Check, ...]
    files: tuple[Path, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def plain(self) -> dict[str, Any]:
        return {
            "figure": self.figure.name,
            "title": self.figure.title,
            "sweeps": list(self.sweeps),
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
            "assumptions": list(self.figure.assumptions),
            "files": [str(file) for file in self.files],
        }

    def __str__(self) -> str:
        rows = [(one.name, f"{one.value:.3g}", one.bound, _word(one)) for one in self.checks]
        lines = [self.figure.title, *self.files, "", table(("number", "measured", "bound", ""), rows)]
        return "\n".join(map(str, [*lines, "", *(f"assumed: {text}" for text in self.figure.assumptions)]))


def reproduced(figure: Figure, opened: Mapping[str, tuple[str, xr.Dataset]], folder: Path | None) -> Report:
    """A figure from the sweeps of its presets: its numbers against their bounds, and its files."""
    from sweep_service.analysis.plots.save import caption

    parts = {figure.part(preset): dataset for preset, (_, dataset) in opened.items()}
    ids = tuple(id for id, _ in opened.values())
    checks = tuple(figure.check(parts))
    files: tuple[Path, ...] = ()
    if folder is not None:
        said = f"{figure.title}. {caption(parts[''], ids[0])}"
        if len(ids) > 1:
            said += f" With sweeps {', '.join(ids[1:])}."
        files = _written(figure.draw(parts), folder / figure.name, parts[""], said, ids[0])
    return Report(figure, ids, checks, files)


def suggested(dataset: xr.Dataset, id: str, folder: Path) -> tuple[Path, ...]:
    """Files of the view that shows most of a sweep."""
    from sweep_service.analysis.plots.save import caption
    from sweep_service.analysis.views import VIEWS, suggestion

    name, words = suggestion(dataset)
    return _written(VIEWS[name].plot(dataset, **words), folder / id, dataset, caption(dataset, id), id)


def drawn(
    dataset: xr.Dataset, id: str, path: Path, view: str, words: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]]:
    """A file of one view; which it was, and its words."""
    from sweep_service.analysis.plots.save import caption, save
    from sweep_service.analysis.views import VIEWS, suggestion

    if not view and words:
        raise InvalidInput("words", " ".join(words), f"need a view before them: one of {', '.join(VIEWS)}")
    if not view:
        view, words = suggestion(dataset)
    if view not in VIEWS:
        raise unknown_name("view", view, VIEWS)
    drawing = VIEWS[view].draw(VIEWS[view].find(dataset, **words))
    save(drawing, path, None, dataset, caption(dataset, id), id)
    return view, words


def _written(drawing: Drawing, path: Path, dataset: xr.Dataset, said: str, id: str) -> tuple[Path, ...]:
    from sweep_service.analysis.plots.save import save

    path.parent.mkdir(parents=True, exist_ok=True)
    files = tuple(path.with_name(path.name + suffix) for suffix in SUFFIXES)
    for file in files:
        save(drawing, file, None, dataset, said, id)
    return files


def page(reports: Iterable[Report]) -> str:
    """All figures with their numbers, in Markdown."""
    lines = [
        "# Gallery",
        "",
        "The figures of the two papers in their quick forms, and the numbers that must come out. "
        "`sweep gallery` makes this page; `sweep run fig2-left` one of its figures, and "
        "`sweep run fig2-left-full` that with the parameters of the paper.",
    ]
    for one in reports:
        lines += ["", f"## {one.figure.name}", "", f"{one.figure.title}.", ""]
        lines += [f"![{one.figure.title}]({one.figure.name}.png)", "", "| number | measured | bound | |"]
        lines += ["|---|---|---|---|"]
        for check in one.checks:
            lines.append(f"| {_cell(check.name)} | {check.value:.3g} | {check.bound} | {_word(check)} |")
        lines += ["", *(f"- Assumed: {text}." for text in one.figure.assumptions)]
    return "\n".join(lines) + "\n"


def _word(check: Check) -> str:
    return "passes" if check.passed else "FAILS"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|")
