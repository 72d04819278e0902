"""The data folder: locking, removal, and the files of a sweep."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sweep_service.errors import InUse, NotFound
from sweep_service.planning.costs import Calibration
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import KEY_DTYPE
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder

SPEC = SweepSpec.parse(
    {
        "axes": {"d": [5, 6], "p": 2, "gamma": {"log": [0.1, 1.0, 3]}, "regime": ["classical"]},
        "fixed": {"k": 1},
        "time": {"max": 1.0, "samples": 3},
        "observables": ["risk"],
    }
)


@pytest.fixture
def folder(tmp_path):
    return DataFolder(tmp_path / "data")


def filled(folder, name):
    """Write every kind of file of a sweep."""
    folder.objects.prepare()
    folder.objects.put(f"{name}.json", SPEC.model_dump_json().encode())
    plan = SweepPlan(Grid.of(SPEC))
    folder.put_keys(name, plan.keys)
    folder.objects.put(f"{name}.parts/0a.npz", b"")
    folder.objects.put(f"{name}.parts/0a.0.checkpoint", b"")
    folder.objects.put(f"{name}.failures/sgd-0.json", b"")
    return folder.create_dataset(name, plan, {})


def list_files(folder):
    return sorted(path.relative_to(folder.root).as_posix() for path in folder.root.rglob("*"))


def test_second_lock_is_refused_and_names_its_holder(folder):
    with folder.lock():
        with pytest.raises(InUse, match=str(os.getpid())), DataFolder(folder.root).lock():
            pass
        with pytest.raises(InUse), folder.lock():
            pass
    with folder.lock():
        pass


def test_error_releases_the_lock(folder):
    with pytest.raises(RuntimeError), folder.lock():
        raise RuntimeError("here")
    with folder.lock():
        pass


HOLDER = """
import subprocess, sys, time
from sweep_service.store.folder import DataFolder
with DataFolder(sys.argv[1]).lock():
    child = subprocess.Popen(["sleep", "60"], close_fds=False)  # must not inherit the lock
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_lock_excludes_another_process_until_it_is_killed(folder):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, folder.root], stdout=subprocess.PIPE, text=True)
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(InUse, match=f"process {holder.pid}"), folder.lock():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        began = time.monotonic()
        with folder.lock():
            assert time.monotonic() - began < 1.0
        assert (folder.root / "lock").read_text("utf-8") == str(os.getpid())
    finally:
        holder.kill()
        holder.stdout.close()
        os.kill(child, signal.SIGKILL)


def test_readers_need_no_lock(folder):
    filled(folder, "s")
    with folder.lock():
        other = DataFolder(folder.root)
        assert other.spec("s") == SPEC
        assert other.dataset("s").status("sgd").tolist() == [0] * 6


def test_removed_sweep_leaves_no_files(folder):
    filled(folder, "s2")
    before = list_files(folder)
    filled(folder, "s")
    assert list_files(folder) != before
    folder.mark_incomplete("s")
    folder.remove("s")
    assert list_files(folder) == before
    folder.remove("s")
    folder.remove("never-there")
    assert list_files(folder) == before
    with pytest.raises(NotFound):
        folder.spec("s")


def test_interrupted_removal_can_be_repeated(folder, monkeypatch):
    filled(folder, "s")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # dies before anything is removed
        folder.remove("s")
    filled(folder, "s")
    folder.remove("s")
    folder.objects.remove_partial_files()
    assert list_files(folder) == ["sweeps"]


def test_interrupted_removal_is_not_listed_as_a_sweep(folder, monkeypatch):
    filled(folder, "s")
    folder.mark_incomplete("s")

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", dies)
        folder.remove("s")
    assert not folder.dataset_path("s").exists()
    assert not folder.is_complete("s")  # otherwise a rebuild would adopt it without its dataset


def test_partial_files_are_removed_and_others_stay(folder):
    filled(folder, "s")
    before = list_files(folder)
    folder.objects._write_partial("s.parts/0b.npz", b"half")
    chunk = next(folder.dataset_path("s").rglob("zarr.json"))
    chunk.with_name("c.0123.partial").write_bytes(b"half")
    for name in ("t.zarr.partial", "u.zarr.removed.partial"):
        shutil.copytree(folder.dataset_path("s"), folder.objects.root / name)
    folder.objects.remove_partial_files()
    assert list_files(folder) == before


def test_spec_keys_and_layout_are_preserved(folder):
    filled(folder, "s")
    plan = SweepPlan(Grid.of(SPEC))
    assert folder.spec("s") == SPEC
    assert folder.plan("s").grid.key == plan.grid.key
    for kind, keys in plan.keys.items():
        assert folder.keys("s")[kind].dtype == KEY_DTYPE
        np.testing.assert_array_equal(folder.keys("s")[kind], keys)
    assert folder.dataset("s").plan is folder.plan("s")


def test_keys_of_one_kind_are_preserved(folder):
    spec = SweepSpec.parse({**SPEC.model_dump(mode="json"), "simulate": False})
    keys = SweepPlan(Grid.of(spec)).keys
    folder.objects.prepare()
    folder.put_keys("s", keys)
    stored = folder.keys("s")
    assert len(stored["sgd"]) == 0
    np.testing.assert_array_equal(stored["ode"], keys["ode"])


def test_long_list_of_points_is_preserved(folder):
    points = [{"d": 10 + at, "p": 4, "gamma": 0.01 + at * 1e-5} for at in range(30_000)]
    spec = SweepSpec.parse({"points": points, "fixed": {"k": 2}, "time": {"max": 1.0}})
    folder.objects.prepare()
    folder.objects.put("s.json", spec.model_dump_json().encode())
    assert folder.spec("s") == spec


def test_unknown_sweep_is_not_found(folder):
    folder.objects.prepare()
    for call in (folder.spec, folder.plan, folder.dataset, folder.keys):
        with pytest.raises(NotFound, match="nowhere"):
            call("nowhere")
    assert folder.is_complete("nowhere")  # only a marker file says otherwise


def test_calibration_is_preserved_and_a_damaged_one_ignored(folder):
    assert folder.calibration() == Calibration()
    folder.put_calibration(Calibration({"sgd/S1": 1.5}))
    assert folder.calibration() == Calibration({"sgd/S1": 1.5})
    folder.put_calibration(Calibration({"sgd/S1": 2.0}))
    assert folder.calibration()("sgd/S1") == 2.0
    (folder.root / "calibration.json").write_text("{half", "utf-8")
    assert folder.calibration() == Calibration()
    assert [path.name for path in folder.root.iterdir()] == ["calibration.json"]


def test_free_bytes_are_positive(folder):
    folder.root.mkdir()
    assert folder.free_bytes() == pytest.approx(shutil.disk_usage(folder.root).free, rel=0.2)
