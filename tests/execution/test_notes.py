"""The object that keeps the name and the note of a sweep: a lost ledger, damage, removal."""

import json

import pytest

from sweep_service.doctor.verify import verify_sweep
from sweep_service.errors import Damaged, NotFound
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.notes import Notes, read_change
from sweep_service.store.sealed import pack_json
from tests.execution.conducting import delete_ledger, open_conductor
from tests.specs import TINY_SPEC

SPEC = SweepSpec.parse({**TINY_SPEC, "name": "of the spec"})


@pytest.fixture
def folder(tmp_path):
    """A data folder with one sweep, whose name and note were changed."""
    with open_conductor(tmp_path) as conductor:
        sweep_id = conductor.submit(SPEC)[0].id
        conductor.run(sweep_id)
        with pytest.raises(NotFound):  # there is no object until something is changed
            Notes.load(conductor.folder.objects, sweep_id)
        assert conductor.folder.notes(sweep_id) == Notes("of the spec")
        conductor.annotate(sweep_id, read_change({"name": "kept", "note": "also kept", "tags": ["b", "a"]}))
        return conductor.folder


def find_id(conductor):
    (sweep,) = conductor.ledger.sweeps()
    return sweep.id


def forge_name(folder, sweep_id):
    name = f"{sweep_id}.notes.json"
    record = json.loads(folder.objects.get(name))
    folder.objects.put(name, json.dumps({**record, "name": "forged"}).encode())


def test_notes_survive_a_lost_ledger_and_go_with_the_sweep(folder):
    delete_ledger(folder.root)
    with open_conductor(folder.root) as conductor:
        (sweep_id,) = conductor.rebuild()
        sweep = conductor.ledger.sweep(sweep_id)
        assert (sweep.name, sweep.note, sweep.tags) == ("kept", "also kept", ("a", "b"))
        assert [sweep.id for sweep in conductor.ledger.sweeps(tags=["b"])] == [sweep_id]
        assert [sweep.id for sweep in conductor.ledger.sweeps(name="KEPT")] == [sweep_id]
        conductor.remove(sweep_id)
    assert [name for name in folder.objects.list_top() if name.startswith(sweep_id)] == []


def test_damaged_notes_do_not_prevent_a_rebuild(folder):
    with open_conductor(folder.root) as conductor:
        sweep_id = find_id(conductor)
    forge_name(folder, sweep_id)
    with pytest.raises(Damaged, match=r"notes\.json"):
        Notes.load(folder.objects, sweep_id)
    delete_ledger(folder.root)
    with open_conductor(folder.root) as conductor:
        assert conductor.rebuild() == [sweep_id]
        assert conductor.ledger.sweep(sweep_id).name == "of the spec"


def test_damaged_notes_are_found_and_restored_from_the_ledger(folder):
    with open_conductor(folder.root) as conductor:
        sweep_id = find_id(conductor)
    forge_name(folder, sweep_id)
    findings = verify_sweep(folder, sweep_id)
    assert [problem.split()[0] for problem in findings.problems] == [f"{sweep_id}.notes.json"]
    findings.request.save(folder, sweep_id)
    with open_conductor(folder.root):
        assert folder.notes(sweep_id) == Notes("kept", "also kept", ("a", "b"))
    assert verify_sweep(folder, sweep_id).problems == []


def test_notes_of_earlier_versions_have_no_tags(folder):
    with open_conductor(folder.root) as conductor:
        sweep_id = find_id(conductor)
    folder.objects.put(f"{sweep_id}.notes.json", pack_json({"name": "earlier", "note": None}))
    assert folder.notes(sweep_id) == Notes("earlier")
