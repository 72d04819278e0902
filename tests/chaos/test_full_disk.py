"""A disk that fills up: the sweep waits, says so, and goes on when there is room."""

import signal
import subprocess
import sys
import time as clock
from contextlib import suppress

import pytest
import xarray as xr

from sweep_service.cli.answers import DONE, INTERRUPTED, REFUSED
from tests.chaos.test_crashes import SPEC, assert_tidy, dataset, undisturbed
from tests.cli.commands import nursery, sweep, until

# From the third job on there is not a byte left; then it is as if the check for room had not seen it.
FILL = """
import os
import sweep_service.execution.task as tasks
import sweep_service.planning.bundles as bundling
import sweep_service.execution.conductor as conducting
bundling.AIM = 0.0
conducting.LEAST_ROOM = {least}
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
"""
NO_ROOM = {"no room to begin": (4 << 20, 65536), "no room to write": (0, 512)}


@pytest.fixture
def disk(tmp_path):
    """8 MB of memory, as a disk."""
    if not sys.platform.startswith("linux"):
        pytest.skip("tmpfs is of Linux")
    there = tmp_path / "disk"
    there.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", there], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    yield there
    subprocess.run(["umount", there], check=True)


def begun(disk, kind, *words):
    """A run beside the disk that fills it: what it says goes elsewhere."""
    least, block = NO_ROOM[kind]
    before = FILL.format(least=least, block=block, filler=str(disk / "filler"))
    child = nursery().start(
        disk.parent, "run", "-", "--serial", "--data", disk / "data", *words, text=SPEC, before=before
    )
    until((disk / "filler").exists)
    clock.sleep(1.0)
    return child


@pytest.mark.parametrize("kind", NO_ROOM)
def test_a_sweep_waits_for_room_and_goes_on(disk, kind):
    child = begun(disk, kind, "--json")
    (waiting,) = sweep(disk.parent, "list", "--data", disk / "data", "--json").json
    (disk / "filler").unlink()
    answer = child.wait()
    assert waiting["state"] == "running"
    assert answer.code == DONE, answer.err
    assert answer.json["reason"] == ""
    xr.testing.assert_equal(dataset(disk.parent, answer), undisturbed(False, False)[1])
    assert_tidy(disk / "data", 1)


def test_a_waiting_sweep_says_what_it_waits_for(disk):
    """Also where nobody watches a bar: in a log."""
    child = begun(disk, "no room to begin")
    try:
        until(lambda: "waiting for room" in child.text("err"))
    finally:
        (disk / "filler").unlink()
        answer = child.wait()
    assert answer.code == DONE


def test_a_waiting_sweep_can_be_interrupted(disk):
    child = begun(disk, "no room to begin", "--json")
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED
    (disk / "filler").unlink()
    answer = sweep(disk.parent, "run", "-", "--serial", "--data", disk / "data", "--json", text=SPEC)
    assert answer.code == DONE, answer.err
    xr.testing.assert_equal(dataset(disk.parent, answer), undisturbed(False, False)[1])


def test_a_full_disk_refuses_a_new_sweep_in_one_line(disk):
    words = ["run", "-", "--serial", "--data", disk / "data"]
    assert sweep(disk.parent, *words, text=SPEC).code == DONE
    with open(disk / "filler", "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    answer = sweep(disk.parent, *words, text={**SPEC, "seeds": 3})
    assert answer.code == REFUSED, answer
    assert len(answer.err.splitlines()) == 1
    (disk / "filler").unlink()
    assert_tidy(disk / "data", 1)
