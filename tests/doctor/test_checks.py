"""What the doctor looks at: nothing is wrong here; what is broken is seen, with what to do about it."""

import fcntl
import os
import resource
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dask
import pytest

from sweep_service.doctor import checks
from sweep_service.doctor.certificates import AUTHORITY, CERTIFICATE, make, settings
from sweep_service.doctor.checks import certificates, machine, store
from sweep_service.doctor.diagnosis import worst
from sweep_service.store.folder import LEDGER, DataFolder
from sweep_service.store.local import LocalObjects


@pytest.fixture
def folder(tmp_path):
    found = DataFolder(tmp_path / "data")
    with found.lock():  # which makes it
        pass
    return found


def the(found, name):
    """The one check of a name."""
    (check,) = [check for check in found if check.name == name]
    return check


def test_here_nothing_is_wrong(tmp_path):
    folder = DataFolder(tmp_path / "new")
    found = checks.local(folder)
    assert {check.verdict for check in found} <= {"ok", "warning"}
    for name in ("in use", "store", "folder", "locks", "disk", "temporary", "kernels", "kernel cache"):
        assert the(found, name)
    assert all(bool(check.advice) is (check.verdict != "ok") for check in found)
    assert all("\n" not in check.found + check.advice for check in found)
    assert list(folder.objects.list("doctor")) == []  # it cleans up
    assert not folder.has_ledger()


def test_what_a_check_did_not_expect_is_its_finding(folder):
    def broken_thing(_):
        yield checks.Check("first", "ok", "well")
        raise RuntimeError("odd")

    (found,) = checks.looked(broken_thing, folder)
    assert (found.name, found.verdict, found.found) == ("broken thing", "wrong", "RuntimeError: odd")


def test_the_worst_counts():
    found = [checks.Check("x", verdict, "") for verdict in ("ok", "wrong", "warning")]
    assert [worst(found[:n]) for n in range(4)] == ["ok", "ok", "wrong", "wrong"]
    assert worst(found[2:]) == "warning"


# ---- the store


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("mine")
    found = checks.local(DataFolder(tmp_path / "file" / "data"))
    assert the(found, "store").verdict == "wrong"
    assert "SWEEP_DATA" in the(found, "store").advice
    assert worst(found) == "wrong"
    assert not [check for check in found if check.name == "in use"]


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_only_be_read(folder):
    (folder.root / "sweeps").chmod(0o500)
    (found,) = store.store(folder)
    assert found.verdict == "wrong"
    assert f"chown -R {os.getuid()}" in found.advice


class Lying(LocalObjects):
    """A store with one fault."""

    def __init__(self, root, fault):
        super().__init__(root)
        self.fault = fault

    def put(self, name, content):
        if self.fault == "forbidden":
            raise PermissionError(13, "Permission denied")
        super().put(name, content)

    def get(self, name):
        return b"other" if self.fault == "other bytes" else super().get(name)

    def create(self, name, content):
        won = super().create(name, content)
        return won or self.fault == "create the same object"

    def list(self, prefix=""):
        return iter(()) if self.fault == "does not list" else super().list(prefix)

    def delete(self, name):
        if self.fault != "keeps what was deleted":
            super().delete(name)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("other bytes", "nothing is safe there"),
        ("create the same object", "nothing is safe there"),
        ("does not list", "nothing is safe there"),
        ("keeps what was deleted", "nothing is safe there"),
        ("forbidden", "chown"),
    ],
)
def test_a_store_that_lies(folder, fault, advice):
    folder.objects = Lying(folder.root / "sweeps", fault)
    (found,) = store.store(folder)
    assert found.verdict == "wrong"
    assert (fault if fault != "forbidden" else "Permission denied") in found.found
    assert advice in found.advice


def test_a_slow_store(folder, monkeypatch):
    monkeypatch.setattr(store, "SLOW", 0.0)
    (found,) = store.store(folder)
    assert (found.verdict, found.advice.split(":")[0]) == ("warning", "sweeps wait for it")


MOUNTS = """\
22 1 0:20 / / rw - ext4 /dev/vda rw
30 22 0:30 / {root}/a\\040place rw - nfs4 server:/x rw
31 30 0:31 / {root}/a\\040place/inside rw - tmpfs tmpfs rw
"""


def test_kinds_of_file_systems(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(root=tmp_path))
    for path, kind in {"": "ext4", "a place/x": "nfs4", "a place/inside": "tmpfs", "a": "ext4"}.items():
        assert store.kind_of(tmp_path / path, str(mounts)) == kind
    assert store.kind_of(tmp_path, str(tmp_path / "no proc here")) == ""


@pytest.mark.parametrize(
    ("kind", "names"),
    [("nfs4", ["folder", "ledger place"]), ("tmpfs", ["folder"]), ("ext4", []), ("", [])],
)
def test_file_systems_on_which_locks_and_names_may_lie(folder, monkeypatch, kind, names):
    monkeypatch.setattr(store, "kind_of", lambda _: kind)
    found = list(store.file_systems(folder))
    assert [check.name for check in found if check.verdict == "warning"] == names
    assert the(found, "locks").verdict == "ok"


