"""The checks of the doctor: a healthy machine passes, and each fault is found with advice."""

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
from sweep_service.doctor.certificates import AUTHORITY, CERTIFICATE, dask_settings, write_certificates
from sweep_service.doctor.checks import certificates, machine, store
from sweep_service.doctor.diagnosis import worst_verdict
from sweep_service.store.folder import LEDGER, DataFolder
from sweep_service.store.local import LocalObjects


@pytest.fixture
def folder(tmp_path):
    folder = DataFolder(tmp_path / "data")
    with folder.lock():  # creates it
        pass
    return folder


def find_check(results, name):
    (check,) = [check for check in results if check.name == name]
    return check


def test_all_checks_pass_on_this_machine(tmp_path):
    folder = DataFolder(tmp_path / "new")
    results = checks.run_checks(folder)
    assert {check.verdict for check in results} <= {"ok", "warning"}
    for name in ("in use", "store", "folder", "locks", "disk", "temporary", "kernels", "kernel cache"):
        assert find_check(results, name)
    assert all(bool(check.advice) is (check.verdict != "ok") for check in results)
    assert all("\n" not in check.found + check.advice for check in results)
    assert list(folder.objects.list("doctor")) == []  # the check cleans up
    assert not folder.has_ledger()


def test_unexpected_error_in_a_check_is_reported(folder):
    def check_broken_thing(_):
        yield checks.Check("first", "ok", "well")
        raise RuntimeError("odd")

    (check,) = checks.run_check(check_broken_thing, folder)
    assert (check.name, check.verdict, check.found) == ("broken thing", "wrong", "RuntimeError: odd")


def test_worst_verdict():
    results = [checks.Check("x", verdict, "") for verdict in ("ok", "wrong", "warning")]
    assert [worst_verdict(results[:n]) for n in range(4)] == ["ok", "ok", "wrong", "wrong"]
    assert worst_verdict(results[2:]) == "warning"


# ---- the store


def test_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("mine")
    results = checks.run_checks(DataFolder(tmp_path / "file" / "data"))
    assert find_check(results, "store").verdict == "wrong"
    assert "SWEEP_DATA" in find_check(results, "store").advice
    assert worst_verdict(results) == "wrong"
    assert not [check for check in results if check.name == "in use"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_read_only_folder(folder):
    (folder.root / "sweeps").chmod(0o500)
    (check,) = store.check_store(folder)
    assert check.verdict == "wrong"
    assert f"chown -R {os.getuid()}" in check.advice


class FaultyObjects(LocalObjects):
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
        created = super().create(name, content)
        return created or self.fault == "create the same object"

    def list(self, prefix=""):
        return iter(()) if self.fault == "does not list" else super().list(prefix)

    def delete(self, name):
        if self.fault != "keeps deleted objects":
            super().delete(name)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("other bytes", "data is not safe there"),
        ("create the same object", "data is not safe there"),
        ("does not list", "data is not safe there"),
        ("keeps deleted objects", "data is not safe there"),
        ("forbidden", "chown"),
    ],
)
def test_faulty_store(folder, fault, advice):
    folder.objects = FaultyObjects(folder.root / "sweeps", fault)
    (check,) = store.check_store(folder)
    assert check.verdict == "wrong"
    assert (fault if fault != "forbidden" else "Permission denied") in check.found
    assert advice in check.advice


def test_slow_store(folder):
    (check,) = store.check_store(folder, slow_seconds=0.0)
    assert (check.verdict, check.advice.split(":")[0]) == ("warning", "sweeps wait for the store")


MOUNTS = """\
22 1 0:20 / / rw - ext4 /dev/vda rw
30 22 0:30 / {root}/a\\040mount rw - nfs4 server:/x rw
31 30 0:31 / {root}/a\\040mount/inside rw - tmpfs tmpfs rw
"""


def test_file_system_type_is_that_of_the_innermost_mount(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(root=tmp_path))
    for path, expected in {"": "ext4", "a mount/x": "nfs4", "a mount/inside": "tmpfs", "a": "ext4"}.items():
        assert store.file_system_type(tmp_path / path, str(mounts)) == expected
    assert store.file_system_type(tmp_path, str(tmp_path / "missing")) == ""


@pytest.mark.parametrize(
    ("file_system", "names"),
    [("nfs4", ["folder", "ledger place"]), ("tmpfs", ["folder"]), ("ext4", []), ("", [])],
)
def test_unreliable_file_systems_are_warned_of(folder, monkeypatch, file_system, names):
    monkeypatch.setattr(store, "file_system_type", lambda _: file_system)
    results = list(store.check_file_systems(folder))
    assert [check.name for check in results if check.verdict == "warning"] == names
    assert find_check(results, "locks").verdict == "ok"


