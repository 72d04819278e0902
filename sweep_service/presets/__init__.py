"""Specs to start from, one YAML file each: the name of the file is the name of the preset."""

from __future__ import annotations

from importlib.resources import files

from sweep_service.errors import unknown_name
from sweep_service.planning.spec import SweepSpec

PRESETS = tuple(
    sorted(
        file.name.removesuffix(".yaml") for file in files(__name__).iterdir() if file.name.endswith(".yaml")
    )
)


def preset_text(name: str) -> str:
    """The file itself, comments included."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")


def preset(name: str) -> SweepSpec:
    return SweepSpec.read(preset_text(name))
