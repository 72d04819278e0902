"""A ledger that disappears, is replaced or is damaged while it is open."""

from contextlib import closing

import pytest

from sweep_service.errors import StoreGone
from sweep_service.store.ledger import Ledger


@pytest.fixture
def opened(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with closing(Ledger(path)) as ledger:
        yield ledger, path


@pytest.mark.parametrize("replacement", [None, b"", b"garbage " * 1000])
def test_lost_ledger_is_an_error_until_it_is_put_back(opened, replacement):
    ledger, path = opened
    kept = path.rename(path.with_name("kept"))
    if replacement is not None:
        path.write_bytes(replacement)
    words = "has disappeared" if replacement is None else "was replaced"
    for _ in range(3):  # no attempt may create an empty ledger
        with pytest.raises(StoreGone, match=f"{words}: .*sweep doctor --rebuild"):
            ledger.sweeps()
    assert path.exists() is (replacement is not None)
    kept.replace(path)
    assert ledger.sweeps() == []


@pytest.mark.parametrize("content", [b"", b"garbage " * 1000])
def test_ledger_that_is_overwritten_is_damaged(opened, content):
    ledger, path = opened
    ledger.engine.dispose()
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(content)
    with pytest.raises(StoreGone, match=r"is damaged: .*sweep doctor --rebuild"):
        ledger.sweeps()
