"""The local backend: conformance, and tests specific to files."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import settings

from sweep_service.errors import InvalidInput, NotFound
from sweep_service.store import files
from sweep_service.store import local as module
from sweep_service.store.local import MAX_PARTIAL_AGE_SECONDS, LocalObjects
from tests.store.conformance import StoreConformance, StoreMachine


class TestLocalObjects(StoreConformance):
    @pytest.fixture
    def objects(self, tmp_path):
        store = LocalObjects(tmp_path / "new" / "store")
        store.prepare()
        return store

    def opening(self, objects):
        imported = "from sweep_service.store.local import LocalObjects"
        return f"{imported}\nobjects = LocalObjects({str(objects.root)!r})"


class LocalMachine(StoreMachine):
    def start(self):
        self.root = Path(tempfile.mkdtemp())
        return LocalObjects(self.root)

    def teardown(self):
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    def crash(self, objects, name, content):
        objects._write_partial(name, content)

    def recover(self, objects):
        objects.remove_partial_files()
        assert not list(self.root.rglob("*.partial"))


LocalMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestLocalStates = LocalMachine.TestCase


def test_partial_files_are_not_listed_and_are_removed(tmp_path):
    objects = LocalObjects(tmp_path)
    objects.put("a", b"1")
    objects.put("folder/b", b"2")
    for name in ("a", "folder/b", "folder/new"):
        objects._write_partial(name, b"never finished")
    assert len(list(tmp_path.rglob("*.partial"))) == 3
    assert list(objects.list()) == ["a", "folder/b"]
    assert objects.remove_partial_files() == 3
    assert objects.remove_partial_files() == 0
    assert not list(tmp_path.rglob("*.partial"))
    assert objects.get("a") == b"1"
    assert objects.get("folder/b") == b"2"


def test_partial_file_of_a_killed_writer_is_removed(tmp_path):
    code = f"""
