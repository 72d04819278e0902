"""`python tools/conda_recipe.py`: write deploy/conda/recipe.yaml from pyproject.toml.

The package has all extras of a user.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "deploy" / "conda" / "recipe.yaml"
DEVELOPER_EXTRAS = ("dev", "docs")
CONDA_NAMES = {"matplotlib": "matplotlib-base", "prometheus-client": "prometheus_client"}
TEMPLATE = """\
# Written by tools/conda_recipe.py.
# A conda package from a copy of the repository: `rattler-build build --recipe deploy/conda/recipe.yaml`, or
# `conda build` with a version that reads this format.
context:
  version: "0.1.0"

package:
  name: sweep-service
  version: ${{ version }}

source:
  path: ../..

build:
  number: 0
  noarch: python
  script: python -m pip install . --no-deps --no-build-isolation -vv
  python:
    entry_points:
      - sweep = sweep_service.cli.app:main

requirements:
  host:
    - python >=3.11
    - pip
    - hatchling >=1.27
  run:
    - python >=3.11
REQUIREMENTS

tests:
  - python:
      imports: [sweep_service, sweep_service.api.app, sweep_service.workers.executor]
      pip_check: true
  - script:
      - sweep --help
      - sweep presets

about:
  summary: Parameter sweeps for the dynamics of SGD in two-layer networks, limiting ODEs beside simulation.
  license: MIT
  license_file: LICENSE
"""


def list_requirements(project: dict) -> list[str]:
    """Return the requirements of the package and of its extras, by their names in conda."""
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"]]
    for name, requirements in extras.items():
        if name not in DEVELOPER_EXTRAS:
            texts += requirements
    requirements = {
        requirement.name: requirement
        for requirement in map(Requirement, texts)
        if requirement.name != project["name"]
    }
    return [write_requirement(requirements[name]) for name in sorted(requirements)]


def write_requirement(requirement: Requirement) -> str:
    """Return a requirement as conda writes it; a system that has no such package has a condition."""
    name = CONDA_NAMES.get(requirement.name, requirement.name)
    bounds = ",".join(sorted(map(str, requirement.specifier), reverse=True))
    text = f"{name} {bounds}".strip()
    if "win32" in str(requirement.marker or ""):  # a package without code for one system: the others need it
        return f"{text}  # not on Windows"
    return text


def write_recipe() -> str:
    """Return the recipe."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.search(
        r'"(.+)"', (ROOT / "sweep_service" / "version.py").read_text("utf-8").splitlines()[-1]
    )
    assert version is not None
    lines = "\n".join(f"    - {text}" for text in list_requirements(project))
    return TEMPLATE.replace("REQUIREMENTS", lines).replace('"0.1.0"', f'"{version[1]}"')


if __name__ == "__main__":
    RECIPE.write_text(write_recipe(), "utf-8")
