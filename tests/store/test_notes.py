"""Notes in the ledger: schemas that had none, or no tags, are migrated; tags select sweeps."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from sweep_service.errors import InvalidInput
from sweep_service.store.ledger import Ledger
from sweep_service.store.notes import MAX_TAG_LENGTH, MAX_TAGS, Notes, read_change
from tests.store.test_ledger import SWEEP


def test_ledger_of_schema_3_is_migrated(tmp_path):
    path = tmp_path / "ledger"
    with closing(Ledger(path)) as ledger:
        ledger.add(SWEEP, [])
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("ALTER TABLE sweeps DROP COLUMN note")
        raw.execute("ALTER TABLE sweeps DROP COLUMN tags")
        raw.execute("UPDATE about SET value = '3' WHERE name = 'schema'")
        raw.commit()
    with closing(Ledger(path)) as ledger:
        assert ledger.sweep(SWEEP.id) == SWEEP
        ledger.set_notes(SWEEP.id, Notes("renamed", "noted", ("a b", "c")))
        sweep = ledger.sweep(SWEEP.id)
        assert (sweep.name, sweep.note, sweep.tags) == ("renamed", "noted", ("a b", "c"))


def test_sweeps_are_selected_by_whole_tags(tmp_path):
    with closing(Ledger(tmp_path / "ledger")) as ledger:
        tags = {"1": ("colt", "noise_floor"), "2": ("colt 2023",), "3": ("größe", "noise-floor"), "4": ()}
        for sweep_id in tags:
            ledger.add(replace(SWEEP, id=sweep_id), [])
            ledger.set_notes(sweep_id, Notes("n", tags=tags[sweep_id]))

        def select(*wanted):
            return sorted(sweep.id for sweep in ledger.sweeps(tags=wanted))

        assert select("colt") == ["1"]
        assert select("noise_floor") == ["1"]  # "_" is no wildcard
        assert select("größe") == ["3"]
        assert select("colt", "noise_floor") == ["1"]
        assert select("colt", "noise-floor") == select("col") == []
        assert select() == ["1", "2", "3", "4"]


def test_tags_are_read_in_lower_case_without_duplicates():
    assert read_change({"tags": [" COLT ", "b: fig. 2", "colt"]}) == {"tags": ("b: fig. 2", "colt")}
    assert read_change({"tags": []}) == {"tags": ()}


@pytest.mark.parametrize(
    ("tags", "field"),
    [
        ("colt", "tags"),
        (None, "tags"),
        ({"a": 1}, "tags"),
        (["ok", "a,b"], "tags[1]"),
        ([""], "tags[0]"),
        ([5], "tags[0]"),
        (['a"b'], "tags[0]"),
        (["line\nbreak"], "tags[0]"),
        (["-x"], "tags[0]"),
        (["x" * (MAX_TAG_LENGTH + 1)], "tags[0]"),
        ([f"t{number}" for number in range(MAX_TAGS + 1)], "tags"),
    ],
)
def test_wrong_tags_are_refused(tags, field):
    with pytest.raises(InvalidInput) as refused:
        read_change({"tags": tags})
    assert refused.value.field == field
