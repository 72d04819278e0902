"""Single flipped bits in every kind of stored file: each is an error or changes nothing."""

from contextlib import closing

import numpy as np
import pytest
import sqlalchemy as sa

import sweep_service as ss
from sweep_service.errors import SweepError
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.summary import read_failure
from sweep_service.execution.task import CrashMarker
from sweep_service.numerics.npz import read_arrays
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job
from sweep_service.planning.spec import SweepSpec
from sweep_service.runner import list_sweeps
from sweep_service.simulators import checkpoint
from sweep_service.store.folder import DataFolder
from sweep_service.store.parts import Part
from sweep_service.store.run_index.files import load_index
from tests.chaos.flips import flip_bit, kind_of_file, random_bit, read_values, stored_files

SPEC = {
    "axes": {"d": 5, "p": 3, "gamma": [0.1, 0.5], "regime": "classical"},
    "fixed": {"k": 2},
    "seeds": 2,
    "time": {"max": 1.0, "samples": 3},
}
# Texts and times of the ledger that nothing else can be compared with; they are not results.
UNCHECKED_FIELDS = ("name", "updated", "created", "reason", "extends", "key", "priority", "reused")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A completed sweep, and beside it a part, a checkpoint, a marker and a failure record."""
    folder = DataFolder(tmp_path_factory.mktemp("flips"))
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
        conductor.run(sweep.id)
        plan, jobs = folder.plan(sweep.id), [Job("sgd", 0, -1, (0, 1), (0,))]
        part = Part.failed(plan, jobs, "out of order")
        conductor.merger._save_failures(sweep.id, part)
        stem = f"{sweep.id}.parts/{Bundle(tuple(jobs)).key}"
        folder.objects.put(f"{stem}.npz", part.pack())
        CrashMarker(folder.objects, f"{stem}.crumb", {"sgd-0": 2}).record("sgd-1", "0123456789abcdef")
        state = {"W": np.random.default_rng(0).random((3, 5)), "step": np.array(7)}
        folder.objects.put(f"{stem}.0.checkpoint", checkpoint.pack("this chain", state))
    return folder, sweep.id


def read_file(folder, sweep_id, path):
    """All that readers of this file get from it, as comparable values."""
    name = path.relative_to(folder.objects.root).as_posix() if "sweeps" in path.parts else ""
    if f"{sweep_id}.zarr" in name:
        with ss.open(folder.dataset_path(sweep_id)) as dataset:
            return {**read_values(dataset), "attributes": dict(dataset.attrs)}
    if name.endswith(".npz"):
        part = Part.unpack(folder.objects.get(name), folder.plan(sweep_id))
        return {"failures": part.failures, **part.numbers, **part.values["sgd"]}
    if name.endswith(".checkpoint"):
        return checkpoint.unpack("this chain", folder.objects.get(name))
    if name.endswith(".parquet"):
        table = load_index(folder, sweep_id)
        return table.to_pandas().to_dict() if table is not None else detected()
    if name.endswith(".keys"):
        return folder.keys(sweep_id)
    if name.endswith(".crumb"):
        marker = CrashMarker(folder.objects, name)
        content = path.read_bytes()
        marker.begin()
        path.write_bytes(content)
        return {"deaths": marker.deaths, "last": marker.last} if marker.deaths else detected()
    if "failures" in name:
        return read_failure(folder, name)
    if name.endswith(".json"):
        return folder.spec(sweep_id).model_dump()
    fields = list_sweeps(folder)
    return {"sweeps": [{key: row[key] for key in row if key not in UNCHECKED_FIELDS} for row in fields]}


def detected():
    raise SweepError("a damaged marker or index is ignored")


def assert_detected_or_harmless(folder, sweep_id, path, bit, expected):
    content = path.read_bytes()
    flip_bit(path, bit)
    try:
        actual = read_file(folder, sweep_id, path)
    except SweepError:
        return True
    finally:
        path.write_bytes(content)
    np.testing.assert_equal(actual, expected, err_msg=f"{path.name}, bit {bit}")
    return False


def flip_files(stored, flips, seed):
    """Flip bits in files of each kind in turn, and return how many flips were detected, by kind."""
    folder, sweep_id = stored
    rng, files = np.random.default_rng(seed), {}
    for path in stored_files(folder.root, sweep_id):
        files.setdefault(kind_of_file(path), []).append(path)
    counts = dict.fromkeys(files, 0)
    expected = {}
    for number in range(flips):
        kind = sorted(files)[number % len(files)]
        path = files[kind][rng.integers(len(files[kind]))]
        if path not in expected:
            expected[path] = read_file(folder, sweep_id, path)
        counts[kind] += assert_detected_or_harmless(
            folder, sweep_id, path, random_bit(path, rng), expected[path]
        )
    return counts


def test_flips(stored):
    counts = flip_files(stored, 26, seed=0)
    assert set(counts) >= {
        ".json",
        ".keys",
        ".parquet",
        ".npz",
        ".checkpoint",
        ".crumb",
        "risk",
        "status",
        "label",
    }
    assert sum(counts.values()) > 13


@pytest.mark.slow
def test_many_flips(stored):
    counts = flip_files(stored, 1000, seed=1)
    assert min(counts[kind] for kind in counts if kind != "array metadata") > 20


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npz", "checkpoint"])
def test_every_flip_in_an_archive(stored, suffix):
    """NumPy itself does not notice a flip in the header of an array that makes it shorter."""
    folder, sweep_id = stored
    (path,) = folder.root.glob(f"sweeps/{sweep_id}.parts/*.{suffix}")
    content = path.read_bytes()
    expected = read_arrays(content)
    for bit in range(0, 8 * len(content), 1 if suffix == "checkpoint" else 7):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            actual = read_arrays(bytes(flipped))
        except Exception:  # detected
            continue
        np.testing.assert_equal(actual, expected, err_msg=f"bit {bit}")


@pytest.mark.slow
def test_flips_in_the_ledger(stored):
    """A damaged ledger is an error, is found by its check, or tells the same of states and counts."""
    folder, _ = stored
    path, rng, found_by_check = folder.root / "ledger.sqlite", np.random.default_rng(2), 0
    with closing(folder.ledger()) as ledger, ledger.engine.connect() as connection:
        connection.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)"))
    expected, content = read_file(folder, "", path), path.read_bytes()
    for _ in range(300):
        flip_bit(path, random_bit(path, rng))
        try:
            with closing(folder.ledger()) as ledger:
                problems = ledger.find_damage()
            found_by_check += bool(problems)
            assert problems or read_file(folder, "", path)["sweeps"][0]["state"] in ("completed", "failed")
            if not problems:
                assert_same_or_unchecked(read_file(folder, "", path), expected)
        except SweepError:
            found_by_check += 1
        finally:
            for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
                path.with_name(name).unlink(missing_ok=True)
            path.write_bytes(content)
    assert found_by_check > 0


# Fields of a sweep in the ledger, which has no checksums, that no result depends on.
UNCHECKED = {
    "core_seconds", "progress", "counts", "runs", "core_seconds_left", "versions", "package", "owner",
    "stored_bytes", "fixed",
}  # fmt: skip


def assert_same_or_unchecked(actual, expected):
    for row, known in zip(actual["sweeps"], expected["sweeps"], strict=True):
        different = {key for key in known if row[key] != known[key]}
        assert different <= UNCHECKED
