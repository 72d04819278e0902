"""Properties of every command: text and JSON output, and no files after a refusal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sweep_service.cli.answers import DONE, REFUSED
from sweep_service.cli.app import app
from tests.cli.commands import (
    COMMANDS,
    ENVIRONMENT,
    INPUT,
    OTHER_COMMANDS,
    ROOT,
    SERVICE_COMMANDS,
    assert_refused,
    list_files,
    run_command,
    start_held,
)
from tests.specs import LONG_SPEC, SMALL_SPEC

HEAVY_MODULES = (
    "distributed", "httpx2", "numba", "numpy", "pydantic", "scipy", "sqlalchemy", "xarray", "yaml", "zarr"
)  # fmt: skip


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['sweep', '--help']\nfrom sweep_service.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*[name for name in {HEAVY_MODULES} if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert (result.returncode, result.stderr.strip()) == (0, "")
    assert all(name in result.stdout for name in (*COMMANDS, *SERVICE_COMMANDS, *OTHER_COMMANDS))
    assert "imports" not in result.stdout  # the help is for users
    assert "Exit codes" in result.stdout


def test_every_command_is_tested():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert names == {*COMMANDS, *SERVICE_COMMANDS, *OTHER_COMMANDS}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_text_and_json(tmp_path, stored_sweep, name, as_json):
    cwd, sweep_id = stored_sweep
    subprocess.run(["cp", "-r", cwd / "sweep-data", tmp_path / "sweep-data"], check=True)
    argv = [sweep_id if word == "ID" else word for word in COMMANDS[name]]
    answer = run_command(tmp_path, *argv, *(["--json"] if as_json else []), text=INPUT.get(name, ""))
    assert answer.code == DONE, answer.err
    assert "Traceback" not in answer.err
    assert "Warning" not in answer.err
    assert answer.out.strip()
    if as_json:
        assert answer.json
        assert answer.err == ""
        assert len(answer.out.splitlines()) == 1


@pytest.mark.parametrize("folder_exists", [False, True], ids=["no folder", "no ledger"])
def test_unknown_sweep_creates_no_files(tmp_path, folder_exists):
    if folder_exists:
        (tmp_path / "sweep-data").mkdir()
    assert run_command(tmp_path, "list", "--json").json == []
    assert run_command(tmp_path, "list").out == "no sweeps\n"
    for name in ("show", "export", "plot", "rerun", "cancel", "rm", "retry", "extend", "pause", "resume"):
        assert_refused(run_command(tmp_path, *COMMANDS[name], text=INPUT.get(name, "")), "no sweeps")
    assert list_files(tmp_path) == ["sweep-data"] * folder_exists
    assert not folder_exists or list((tmp_path / "sweep-data").iterdir()) == []


def test_environment_selects_the_data_folder(tmp_path):
    assert run_command(tmp_path, "run", "-", text=SMALL_SPEC, env={"SWEEP_DATA": "elsewhere"}).code == DONE
    assert list_files(tmp_path) == ["elsewhere"]
    assert len(run_command(tmp_path, "list", "--json", "--data", "elsewhere").json) == 1


def test_documentation_names_existing_commands_and_options():
    page = (Path(ROOT) / "docs" / "sweeps.md").read_text("utf-8")
    commands = typer.main.get_command(app).commands
    named = re.findall(r"(?:^|`)sweep ([a-z]+)", page, re.MULTILINE)
    assert set(named) <= set(commands)
    assert [name for name in commands if name not in named and f"`{name}`" not in page] == []
    options = {word for command in commands.values() for option in command.params
               for word in (*option.opts, *option.secondary_opts)}  # fmt: skip
    assert [word for word in re.findall(r"(?<=[ `])--[a-z-]+", page) if word not in options] == []


def test_wrong_command_line_is_a_usage_error(tmp_path):
    for argv in (["frobnicate"], ["run"], ["run", "-", "--bogus"], ["show"]):
        answer = run_command(tmp_path, *argv)
        assert (answer.code, answer.out) == (REFUSED, "")
        assert "Traceback" not in answer.err
    assert list_files(tmp_path) == []


def test_second_process_is_refused_while_the_folder_is_in_use(tmp_path):
    child = start_held(tmp_path, "run", "-", "--json", text=LONG_SPEC)
    try:
        assert_refused(run_command(tmp_path, "run", "-", text=SMALL_SPEC), f"in use by process {child.pid}")
        assert_refused(run_command(tmp_path, "cancel", "2"), "in use")
        (sweep,) = run_command(tmp_path, "list", "--json").json  # readers need no lock
        assert run_command(tmp_path, "show", sweep["id"], "--json").json["state"] in ("queued", "running")
        assert run_command(tmp_path, "export", sweep["id"], "out.csv").code == DONE
    finally:
        child.kill()
        child.wait()
    assert (
        run_command(
            tmp_path, "run", "-", text=SMALL_SPEC, before="import sweep_service.execution.conductor"
        ).code
        == DONE
    )


def test_unusable_data_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert_refused(run_command(tmp_path, "run", "-", "--data", "file", text=SMALL_SPEC), "file")
    assert_refused(run_command(tmp_path, "run", "-", "--data", "s3://Bucket/sweeps", text=SMALL_SPEC), "s3")
    assert_refused(run_command(tmp_path, "run", "-", "--data", "gs://bucket/sweeps", text=SMALL_SPEC), "gs")
    assert list_files(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("arguments", "completion"),
    [
        (["show", ""], "{id}"),
        (["show", "--data", "sweep-data", "2"], "{id}"),
        (["show", "--data", "elsewhere", ""], ""),
        (["show", "--url", "http://127.0.0.1:9", ""], ""),  # completion does not wait for a service
        (["run", "phase"], "phase-diagram"),
        (["can"], "cancel"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_shell_completes_ids_presets_and_commands(stored_sweep, arguments, completion):
    cwd, sweep_id = stored_sweep
    shell = {"COMP_WORDS": " ".join(["sweep", *arguments]), "COMP_CWORD": str(len(arguments))}
    answer = run_command(cwd, env={"_SWEEP_COMPLETE": "complete_bash", **shell})
    assert (answer.code, answer.out.strip()) == (DONE, completion.format(id=sweep_id))
