"""Archives: a sweep is the same after it has been imported elsewhere, and its runs are reused there."""

import hashlib
import json
import re
import signal
import zipfile
from pathlib import Path

import pytest
import xarray as xr
import yaml

import sweep_service as ss
from sweep_service.archives.citation import PAPERS, SOFTWARE, SOFTWARE_AUTHOR
from sweep_service.errors import Conflict
from sweep_service.faults import FAULT_POINTS
from sweep_service.figures.gallery import draw_suggested_view
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from sweep_service.store.notes import read_change
from tests.archives.archiving import (
    NOTES,
    archive,
    compute,
    deflated,
    import_into,
    list_files,
    read_entries,
)
from tests.cli.commands import ROOT, assert_refused, run_command
from tests.execution.conducting import delete_ledger, open_conductor
from tests.specs import SMALL_SPEC, distinct_spec


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder with a sweep that has notes: (folder, sweep id)."""
    root = tmp_path_factory.mktemp("source")
    sweep_id = compute(root)
    with open_conductor(root) as conductor:
        conductor.annotate(sweep_id, read_change(NOTES))
    return root, sweep_id


@pytest.fixture(scope="module")
def packed(source, tmp_path_factory):
    """Its archive, with figures."""
    root, sweep_id = source
    return archive(root, tmp_path_factory.mktemp("archive") / "sweep.zip", sweep_id, figures=True)


def load(root, sweep_id):
    with ss.open(DataFolder(root).dataset_path(sweep_id)) as dataset:
        return dataset.load()


def test_imported_sweep_is_the_same_and_gives_the_same_figures(source, packed, tmp_path):
    root, sweep_id = source
    (imported,) = import_into(tmp_path / "b", packed)
    with open_conductor(root) as conductor:
        original = conductor.ledger.sweep(sweep_id)
    assert (imported.id, imported.key, imported.state) == (sweep_id, original.key, State.COMPLETED)
    assert (imported.name, imported.note, imported.tags) == ("renamed", "two\nlines", ("colt",))
    assert (imported.runs, imported.fixed) == (original.runs, original.fixed)
    ours, theirs = load(tmp_path / "b", sweep_id), load(root, sweep_id)
    # Values, labels and their attributes.
    xr.testing.assert_identical(ours.drop_attrs(deep=False), theirs.drop_attrs(deep=False))
    assert ours.attrs == theirs.attrs
    assert imported.created == theirs.attrs["created"]
    assert list_files(tmp_path / "b") == list_files(root)
    drawn = [
        draw_suggested_view(dataset, sweep_id, tmp_path / name)
        for dataset, name in ((ours, "x"), (theirs, "y"))
    ]
    entries = read_entries(packed)
    for our_file, their_file in zip(*drawn, strict=True):
        assert our_file.read_bytes() == their_file.read_bytes() == entries[f"figures/{our_file.name}"]


def test_new_spec_over_the_same_points_computes_nothing(source, packed, tmp_path):
    import_into(tmp_path, packed)
    again = {**SMALL_SPEC, "axes": {**SMALL_SPEC["axes"], "d": 8}, "seeds": {"init": 1, "repeat": 2}}
    with open_conductor(tmp_path) as conductor:
        sweep, is_new = conductor.submit(SweepSpec.parse(again))
        assert is_new
        assert (sweep.state, sweep.reused) == (State.COMPLETED, sweep.runs)
        same, is_new = conductor.submit(SweepSpec.parse({**SMALL_SPEC, "name": "other"}))
        assert not is_new
        assert same.id == source[1]


def test_archives_have_the_same_bytes(source, packed, tmp_path):
    root, sweep_id = source
    again = archive(root, tmp_path / "again.zip", sweep_id, figures=True).read_bytes()
    assert again == packed.read_bytes()
    import_into(tmp_path / "b", packed)
    elsewhere = archive(tmp_path / "b", tmp_path / "b.zip", sweep_id, figures=True).read_bytes()
    assert elsewhere == packed.read_bytes()


def test_archive_is_a_research_object_crate(source, packed):
    """RO-Crate 1.1: the required entities, and each reference to a local entity has one."""
    entries, sweep_id = read_entries(packed), source[1]
    crate = json.loads(entries["ro-crate-metadata.json"])
    assert crate["@context"] == "https://w3id.org/ro/crate/1.1/context"
    graph = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(graph) == len(crate["@graph"])
    descriptor, root = graph["ro-crate-metadata.json"], graph["./"]
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert descriptor["about"] == {"@id": "./"}
    for name in ("name", "description", "datePublished", "license"):
        assert root[name], name
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", root["datePublished"])

    def references(value):
        if isinstance(value, list):
            return {found for item in value for found in references(item)}
        return {value["@id"]} if isinstance(value, dict) and set(value) == {"@id"} else set()

    for entity in crate["@graph"]:
        assert "@type" in entity
        for value in entity.values():
            for target in references(value) - {"https://w3id.org/ro/crate/1.1"}:
                assert target in graph, target
    parts = references(root["hasPart"])
    for name in entries:
        part = f"sweeps/{sweep_id}.zarr/" if ".zarr/" in name else name
        assert part in parts or name == "ro-crate-metadata.json", name
    for part in parts - {f"sweeps/{sweep_id}.zarr/", "manifest-sha256.txt"}:
        assert int(graph[part]["contentSize"]) == len(entries[part])
    lines = entries["manifest-sha256.txt"].decode().splitlines()
    assert {tuple(line.split("  ")) for line in lines} == {
        (hashlib.sha256(content).hexdigest(), name)
        for name, content in entries.items()
        if name != "manifest-sha256.txt"
    }


def test_dataset_opens_once_the_archive_is_unpacked(source, packed, tmp_path):
    zipfile.ZipFile(packed).extractall(tmp_path)
    with xr.open_zarr(tmp_path / "sweeps" / f"{source[1]}.zarr") as dataset:
        xr.testing.assert_equal(dataset.load(), load(*source))


def test_citation_is_that_of_the_repository(packed):
    stated = yaml.safe_load((Path(ROOT) / "CITATION.cff").read_text("utf-8"))
    assert (stated["title"], stated["authors"][0]["name"]) == (SOFTWARE, SOFTWARE_AUTHOR)
    for paper, reference in zip(PAPERS, stated["references"], strict=True):
        names = tuple(f"{person['family-names']}, {person['given-names']}" for person in reference["authors"])
        assert (paper.title, paper.authors, paper.year) == (reference["title"], names, reference["year"])
        assert paper.pages == (reference["start"], reference["end"])
        assert reference["identifiers"][0]["value"] == f"arXiv:{paper.arxiv}"
        assert paper.arxiv in read_entries(packed)["CITATION.bib"].decode()


def test_several_sweeps_one_of_them_incomplete(tmp_path):
    ids = [compute(tmp_path / "a", distinct_spec(number)) for number in (1, 2)]
    with open_conductor(tmp_path / "a") as conductor:
        conductor.ledger.set_state(ids[1], State.QUEUED)
        with pytest.raises(Conflict, match="only a sweep that has ended"):
            archive(tmp_path / "a", tmp_path / "no.zip", *ids)
        conductor._replace_status(ids[1], Status.DONE, Status.CANCELLED)
        conductor.ledger.set_state(ids[1], State.CANCELLED)
    path = archive(tmp_path / "a", tmp_path / "two.zip", *ids)
    assert not list(tmp_path.glob("no*"))
    path.write_bytes(deflated(read_entries(path)))  # as another program would pack it
    imported = import_into(tmp_path / "b", path)
    assert {sweep.id: sweep.state for sweep in imported} == {ids[0]: State.COMPLETED, ids[1]: State.CANCELLED}
    delete_ledger(tmp_path / "b")
    with open_conductor(tmp_path / "b") as conductor:
        assert sorted(conductor.rebuild()) == sorted(ids)


def test_commands(source, packed, tmp_path):
    root, sweep_id = source
    output = tmp_path / "out.zip"
    made = run_command(tmp_path, "archive", sweep_id, str(output), "--data", str(root), "--json").json
    assert (made["ids"], made["bytes"]) == ([sweep_id], output.stat().st_size)
    assert output.read_bytes() == packed.read_bytes()
    imported = run_command(tmp_path, "import", str(output), "--json").json
    assert [(sweep["id"], sweep["tags"]) for sweep in imported] == [(sweep_id, ["colt"])]
    shown = run_command(tmp_path, "show", sweep_id, "--json").json
    assert shown["counts"] == {"done": 24}
    assert shown["core_seconds"] > 0
    assert run_command(tmp_path, "doctor", "--verify", sweep_id, "--json").code == 0
    assert_refused(run_command(tmp_path, "import", str(output)), sweep_id, "already")
    assert_refused(run_command(tmp_path, "import", "missing.zip"), "path")
    (tmp_path / "cut.zip").write_bytes(output.read_bytes()[:-5])
    assert_refused(run_command(tmp_path, "import", "cut.zip", "--data", "new"), "cut.zip")
    assert not (tmp_path / "new").exists()
    assert_refused(run_command(tmp_path, "archive", sweep_id), "ID... OUT.zip")
    assert_refused(run_command(tmp_path, "archive", sweep_id, "out.tar"), "must end in .zip")


@pytest.mark.parametrize("point", [point for point in FAULT_POINTS if point.startswith("import:")])
def test_import_killed_at_any_fault_point_leaves_nothing_or_a_whole_sweep(source, packed, tmp_path, point):
    killed = run_command(tmp_path, "import", str(packed), env={"SWEEP_FAULT": point})
    assert killed.code == -signal.SIGKILL
    with open_conductor(tmp_path / "sweep-data") as conductor:
        sweeps = conductor.ledger.sweeps()
        if point != "import:ledger":
            assert sweeps == []
            assert list_files(tmp_path / "sweep-data") == []
        else:
            assert [(sweep.id, sweep.state) for sweep in sweeps] == [(source[1], State.COMPLETED)]
    if point != "import:ledger":
        import_into(tmp_path / "sweep-data", packed)
    assert list_files(tmp_path / "sweep-data") == list_files(source[0])
