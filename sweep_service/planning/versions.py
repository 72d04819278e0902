"""The versions of a sweep: those of the simulators and regimes that compute its runs, and of plugins.

The version of the package is recorded beside them, but does not identify a sweep: a release that changes no
numbers changes no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sweep_service.by_value import entry_version
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.identity import Key
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.keys import entry_versions, regime_version
from sweep_service.registries import REGISTRIES
from sweep_service.simulators.selection import SIMULATORS, choose_simulator

FIRST_VERSION = 1  # of everything that was stored before versions were recorded
SIMULATOR, REGIME, ENTRY = "simulator", "regime", "entry"
SHOWN_DIGITS = 8  # of the digest of an entry

Version = int | str  # a number, or the digest of an entry of a plugin
# By name, such as "simulator S3", "regime classical" or "entry activation sine".
Versions = Mapping[str, Version]


def engine_versions(grid: Grid) -> dict[str, Version]:
    """Return the versions of the simulators and regimes that compute the runs of a grid, and of plugins."""
    simulators = () if grid.simulators is None else grid.simulators.values
    return {**_named_versions(set(simulators), grid.regimes), **_added_versions(grid)}


def job_versions(grid: Grid, jobs: Sequence[Job]) -> dict[str, Version]:
    """Return the versions of the simulator, never more than one in a bundle, and the regimes of its jobs."""
    sgd_points = [job.point for job in jobs if job.kind == "sgd"]
    simulators = {choose_simulator(grid.point(point)).name for point in sgd_points[:1]}
    regimes = {grid.regimes[job.regime] for job in jobs if job.kind == "ode"}
    return {**_named_versions(simulators, regimes), **_added_versions(grid)}


def _added_versions(grid: Grid) -> dict[str, Version]:
    return {f"{ENTRY} {kind} {name}": version for (kind, name), version in entry_versions(grid).items()}


def _named_versions(simulators: Iterable[str], regimes: Iterable[str]) -> dict[str, int]:
    return {
        **{f"{SIMULATOR} {name}": SIMULATORS[name].version for name in sorted(simulators)},
        **{f"{REGIME} {name}": regime_version(name) for name in sorted(regimes)},
    }


def sweep_key(grid: Grid) -> str:
    """Return the key that identifies a sweep: a digest of its canonical spec and of its versions.

    A version enters when it is not the first, so that the keys of older sweeps stay as they are.
    """
    later = {name: version for name, version in engine_versions(grid).items() if version != FIRST_VERSION}
    return Key.of(spec=grid.key.digest, versions=later).digest if later else grid.key.digest


def changed_versions(versions: Versions) -> dict[str, tuple[Version, Version | None]]:
    """Return the versions that are not those of this code, each with its present value, None if removed."""
    present = {name: _present_version(name) for name in versions}
    return {name: (old, present[name]) for name, old in versions.items() if old != present[name]}


def _present_version(name: str) -> Version | None:
    kind, _, engine = name.partition(" ")
    if kind == ENTRY:
        registry, _, entry = engine.partition(" ")
        return entry_version(registry, entry) if entry in REGISTRIES.get(registry, ()) else None
    if kind == SIMULATOR:
        return SIMULATORS[engine].version if engine in SIMULATORS else None
    return regime_version(engine) if engine in REGIMES or engine == "auto" else None


def describe_changes(changes: Mapping[str, tuple[Version, Version | None]]) -> str:
    """Return a text such as: simulator S3 had version 1 and has 2."""
    texts = (
        f"{name.removeprefix(f'{ENTRY} ')} had version {_shorten(old)} and "
        f"{'is gone' if new is None else f'has {_shorten(new)}'}"
        for name, (old, new) in changes.items()
    )
    return ", ".join(texts)


def _shorten(version: Version) -> str:
    return str(version)[:SHOWN_DIGITS]


def versions_agree(part: Versions, sweep: Versions) -> bool:
    """Return whether a part has the versions of its sweep; what was stored without versions has the first."""
    names = part.keys() & sweep.keys() if part and sweep else part.keys() | sweep.keys()
    return all(part.get(name, FIRST_VERSION) == sweep.get(name, FIRST_VERSION) for name in names)
