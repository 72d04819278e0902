"""What holds for every command: it answers people and programs, and refuses without a trace."""

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
    HOME,
    INPUT,
    LONG,
    OF_A_SERVICE,
    OF_MINUTES,
    SMALL,
    assert_refused,
    begun,
    nursery,
    sweep,
    trace_of,
)

HEAVY = (
    "distributed", "httpx", "numba", "numpy", "pydantic", "scipy", "sqlalchemy", "xarray", "yaml", "zarr"
)  # fmt: skip


def test_help_is_quick_and_light():
    code = (
        "import sys\nsys.argv = ['sweep', '--help']\nfrom sweep_service.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert (found.returncode, found.stderr.strip()) == (0, "")
    assert all(name in found.stdout for name in (*COMMANDS, *OF_A_SERVICE, *OF_MINUTES))
    assert "import" not in found.stdout  # it is for users
    assert "Exit codes" in found.stdout


def test_every_command_is_tested():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert names == {*COMMANDS, *OF_A_SERVICE, *OF_MINUTES}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers(tmp_path, filled, name, as_json):
    cwd, known = filled
    subprocess.run(["cp", "-r", cwd / "sweep-data", tmp_path / "sweep-data"], check=True)
    argv = [known if word == "ID" else word for word in COMMANDS[name]]
    answer = sweep(tmp_path, *argv, *(["--json"] if as_json else []), text=INPUT.get(name, ""))
    assert answer.code == DONE, answer.err
    assert "Traceback" not in answer.err
    assert "Warning" not in answer.err
    assert answer.out.strip()
    if as_json:
        assert answer.json
        assert answer.err == ""
        assert len(answer.out.splitlines()) == 1


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "no ledger"])
def test_looking_for_a_sweep_makes_nothing(tmp_path, there):
    if there:
        (tmp_path / "sweep-data").mkdir()
    assert sweep(tmp_path, "list", "--json").json == []
    assert sweep(tmp_path, "list").out == "no sweeps yet\n"
    for name in ("show", "export", "plot", "rerun", "cancel", "rm", "retry", "extend", "pause", "resume"):
        assert_refused(sweep(tmp_path, *COMMANDS[name], text=INPUT.get(name, "")), "no sweeps")
    assert trace_of(tmp_path) == ["sweep-data"] * there
    assert not there or list((tmp_path / "sweep-data").iterdir()) == []


def test_the_folder_may_be_named_by_the_environment(tmp_path):
    assert sweep(tmp_path, "run", "-", text=SMALL, env={"SWEEP_DATA": "elsewhere"}).code == DONE
    assert trace_of(tmp_path) == ["elsewhere"]
    assert len(sweep(tmp_path, "list", "--json", "--data", "elsewhere").json) == 1


def test_the_page_names_commands_and_options_that_exist():
    page = (Path(HOME) / "docs" / "sweeps.md").read_text("utf-8")
    commands = typer.main.get_command(app).commands
    named = re.findall(r"(?:^|`)sweep ([a-z]+)", page, re.MULTILINE)
    assert set(named) <= set(commands)
    assert [name for name in commands if name not in named and f"`{name}`" not in page] == []
    options = {word for command in commands.values() for option in command.params
               for word in (*option.opts, *option.secondary_opts)}  # fmt: skip
    assert [word for word in re.findall(r"(?<=[ `])--[a-z-]+", page) if word not in options] == []


def test_a_wrong_command_line_is_usage(tmp_path):
    for argv in (["frobnicate"], ["run"], ["run", "-", "--bogus"], ["show"]):
        answer = sweep(tmp_path, *argv)
        assert (answer.code, answer.out) == (REFUSED, "")
        assert "Traceback" not in answer.err
    assert trace_of(tmp_path) == []


def test_a_second_process_is_told_that_the_folder_is_in_use(tmp_path):
    child = nursery().start(tmp_path, "run", "-", "--json", text=LONG)
    try:
        begun(tmp_path)
        assert_refused(sweep(tmp_path, "run", "-", text=SMALL), f"in use by process {child.pid}")
        assert_refused(sweep(tmp_path, "cancel", "2"), "in use")
        (one,) = sweep(tmp_path, "list", "--json").json  # readers are not kept out
        assert sweep(tmp_path, "show", one["id"], "--json").json["state"] in ("queued", "running")
        assert sweep(tmp_path, "export", one["id"], "out.csv").code == DONE
    finally:
        child.kill()
        child.wait()
    assert (
        sweep(tmp_path, "run", "-", text=SMALL, before="import sweep_service.execution.conductor").code
        == DONE
    )


def test_a_data_folder_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert_refused(sweep(tmp_path, "run", "-", "--data", "file", text=SMALL), "file")
    assert_refused(sweep(tmp_path, "run", "-", "--data", "s3://Bucket/sweeps", text=SMALL), "s3")
    assert_refused(sweep(tmp_path, "run", "-", "--data", "gs://bucket/sweeps", text=SMALL), "gs")
    assert trace_of(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["show", ""], "{id}"),
        (["show", "--data", "sweep-data", "2"], "{id}"),
        (["show", "--data", "elsewhere", ""], ""),
        (["show", "--url", "http://127.0.0.1:9", ""], ""),  # which would take a while to ask
        (["run", "phase"], "phase-diagram"),
        (["can"], "cancel"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_shell_completes_ids_and_presets(filled, words, found):
    cwd, known = filled
    asked = {"COMP_WORDS": " ".join(["sweep", *words]), "COMP_CWORD": str(len(words))}
    answer = sweep(cwd, env={"_SWEEP_COMPLETE": "complete_bash", **asked})
    assert (answer.code, answer.out.strip()) == (DONE, found.format(id=known))