import os, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from sweep_service.store.local import LocalObjects
LocalObjects({str(tmp_path)!r}).put("a", b"new")
"""
    objects = LocalObjects(tmp_path)
    objects.put("a", b"old")
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert objects.get("a") == b"old"
    assert list(objects.list()) == ["a"]
    assert objects.remove_partial_files() == 1


def left_by(folder, process, host=module._HOST):
    """Make a partial file as left by a writer of another process or machine."""
    _, fresh = LocalObjects(folder)._write_partial("a", b"half")
    ours = f".{module._HOST}-{os.getpid()}-"
    assert ours in fresh.name
    return fresh.rename(fresh.with_name(fresh.name.replace(ours, f".{host}-{process}-")))


@pytest.fixture
def sleeper():
    """A process that lives until its input ends."""
    code = "import sys; sys.stdin.read()"
    living = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    yield living
    living.stdin.close()
    living.wait()


def test_partial_files_of_living_writers_are_kept(tmp_path, sleeper):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    alive, dead, ours = (left_by(tmp_path, process) for process in (sleeper.pid, ended.pid, os.getpid()))
    elsewhere, abandoned = (left_by(tmp_path, ended.pid, host="0badcafe") for _ in range(2))
    for path, age in (
        (elsewhere, MAX_PARTIAL_AGE_SECONDS - 600.0),
        (abandoned, MAX_PARTIAL_AGE_SECONDS + 600.0),
        (alive, 9 * MAX_PARTIAL_AGE_SECONDS),
    ):
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))
    nameless = tmp_path / "a.partial"
    nameless.write_bytes(b"")
    assert LocalObjects(tmp_path).remove_partial_files() == 4
    assert sorted(tmp_path.iterdir()) == sorted([alive, elsewhere])
    assert not any(path.exists() for path in (dead, ours, abandoned, nameless))
    sleeper.stdin.close()
    sleeper.wait()
    assert LocalObjects(tmp_path).remove_partial_files() == 1
    assert list(tmp_path.iterdir()) == [elsewhere]


def test_incomplete_datasets_are_removed(tmp_path):
    objects = LocalObjects(tmp_path)
    (tmp_path / "half.zarr.partial" / "c").mkdir(parents=True)
    objects._write_partial("a", b"")
    assert objects.remove_partial_files() == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["put", "create"])
def test_content_is_synced_before_its_name(tmp_path, monkeypatch, call):
    objects, log = LocalObjects(tmp_path), []
    objects.put("folder/other", b"")
    fsync = os.fsync

    def synced(handle):
        log.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        fsync(handle)

    for name in ("replace", "link"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *paths, real=real: (log.append("name"), real(*paths)))
    monkeypatch.setattr(os, "fsync", synced)
    getattr(objects, call)("folder/a", b"content")
    assert log == ["content", "name", "folder"]


def test_new_folder_is_synced(tmp_path, monkeypatch):
    objects, synced = LocalObjects(tmp_path), []
    for target in (files, module):
        monkeypatch.setattr(target, "sync", synced.append)
    objects.put("new/deep/a", b"")
    assert {Path(path) for path in synced} >= {tmp_path, tmp_path / "new", tmp_path / "new" / "deep"}


def test_removals_are_synced(tmp_path, monkeypatch):
    """Otherwise a power failure could bring back a removed sweep, or parts of an earlier attempt."""
    objects, synced = LocalObjects(tmp_path), []
    for name in ("a", "folder/b", "folder/c", "s.parts/d"):
        objects.put(name, b"")
    monkeypatch.setattr(module, "sync", synced.append)
    objects.delete("folder/b", "folder/c", "missing/d")
    assert synced == [tmp_path / "folder"]  # once
    objects.clear("s.parts")
    assert synced[1:] == [tmp_path]
    assert list(objects.list()) == ["a"]


def test_folder_of_a_dead_process_is_synced(tmp_path, monkeypatch):
    """It may have created the folder, and died before the sync."""
    synced = []
    (tmp_path / "data" / "sweeps").mkdir(parents=True)
    monkeypatch.setattr(module, "sync", synced.append)
    LocalObjects(tmp_path / "data" / "sweeps").prepare()
    assert {tmp_path / "data", tmp_path / "data" / "sweeps"} <= set(synced)


def make_array(tmp_path):
    chunks = LocalObjects(tmp_path).chunks("s.zarr")
    array = zarr.create_array(chunks, shape=4, chunks=2, dtype=float, fill_value=np.nan)
    array[:] = 1.0
    chunks.sync()
    return chunks, array


def test_changes_of_a_batch_become_visible_at_its_end(tmp_path):
    chunks, array = make_array(tmp_path)
    with chunks.batch():
        array[:2] = 2.0
        assert list(array[:]) == [1.0] * 4
    assert list(array[:]) == [2.0, 2.0, 1.0, 1.0]
    with chunks.batch():  # what is deleted in a batch is not written at its end
        array[:2] = 3.0
        array[:2] = np.nan
    assert np.isnan(array[0])
    assert not list(tmp_path.rglob("*.partial"))


def test_failed_batch_leaves_the_old_chunks_and_no_partial_file(tmp_path, monkeypatch):
    chunks, array = make_array(tmp_path)

    def full(path):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no room"), chunks.batch():
        patch.setattr(files, "sync", full)
        array[:] = 2.0
    assert list(array[:]) == [1.0] * 4
    assert not list(tmp_path.rglob("*.partial"))
    array[:] = 3.0  # and it can be written again, as before
    chunks.sync()
    assert list(array[:]) == [3.0] * 4


@pytest.mark.parametrize("call", ["put", "create"])
def test_full_disk_leaves_the_old_content_and_no_partial_file(tmp_path, monkeypatch, call):
    objects = LocalObjects(tmp_path)
    objects.put("a", b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no room"):
        getattr(objects, call)("a", b"new")
    assert objects.get("a") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_listing_a_folder_scans_no_other(tmp_path, monkeypatch):
    objects, seen = LocalObjects(tmp_path), []
    objects.put("s.parts/a.npz", b"")
    objects.put("s.zarr/c/0/0", b"")  # a dataset has thousands of chunks, and parts are listed every second
    for name in ("scandir", "listdir"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda path=".", real=real: (seen.append(str(path)), real(path))[1])
    assert list(objects.list("s.parts/")) == ["s.parts/a.npz"]
    assert not [path for path in seen if ".zarr" in path]


@pytest.mark.parametrize("name", ["folder", "folder/deep", "folder/a/below", "folder/a/far/below"])
def test_name_cannot_be_both_object_and_folder(tmp_path, name):
    objects = LocalObjects(tmp_path)
    for existing in ("folder/a", "folder/deep/b"):
        objects.put(existing, existing.encode())
    before = sorted(tmp_path.rglob("*"))
    for call in (objects.put, objects.create):
        with pytest.raises(InvalidInput, match="is a folder, or lies below an object") as info:
            call(name, b"new")
        assert (info.value.field, info.value.value) == ("name", name)
    with pytest.raises(NotFound, match=name):
        objects.get(name)
    objects.delete(name)
    assert sorted(tmp_path.rglob("*")) == before
    assert objects.get("folder/a") == b"folder/a"


def test_object_is_read_if_its_folder_comes_back(tmp_path, monkeypatch):
    """Otherwise a worker would conclude that the object does not exist, and stop."""
    objects = LocalObjects(tmp_path / "here")
    objects.prepare()
    objects.put("a", b"content")
    (tmp_path / "here").rename(tmp_path / "away")
    check_root = objects._check_root

    def back():
        if (tmp_path / "away").exists():
            (tmp_path / "away").rename(tmp_path / "here")
        check_root()

    monkeypatch.setattr(objects, "_check_root", back)
    assert objects.get("a") == b"content"
    with pytest.raises(NotFound):
        objects.get("b")
