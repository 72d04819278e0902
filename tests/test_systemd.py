"""The systemd unit is valid, ends the service as documented, and uses settings that exist."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweep_service.api.settings import Settings
from sweep_service.cli.app import app
from sweep_service.signals import END_TIMEOUT_SECONDS

UNIT = Path(__file__).resolve().parents[1] / "deploy" / "systemd" / "sweep.service"


def read_settings(section):
    """Return the values of each key of a section."""
    settings, current = {}, ""
    for line in UNIT.read_text("utf-8").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == section and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            settings.setdefault(key, []).append(value)
    return settings


SERVICE = read_settings("Service")


def test_service_is_given_time_to_end():
    assert SERVICE["KillMode"] == ["mixed"]  # SIGTERM to the service, SIGKILL to what is left
    assert int(SERVICE["TimeoutStopSec"][0]) > END_TIMEOUT_SECONDS
    assert "KillSignal" not in SERVICE


def test_kernels_can_be_compiled():
    assert "MemoryDenyWriteExecute" not in SERVICE


def test_environment_has_known_variables_and_folders_of_the_unit():
    variables = dict(value.split("=", 1) for value in SERVICE["Environment"])
    assert variables["SWEEP_DATA"] == f"/var/lib/{SERVICE['StateDirectory'][0]}"
    assert variables["XDG_CACHE_HOME"] == f"/var/cache/{SERVICE['CacheDirectory'][0]}"
    names = {name.removeprefix("SWEEP_").lower() for name in variables if name.startswith("SWEEP_")}
    assert names <= set(Settings.model_fields)


def test_command_has_known_options():
    _, command, *options = shlex.split(SERVICE["ExecStart"][0])
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    assert [option for option in options if option.startswith("--") and option not in shown] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path):
    unit, program = tmp_path / UNIT.name, SERVICE["ExecStart"][0].split()[0]
    unit.write_text(UNIT.read_text("utf-8").replace(program, sys.executable))
    verdict = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert (verdict.returncode, verdict.stderr) == (0, "")
