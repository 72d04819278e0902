"""A disk that fills up: the sweep waits, shows the reason, and continues when there is space."""

import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, INTERRUPTED, REFUSED
from tests.chaos.crashes import SPEC, assert_tidy, dataset, undisturbed
from tests.cli.commands import fork_server, run_command, until

# The disk is full from the third job on. With `min_free_bytes` 0, the check before a tick does not see it.
# The file `waiting` shows that the conductor has noticed.
FILL = """
import os
import sweep_service.execution.task as tasks
import sweep_service.execution.conductor as conducting
from sweep_service.planning.bundles import BundleLimits
limits = BundleLimits(target_seconds=0.0)
conducting.DEFAULT_SETTINGS = conducting.ConductorSettings(limits, min_free_bytes={min_free_bytes})
whole, seen = tasks.compute, []
def filling(*given):
    seen.append(given)
    if len(seen) == 3:
        with open({filler!r}, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes({block}))
            except OSError:
                pass
    return whole(*given)
tasks.compute = filling
describe = conducting.Conductor._describe_wait
def noticed(*given):
    open({waiting!r}, "w").close()
    return describe(*given)
conducting.Conductor._describe_wait = noticed
"""
NO_ROOM = {"no room to begin": (4 << 20, 65536), "no room to write": (0, 512)}


@pytest.fixture
def disk(tmp_path):
    """A disk of 8 MB in memory."""
    if not sys.platform.startswith("linux"):
        pytest.skip("tmpfs is of Linux")
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mount_point], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    yield mount_point
    subprocess.run(["umount", mount_point], check=True)


def begun(disk, kind, *arguments):
    """Start a run that fills the disk, and wait until it waits for space; its output goes elsewhere."""
    least, block = NO_ROOM[kind]
    files = {"filler": str(disk / "filler"), "waiting": str(disk.parent / "waiting")}
    before = FILL.format(min_free_bytes=least, block=block, **files)
    child = fork_server().start(
        disk.parent, "run", "-", "--serial", "--data", disk / "data", *arguments, text=SPEC, before=before
    )
    until((disk.parent / "waiting").exists)
    return child


@pytest.mark.parametrize("kind", NO_ROOM)
def test_sweep_waits_for_disk_space_and_continues(disk, kind):
    child = begun(disk, kind, "--json")
    (waiting,) = run_command(disk.parent, "list", "--data", disk / "data", "--json").json
    (disk / "filler").unlink()
    answer = child.wait()
    assert waiting["state"] == "running"
    assert answer.code == DONE, answer.err
    assert answer.json["reason"] == ""
    xr.testing.assert_equal(dataset(disk.parent, answer), undisturbed(False, False)[1])
    assert_tidy(disk / "data", 1)


def test_waiting_sweep_shows_its_reason(disk):
    """Also in a log, without a progress bar."""
    child = begun(disk, "no room to begin")
    try:
        until(lambda: "waiting for room" in child.text("err"))
    finally:
        (disk / "filler").unlink()
        answer = child.wait()
    assert answer.code == DONE


def test_waiting_sweep_can_be_interrupted(disk):
    child = begun(disk, "no room to begin", "--json")
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED
    (disk / "filler").unlink()
    answer = run_command(disk.parent, "run", "-", "--serial", "--data", disk / "data", "--json", text=SPEC)
    assert answer.code == DONE, answer.err
    xr.testing.assert_equal(dataset(disk.parent, answer), undisturbed(False, False)[1])


def test_new_sweep_on_a_full_disk_is_refused_in_one_line(disk):
    command = ["run", "-", "--serial", "--data", disk / "data"]
    assert run_command(disk.parent, *command, text=SPEC).code == DONE
    with open(disk / "filler", "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    answer = run_command(disk.parent, *command, text={**SPEC, "seeds": 3})
    assert answer.code == REFUSED, answer
    assert len(answer.err.splitlines()) == 1
    (disk / "filler").unlink()
    assert_tidy(disk / "data", 1)
