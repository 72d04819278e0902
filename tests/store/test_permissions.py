"""Who may read a data folder: nobody but its owner, unless the folder was set up for sharing."""

import os
import stat
import subprocess
import sys
import tempfile

import pytest

from sweep_service.doctor.checks.store import check_permissions
from sweep_service.doctor.checks.verdict import Verdict
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import LEDGER, DataFolder
from tests.specs import TINY_SPEC

NOBODY = 65534  # the user id


@pytest.fixture
def umask():
    """Sets the umask, which is restored afterwards."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def complete_sweep(folder):
    with Conductor(folder, SerialExecutor(lambda: False)) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(TINY_SPEC))
        conductor.run(sweep.id)
        return {path.name: mode(path) for path in folder.state.glob(f"{LEDGER}*")}


@pytest.mark.usefixtures("umask")
def test_new_folder_and_ledger_are_private(tmp_path):
    folder = DataFolder(tmp_path / "new" / "data", tmp_path / "state")
    ledger_modes = complete_sweep(folder)
    assert (mode(folder.root), mode(folder.state)) == (0o700, 0o700)
    assert ledger_modes == {LEDGER: 0o600, f"{LEDGER}-wal": 0o600, f"{LEDGER}-shm": 0o600}
    (check,) = check_permissions(folder)
    assert check.verdict is Verdict.OK


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.usefixtures("umask")
def test_another_user_cannot_read_data():
    """Neither the parts nor the dataset, whatever their own permissions."""
    with tempfile.TemporaryDirectory() as parent:  # that of pytest is closed to others anyway
        os.chmod(parent, 0o755)
        data = f"{parent}/data"
        complete_sweep(DataFolder(data))
        code = f"import os; os.setuid({NOBODY}); os.listdir({parent!r}); os.listdir({data!r})"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.splitlines()[-1] == f"PermissionError: [Errno 13] Permission denied: {data!r}"


def test_folder_that_is_shared_with_a_group_stays_shared(tmp_path, umask):
    umask(0o002)
    root = tmp_path / "data"
    root.mkdir()
    root.chmod(0o2770)
    assert complete_sweep(DataFolder(root))[LEDGER] == 0o660
    assert mode(root) == 0o2770
    assert mode(root / "sweeps") & 0o070 == 0o070  # workers of the group can write parts
    assert [check.verdict for check in check_permissions(DataFolder(root))] == [Verdict.OK]


@pytest.mark.usefixtures("umask")
def test_existing_folder_is_not_changed_but_reported(tmp_path):
    root = tmp_path / "data"
    root.mkdir(mode=0o755)
    assert complete_sweep(DataFolder(root))[LEDGER] == 0o600
    assert mode(root) == 0o755
    (check,) = check_permissions(DataFolder(root))
    assert check.verdict is Verdict.WARNING
    assert check.advice == f"exclude them: chmod o= {root}"
