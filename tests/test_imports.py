"""The layers: each package imports only those above it, by one name, and the core loads nothing heavy."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAME = "sweep_service"
# Top to bottom, as in docs/architecture.md: a package may import what stands above it, and itself.
ORDER = (
    "numerics", "model", "dynamics", "simulators", "planning", "store", "execution", "analysis", "presets",
    "figures", "client", "doctor", "runner", "cli", "workers", "api",
)  # fmt: skip
OUTSIDE = ("workers", "api")  # of the core; their folders stand beside it in the repository
REACHES = ("cli", "runner")  # may import these two, inside functions
FACADE = NAME  # the package itself, whose names are those of all others
WEB = ("fastapi", "starlette", "uvicorn")
DASK = ("distributed", "dask.distributed")
HEAVY = ("matplotlib", "numba", "scipy", "xarray")
LARGEST_FOLDER = 17  # modules, beside __init__


def imported(node: ast.AST, in_function: bool = False) -> Iterator[tuple[str, int, bool]]:
    """(module, line, inside a function) for every import below node, dynamic ones included."""
    match node:
        case ast.Import(names=names):
            yield from ((alias.name, node.lineno, in_function) for alias in names)
        case ast.ImportFrom(module=module, level=level, names=names):
            # `from dask import distributed` imports dask.distributed
            base = "." * level + (module or "")
            yield from ((f"{base}.{alias.name}", node.lineno, in_function) for alias in names)
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            yield module, node.lineno, in_function
    inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from imported(child, inside)


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def package_of(module: str) -> str:
    """The part of the order that a module belongs to; "" for those that all share, and for others' code."""
    first, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    return part if first == NAME and part in ORDER else ""


def violations(source: str, module: str) -> list[str]:
    """What a module of ours imports although it may not."""
    mine = package_of(module)
    return [
        f"{module}:{line} imports {other}"
        for other, line, in_function in imported(ast.parse(source))
        if _is_wrong(module, mine, other, in_function)
    ]


def _is_wrong(module: str, mine: str, other: str, in_function: bool) -> bool:
    if other.startswith("."):  # one way to name a module
        return True
    if within(other, OUTSIDE):  # a user's folder of that name would be found first
        return True
    if mine != "api" and within(other, WEB):
        return True
    if mine not in OUTSIDE and within(other, DASK):
        return True
    theirs = package_of(other)
    if not theirs or module == FACADE:
        return False
    if theirs in OUTSIDE and mine not in OUTSIDE:
        return not (mine in REACHES and in_function)
    return not mine or ORDER.index(theirs) > ORDER.index(mine)


def sources() -> dict[str, Path]:
    """Every module by its import name."""
    found = {}
    for top in (NAME, *OUTSIDE):
        for file in sorted((ROOT / top).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            if parts[:2] in [(NAME, one) for one in OUTSIDE]:  # through the link: once is enough
                continue
            parts = parts if top == NAME else (NAME, *parts)
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


SOURCES = sources()


def test_packages_import_only_those_above_them():
    assert {package_of(name) for name in SOURCES} == {"", *ORDER}
    found = [line for name, file in SOURCES.items() for line in violations(file.read_text("utf-8"), name)]
    assert found == []


def test_no_cycle_among_modules():
    """Lazy imports included: what imports in a circle cannot be understood piece by piece."""
    graph = {name: set[str]() for name in SOURCES}
    for name, file in SOURCES.items():
        for other, _, _ in imported(ast.parse(file.read_text("utf-8"))):
            target = other if other in SOURCES else other.rpartition(".")[0]
            if target in SOURCES and name != FACADE and target != FACADE:
                graph[name].add(target)
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_tests_and_benchmarks_use_the_one_import_name():
    files = [file for top in ("tests", "benchmarks", "deploy") for file in (ROOT / top).rglob("*.py")]
    assert files
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {module}"
        for file in files
        for module, line, _ in imported(ast.parse(file.read_text("utf-8")))
        if within(module, OUTSIDE)
    ]
    assert wrong == []


def test_every_package_says_what_belongs_there():
    silent = [
        name for name, file in SOURCES.items()
        if file.name == "__init__.py" and not ast.get_docstring(ast.parse(file.read_text("utf-8")))
    ]  # fmt: skip
    assert silent == []


def test_folders_stay_small():
    folders = {file.parent for file in SOURCES.values()}
    sizes = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) - 1 for folder in folders}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FOLDER} == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("planning.spec", "import fastapi"),
        ("planning.spec", "import numpy, uvicorn.config"),
        ("planning.spec", "from starlette.responses import Response"),
        ("planning.spec", "from dask import distributed"),
        ("planning.spec", "from dask.distributed import Client"),
        ("planning.spec", "try:\n    import distributed\nexcept ImportError: pass"),
        ("planning.spec", "def f():\n    from sweep_service.workers import executor"),
        ("planning.spec", "import importlib\nimportlib.import_module('sweep_service.api.app')"),
        ("planning.spec", "from sweep_service.store import folder"),
        ("planning.spec", "def f():\n    from sweep_service.store.folder import DataFolder"),
        ("planning.spec", "import workers"),
        ("planning.spec", "from . import grids"),
        ("store.parts", "from sweep_service.execution.compute import compute"),
        ("errors", "from sweep_service.model.point import Point"),
        ("cli.app", "import sweep_service.api"),
        ("cli.app", "class Command:\n    from sweep_service.workers import executor"),
        ("cli.app", "def serve():\n    import fastapi"),
        ("cli.app", "def serve():\n    import api"),
        ("workers.executor", "from sweep_service.api.app import create_app"),
        ("workers.executor", "async def f():\n    import fastapi"),
        ("api.app", "from api.settings import Settings"),
    ],
)
def test_crossing_import_is_found(module, source):
    assert len(violations(source, f"{NAME}.{module}")) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("planning.spec", "import dask, apiary\nfrom sweep_service.model.point import Point"),
        ("planning.spec", "from sweep_service.errors import InvalidInput"),
        ("cli.app", "def serve():\n    from sweep_service.api.app import create_app"),
        ("workers.executor", "import distributed\nfrom sweep_service import integrate"),
        ("api.app", "import fastapi\nfrom sweep_service.workers.executor import DaskExecutor"),
    ],
)
def test_allowed_import_passes(module, source):
    assert violations(source, f"{NAME}.{module}") == []


def test_importing_the_core_loads_nothing_heavy():
    code = f"import sys, sweep_service; print(*sorted({set(HEAVY)} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == []


def test_a_users_folders_do_not_stand_in_the_way(tmp_path):
    """Folders named like ours in the repository are found first on PYTHONPATH, and are not ours."""
    for name in OUTSIDE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('a user has such a folder')\n")
    code = "import sweep_service.api as a, sweep_service.workers as w; print(a.__name__, w.__name__)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert run.stdout.split() == [f"{NAME}.api", f"{NAME}.workers"], run.stderr
