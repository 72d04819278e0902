"""The layers: imports go api -> workers -> sweep_service, and importing the core loads nothing heavy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WEB = ("fastapi", "starlette", "uvicorn")
FORBIDDEN = {
    "sweep_service": ("api", "workers", "distributed", "dask.distributed", *WEB),
    "workers": ("api", *WEB),
}
# What a person types may start the service, so its command functions may reach up.
EXCEPTION, REACHABLE = "sweep_service/cli.py", ("api", "workers")
HEAVY = ("matplotlib", "numba", "scipy", "xarray")


def imported(node: ast.AST, in_function: bool = False) -> Iterator[tuple[str, int, bool]]:
    """(module, line, inside a function) for every absolute import below node, dynamic ones included."""
    match node:
        case ast.Import(names=names):
            yield from ((alias.name, node.lineno, in_function) for alias in names)
        case ast.ImportFrom(module=str(module), level=0, names=names):
            # `from dask import distributed` imports dask.distributed
            yield from ((f"{module}.{alias.name}", node.lineno, in_function) for alias in names)
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


def violations(source: str, path: str) -> list[str]:
    """Imports in source that its layer may not have; path is relative to the repository, with slashes."""
    return [
        f"{path}:{line} imports {module}"
        for module, line, in_function in imported(ast.parse(source))
        if within(module, FORBIDDEN.get(path.split("/")[0], ()))
        and not (path == EXCEPTION and in_function and within(module, REACHABLE))
    ]


def test_imports_go_one_way():
    files = [file for layer in FORBIDDEN for file in sorted((ROOT / layer).rglob("*.py"))]
    assert ROOT / "sweep_service" / "__init__.py" in files
    relative = {file: file.relative_to(ROOT).as_posix() for file in files}
    assert [line for file in files for line in violations(file.read_text("utf-8"), relative[file])] == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sweep_service/spec.py", "import fastapi"),
        ("sweep_service/spec.py", "import numpy, uvicorn.config"),
        ("sweep_service/spec.py", "from starlette.responses import Response"),
        ("sweep_service/spec.py", "from dask import distributed"),
        ("sweep_service/spec.py", "from dask.distributed import Client"),
        ("sweep_service/spec.py", "try:\n    import distributed\nexcept ImportError: pass"),
        ("sweep_service/spec.py", "def f():\n    from workers import executor"),
        ("sweep_service/spec.py", "import importlib\nimportlib.import_module('api.app')"),
        ("sweep_service/model/cli.py", "def f():\n    import api"),
        ("sweep_service/cli.py", "import api"),
        ("sweep_service/cli.py", "class Command:\n    from workers import executor"),
        ("sweep_service/cli.py", "def serve():\n    import fastapi"),
        ("workers/task.py", "from api.app import create_app"),
        ("workers/task.py", "async def f():\n    import fastapi"),
    ],
)
def test_crossing_import_is_found(path, source):
    assert len(violations(source, path)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sweep_service/spec.py", "import dask\nfrom . import api\nfrom .workers import x\nimport apiary"),
        ("sweep_service/cli.py", "def serve():\n    from api.app import create_app\n    import workers"),
        ("workers/task.py", "import distributed\nfrom sweep_service import integrate"),
        ("api/app.py", "import fastapi, workers, sweep_service"),
    ],
)
def test_allowed_import_passes(path, source):
    assert violations(source, path) == []


def test_importing_the_core_loads_nothing_heavy():
    code = f"import sys, sweep_service; print(*sorted({set(HEAVY)} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == []
