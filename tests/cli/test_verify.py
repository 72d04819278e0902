"""`sweep doctor --verify` and `--repair`, and other commands on damaged files: one line, exit code 2."""

import shutil
from contextlib import closing

import pytest

import sweep_service as ss
from sweep_service.cli.answers import DONE, FAILED
from sweep_service.store.folder import DataFolder
from tests.chaos.flips import (
    DAMAGES,
    assert_same_values,
    change_metadata,
    find_chunk,
    flip_bit,
    read_values,
    shorten,
)
from tests.cli.commands import assert_refused, run_command
from tests.golden import sweeps as golden
from tests.golden.test_golden import RECORDED

SECONDS = ("sgd_seconds", "ode_seconds")


@pytest.fixture
def damaged(stored_sweep, tmp_path):
    """A copy of a completed sweep, to be damaged: the folder of commands, the id and the dataset."""
    cwd, sweep_id = stored_sweep
    shutil.copytree(cwd / "sweep-data", tmp_path / "sweep-data")
    return tmp_path, sweep_id, tmp_path / "sweep-data" / "sweeps" / f"{sweep_id}.zarr"


@pytest.mark.parametrize("name", DAMAGES)
def test_reading_damaged_data_is_refused_in_one_line(damaged, name):
    cwd, sweep_id, path = damaged
    apply, text = DAMAGES[name]
    apply(path)
    for command in (("export", sweep_id, "out.csv"), ("plot", sweep_id, "out.png", "curves")):
        assert_refused(run_command(cwd, *command), text)
        assert not (cwd / command[2]).exists()


def test_damage_is_listed_and_repaired(damaged):
    cwd, sweep_id, path = damaged
    with ss.open(path) as dataset:
        expected = read_values(dataset, SECONDS)
    answer = run_command(cwd, "doctor", "--verify")
    assert (answer.code, answer.err) == (DONE, "")
    assert f"{sweep_id} is intact" in answer.out
    flip_bit(find_chunk(path, "sgd_risk"), 99)
    find_chunk(path, "ode_cosine").unlink()
    shorten(path.with_suffix(".json"))
    answer = run_command(cwd, "doctor", "--verify", sweep_id[:20])
    assert (answer.code, answer.err) == (FAILED, "")
    lines = [line for line in answer.out.splitlines() if line.startswith("wrong")]
    assert len(lines) == 3
    for line, name in zip(lines, (f"{sweep_id}.json", "ode_cosine/c/0", "sgd_risk/c/0"), strict=True):
        assert name in line
    assert "sweep doctor --repair" in answer.out.splitlines()[-1]
    answer = run_command(cwd, "doctor", "--repair", "--json")
    assert answer.code == DONE
    assert f"sweep resume {sweep_id}" in answer.json["repaired"][sweep_id]
    assert run_command(cwd, "show", sweep_id, "--json").json["counts"] == {"pending": 24}
    assert run_command(cwd, "resume", sweep_id).code == DONE
    assert run_command(cwd, "doctor", "--verify").code == DONE
    with ss.open(path) as dataset:
        assert_same_values(read_values(dataset, SECONDS), expected)


def test_newer_layout_is_refused_by_the_doctor_too(damaged):
    cwd, _, path = damaged
    change_metadata(path, layout_version=99)
    for option in ("--verify", "--repair"):
        answer = run_command(cwd, "doctor", option)
        assert answer.code == FAILED
        assert "has layout 99" in answer.out
    for ledger in (cwd / "sweep-data").glob("ledger.sqlite*"):
        ledger.unlink()
    answer = run_command(cwd, "doctor", "--rebuild", "--json", before=NO_CALIBRATION)
    assert answer.json["adopted"] == []
    assert "has layout 99" in answer.err


NO_CALIBRATION = "import sweep_service.doctor.calibration as c; c.measure = lambda folder: {}"


def test_damaged_ledger_is_refused_in_one_line(damaged):
    cwd, sweep_id, _ = damaged
    with closing(DataFolder(cwd / "sweep-data").ledger()) as ledger, ledger.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    path = cwd / "sweep-data" / "ledger.sqlite"
    path.write_bytes(path.read_bytes()[:20_000])
    answer = run_command(cwd, "doctor", "--verify")
    assert (answer.code, answer.err) == (FAILED, "")
    assert "--rebuild" in answer.out
    assert_refused(run_command(cwd, "show", sweep_id), "--rebuild")


def test_ids_need_verify(damaged):
    assert_refused(run_command(damaged[0], "doctor", damaged[1]), "--verify")


def test_older_folder_is_readable_and_has_no_checksums(tmp_path):
    folder = golden.unpacked(tmp_path)
    answer = run_command(tmp_path, "doctor", "--verify", "--data", folder)
    assert (answer.code, answer.err) == (DONE, "")
    assert answer.out.count("has no checksums") == 3
    complete = folder / "sweeps" / f"{RECORDED['folder']['ids']['complete']}.zarr"
    for damage, reason in ((shorten, "cannot be decompressed"), (lambda path: path.unlink(), "is missing")):
        damage(find_chunk(complete, "sgd_risk"))
        answer = run_command(tmp_path, "doctor", "--verify", complete.stem, "--data", folder)
        assert (answer.code, reason in answer.out) == (FAILED, True)
        refused = run_command(tmp_path, "export", complete.stem, "out.csv", "--data", folder)
        assert_refused(refused, "sgd_risk/c/0", reason)
