"""Presets: specs that come with the package, one YAML file each, named after the file."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from sweep_service.errors import unknown_name

if TYPE_CHECKING:
    from sweep_service.planning.spec import SweepSpec

PRESETS = tuple(
    sorted(
        file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml")
    )
)


def read_preset_text(name: str) -> str:
    """The YAML text of a preset, including its comments."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")


def read_assumptions(name: str) -> list[str]:
    """What a preset assumes beyond the papers: the lines of its text that begin with `# Assumed:`."""
    marker, lines = "# Assumed: ", read_preset_text(name).splitlines()
    return [line.removeprefix(marker).removesuffix(".") for line in lines if line.startswith(marker)]


def read_preset(name: str) -> SweepSpec:
    """The spec of a preset."""
    from sweep_service.planning.spec import SweepSpec  # imports numba, which texts do not need

    return SweepSpec.read(read_preset_text(name))