def test_locks_that_do_not_exclude_each_other(folder, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert find_check(store.check_file_systems(folder), "locks").verdict == "wrong"


def test_folder_in_use(folder):
    with folder.lock():
        (check,) = store.check_lock_holder(folder)
        assert (check.verdict, f"process {os.getpid()}" in check.found) == ("ok", True)
    with folder.lock("http://127.0.0.1:9"):
        (check,) = store.check_lock_holder(folder)
    assert (check.name, check.verdict) == ("service", "warning")
    assert "does not answer" in check.found


def test_damaged_too_new_or_lost_ledger(folder):
    with closing(folder.ledger()) as ledger, ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE about SET value = '99'")
    (check,) = store.check_ledger(folder)
    assert (check.verdict, "schema 99" in check.found) == ("wrong", True)
    (folder.state / LEDGER).write_bytes(b"no ledger at all" * 100)
    (check,) = store.check_ledger(folder)
    assert (check.verdict, "--rebuild" in check.found) == ("wrong", True)
    for path in folder.state.glob(f"{LEDGER}*"):
        path.unlink()
    assert list(store.check_ledger(folder)) == []
    folder.objects.put("20260101-000000-00000000.json", b"{}")
    (check,) = store.check_ledger(folder)
    assert (check.verdict, "--rebuild" in check.advice) == ("warning", True)


# ---- the machine


@pytest.mark.parametrize(("free", "verdict"), [(1 << 40, "ok"), (1 << 29, "warning"), (1 << 20, "wrong")])
def test_free_disk_space(folder, monkeypatch, free, verdict):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert {check.verdict for check in machine.check_disks(folder)} == {verdict}


def test_free_inodes(folder, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40))
    for total, free, verdict in ((1000, 20, "warning"), (0, 0, "ok")):  # btrfs reports 0 inodes
        result = SimpleNamespace(f_files=total, f_favail=free)
        monkeypatch.setattr(os, "statvfs", lambda _, result=result: result)
        assert {check.verdict for check in machine.check_disks(folder)} == {verdict}


def test_kernels_with_other_numbers(folder):
    point, risk = machine.GOLDEN_RISKS["S1"]
    for expected, verdict, word in (
        (risk * 1.01, "wrong", "S1 gives"),
        (risk * (1 + 1e-12), "ok", "rounding"),
    ):
        check = find_check(machine.check_kernels(folder, {"S1": (point, expected)}), "kernels")
        assert (check.verdict, word in check.found) == (verdict, True)


def test_kernel_cache_that_is_not_writable(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(machine, "cache_folder", lambda: str(tmp_path / "file" / "cache"))
    check = find_check(machine.check_kernels(folder), "kernel cache")
    assert (check.verdict, "SWEEP_KERNEL_CACHE" in check.advice) == ("warning", True)


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
    (check,) = machine.check_cores(folder)
    assert check.verdict == ("warning" if quota else "ok")
    assert quota is None or "SWEEP_WORKERS=2" in check.advice


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
        assert [check.verdict for check in machine.check_memory(folder)] == [verdict]


def test_open_files(folder, monkeypatch):
    for limit, verdict in ((256, "warning"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert [check.verdict for check in machine.check_open_files(folder)] == [verdict]


# ---- certificates


def test_certificates_of_the_dask_configuration(folder, tmp_path):
    assert list(certificates.check_certificates(folder)) == []  # none are configured
    write_certificates(tmp_path / "ours")
    with dask.config.set(dask_settings(tmp_path / "ours")):
        results = list(certificates.check_certificates(folder))
        assert [check.verdict for check in results] == ["ok", "ok"]
        (tmp_path / "ours" / CERTIFICATE).chmod(0o644)
        assert [check.advice for check in certificates.check_certificates(folder)] == [
            "",
            f"chmod 600 {tmp_path / 'ours' / CERTIFICATE}",
        ]
        (tmp_path / "ours" / AUTHORITY).unlink()
        assert {check.verdict for check in certificates.check_certificates(folder)} == {"wrong"}
        with dask.config.set({"distributed.comm.require-encryption": False}):
            assert "warning" in {check.verdict for check in certificates.check_certificates(folder)}


def test_expired_and_foreign_certificates(tmp_path):
    for name in ("ours", "others"):
        write_certificates(tmp_path / name, days=100)
    certificate = tmp_path / "ours" / CERTIFICATE
    now = datetime.now(UTC)
    for days, verdict in ((0, "ok"), (80, "warning"), (101, "wrong"), (-9, "wrong")):
        time = now + timedelta(days=days)
        check = certificates.check_certificate(certificate, tmp_path / "ours" / AUTHORITY, time)
        assert check.verdict == verdict
    check = certificates.check_certificate(certificate, tmp_path / "others" / AUTHORITY, now)
    assert (check.verdict, "was not signed by" in check.found) == ("wrong", True)
