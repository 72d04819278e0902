"""The order of packages: imports go one way, use one name, and the core loads nothing heavy."""

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
# As in docs/architecture.md: a package may import itself and those before it.
ORDER = (
    "numerics", "model", "dynamics", "simulators", "planning", "store", "execution", "analysis", "presets",
    "figures", "client", "doctor", "archives", "runner", "cli", "workers", "api",
)  # fmt: skip
SERVICE_PACKAGES = ("workers", "api")  # their folders are at the top level of the repository
MAY_IMPORT_SERVICE = ("cli", "runner")  # inside functions only
FACADES = (NAME, f"{NAME}.__main__")  # the package itself and its command import from all others
WEB = ("fastapi", "starlette", "uvicorn")
DASK = ("distributed", "dask.distributed")
HEAVY_MODULES = ("matplotlib", "numba", "scipy", "xarray")
MAX_MODULES_PER_FOLDER = 17  # without __init__


def iter_imports(node: ast.AST, in_function: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Yield (module, line, inside a function) for every import below node, including dynamic ones."""
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
        yield from iter_imports(child, inside)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def package_of(module: str) -> str:
    """Return the package of a module; "" for shared modules and for other libraries."""
    first, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    return part if first == NAME and part in ORDER else ""


def find_violations(source: str, module: str) -> list[str]:
    """List the imports that a module of this package must not have."""
    package = package_of(module)
    return [
        f"{module}:{line} imports {other}"
        for other, line, in_function in iter_imports(ast.parse(source))
        if _is_forbidden(module, package, other, in_function)
    ]


def _is_forbidden(module: str, package: str, other: str, in_function: bool) -> bool:
    if other.startswith("."):  # modules are named absolutely
        return True
    if is_within(other, SERVICE_PACKAGES):  # a user's folder of that name would be found first
        return True
    if package != "api" and is_within(other, WEB):
        return True
    if package not in SERVICE_PACKAGES and is_within(other, DASK):
        return True
    other_package = package_of(other)
    if not other_package or module in FACADES:
        return False
    if other_package in SERVICE_PACKAGES and package not in SERVICE_PACKAGES:
        return not (package in MAY_IMPORT_SERVICE and in_function)
    return not package or ORDER.index(other_package) > ORDER.index(package)


def find_sources() -> dict[str, Path]:
    """Map the import name of every module to its file."""
    modules = {}
    for top in (NAME, *SERVICE_PACKAGES):
        for file in sorted((ROOT / top).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            if parts[:2] in [(NAME, package) for package in SERVICE_PACKAGES]:  # the link to the same folder
                continue
            parts = parts if top == NAME else (NAME, *parts)
            modules[".".join(parts).removesuffix(".__init__")] = file
    return modules


SOURCES = find_sources()


def test_packages_import_only_earlier_packages():
    assert {package_of(name) for name in SOURCES} == {"", *ORDER}
    forbidden = [
        line for name, file in SOURCES.items() for line in find_violations(file.read_text("utf-8"), name)
    ]
    assert forbidden == []


def test_no_cycle_among_modules():
    """Imports inside functions count too: modules of a cycle cannot be understood separately."""
    graph = {name: set[str]() for name in SOURCES}
    for name, file in SOURCES.items():
        for other, _, _ in iter_imports(ast.parse(file.read_text("utf-8"))):
            target = other if other in SOURCES else other.rpartition(".")[0]
            if target in SOURCES and name not in FACADES and target not in FACADES:
                graph[name].add(target)
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_tests_and_benchmarks_use_the_one_import_name():
    files = [
        file for top in ("tests", "benchmarks", "validation", "deploy") for file in (ROOT / top).rglob("*.py")
    ]
    assert files
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {module}"
        for file in files
        for module, line, _ in iter_imports(ast.parse(file.read_text("utf-8")))
        if is_within(module, SERVICE_PACKAGES)
    ]
    assert wrong == []


def test_every_package_has_a_docstring():
    undocumented = [
        name for name, file in SOURCES.items()
        if file.name == "__init__.py" and not ast.get_docstring(ast.parse(file.read_text("utf-8")))
    ]  # fmt: skip
    assert undocumented == []


def test_folders_stay_small():
    folders = {file.parent for file in SOURCES.values()}
    sizes = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) - 1 for folder in folders}
    assert {name: size for name, size in sizes.items() if size > MAX_MODULES_PER_FOLDER} == {}


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
def test_forbidden_import_is_found(module, source):
    assert len(find_violations(source, f"{NAME}.{module}")) == 1


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
    assert find_violations(source, f"{NAME}.{module}") == []


def test_importing_the_core_loads_nothing_heavy():
    code = f"import sys, sweep_service; print(*sorted({set(HEAVY_MODULES)} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.split() == []


def test_folders_of_a_user_do_not_hide_packages(tmp_path):
    """Folders `api` and `workers` of a user come first on PYTHONPATH, but must not be imported."""
    for name in SERVICE_PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('a user has such a folder')\n")
    code = "import sweep_service.api as a, sweep_service.workers as w; print(a.__name__, w.__name__)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert result.stdout.split() == [f"{NAME}.api", f"{NAME}.workers"], result.stderr