def test_locks_that_do_not_lock(folder, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert the(store.file_systems(folder), "locks").verdict == "wrong"


def test_a_folder_in_use(folder):
    with folder.lock():
        (found,) = store.holder(folder)
        assert (found.verdict, f"process {os.getpid()}" in found.found) == ("ok", True)
    with folder.lock("http://127.0.0.1:9"):
        (found,) = store.holder(folder)
    assert (found.name, found.verdict) == ("service", "warning")
    assert "does not answer" in found.found


def test_a_ledger_that_is_damaged_too_new_or_lost(folder):
    with closing(folder.ledger()) as ledger, ledger.engine.begin() as now:
        now.exec_driver_sql("UPDATE about SET value = '99'")
    (found,) = store.ledger(folder)
    assert (found.verdict, "schema 99" in found.found) == ("wrong", True)
    (folder.state / LEDGER).write_bytes(b"no ledger at all" * 100)
    (found,) = store.ledger(folder)
    assert (found.verdict, "--rebuild" in found.found) == ("wrong", True)
    for path in folder.state.glob(f"{LEDGER}*"):
        path.unlink()
    assert list(store.ledger(folder)) == []
    folder.objects.put("20260101-000000-00000000.json", b"{}")
    (found,) = store.ledger(folder)
    assert (found.verdict, "--rebuild" in found.advice) == ("warning", True)


# ---- the machine


@pytest.mark.parametrize(("free", "verdict"), [(1 << 40, "ok"), (1 << 29, "warning"), (1 << 20, "wrong")])
def test_room(folder, monkeypatch, free, verdict):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert {check.verdict for check in machine.disks(folder)} == {verdict}


def test_room_for_files(folder, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40))
    for files, left, verdict in ((1000, 20, "warning"), (0, 0, "ok")):  # btrfs has no such number
        found = SimpleNamespace(f_files=files, f_favail=left)
        monkeypatch.setattr(os, "statvfs", lambda _, found=found: found)
        assert {check.verdict for check in machine.disks(folder)} == {verdict}


def test_kernels_with_other_numbers(folder, monkeypatch):
    point, wanted = machine.GOLDEN["S1"]
    for value, verdict, word in (
        (wanted * 1.01, "wrong", "S1 gives"),
        (wanted * (1 + 1e-12), "ok", "rounding"),
    ):
        monkeypatch.setattr(machine, "GOLDEN", {"S1": (point, value)})
        found = the(machine.kernels(folder), "kernels")
        assert (found.verdict, word in found.found) == (verdict, True)


def test_a_cache_of_kernels_that_cannot_be_written(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(machine, "cache_folder", lambda: str(tmp_path / "file" / "cache"))
    found = the(machine.kernels(folder), "kernel cache")
    assert (found.verdict, "SWEEP_KERNEL_CACHE" in found.advice) == ("warning", True)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_cores_of_a_container(folder, tmp_path, monkeypatch, files, quota):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine.cpu_quota(str(tmp_path)) == quota
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(machine, "cpu_quota", lambda: quota)
    (found,) = machine.cores(folder)
    assert found.verdict == ("warning" if quota else "ok")
    assert quota is None or "SWEEP_WORKERS=2" in found.advice


def test_memory(folder, tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert machine.free_memory(str(tmp_path / "meminfo"), str(tmp_path)) == 2048 << 10
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert machine.free_memory(str(tmp_path / "meminfo"), str(tmp_path)) == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.free_memory(str(tmp_path / "none"), str(tmp_path)) is None
    for free, verdict in ((10 << 20, "warning"), (1 << 50, "ok")):
        monkeypatch.setattr(machine, "free_memory", lambda free=free: free)
        assert [check.verdict for check in machine.memory(folder)] == [verdict]


def test_open_files(folder, monkeypatch):
    for limit, verdict in ((256, "warning"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert [check.verdict for check in machine.open_files(folder)] == [verdict]


# ---- certificates


def test_certificates(folder, tmp_path):
    assert list(certificates.certificates(folder)) == []  # where none are asked for
    make(tmp_path / "ours")
    with dask.config.set(settings(tmp_path / "ours")):
        found = list(certificates.certificates(folder))
        assert [check.verdict for check in found] == ["ok", "ok"]
        (tmp_path / "ours" / CERTIFICATE).chmod(0o644)
        assert [check.advice for check in certificates.certificates(folder)] == [
            "",
            f"chmod 600 {tmp_path / 'ours' / CERTIFICATE}",
        ]
        (tmp_path / "ours" / AUTHORITY).unlink()
        assert {check.verdict for check in certificates.certificates(folder)} == {"wrong"}
        with dask.config.set({"distributed.comm.require-encryption": False}):
            assert "warning" in {check.verdict for check in certificates.certificates(folder)}


def test_certificates_that_end_or_are_of_others(tmp_path):
    for name in ("ours", "others"):
        make(tmp_path / name, days=100)
    mine = tmp_path / "ours" / CERTIFICATE
    now = datetime.now(UTC)
    for days, verdict in ((0, "ok"), (80, "warning"), (101, "wrong"), (-9, "wrong")):
        found = certificates.certificate(mine, tmp_path / "ours" / AUTHORITY, now + timedelta(days=days))
        assert found.verdict == verdict
    found = certificates.certificate(mine, tmp_path / "others" / AUTHORITY, now)
    assert (found.verdict, "was not signed by" in found.found) == ("wrong", True)
