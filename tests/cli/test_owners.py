"""Sizes and owners in `sweep list` and `sweep show`."""

from sweep_service.cli.format import format_sweep, format_sweeps

SWEEP = {
    "id": "20261118-064512-ab12cd34", "name": "one", "state": "completed", "reason": "", "progress": 1.0,
    "runs": 4, "reused": 0, "counts": {"done": 4}, "core_seconds": 1.0, "core_seconds_left": 0.0,
    "priority": 0, "extends": None, "created": "2026-11-18T06:45:12", "updated": "2026-11-18T06:45:13",
    "stored_bytes": 25_300, "owner": None, "failures": [],
}  # fmt: skip


def test_list_shows_sizes_and_owners_if_there_are_any():
    header, row = format_sweeps([SWEEP]).splitlines()
    assert header.split() == ["id", "state", "done", "runs", "size", "name"]
    assert "25 kB" in row
    header, first, second = format_sweeps([{**SWEEP, "owner": "alice"}, SWEEP]).splitlines()
    assert header.split() == ["id", "state", "done", "runs", "size", "owner", "name"]
    assert "alice" in first
    assert "alice" not in second


def test_show_shows_size_and_owner():
    text = format_sweep({**SWEEP, "owner": "alice"})
    assert "25 kB" in text
    assert "alice" in text
    assert "owner" not in format_sweep(SWEEP)


def test_service_of_an_older_version_has_neither():
    old = {name: value for name, value in SWEEP.items() if name not in ("stored_bytes", "owner")}
    assert "size" not in format_sweep(old)
    assert format_sweeps([old]).splitlines()[1].endswith("one")
