"""Shared by the tests of archives: a folder with a sweep, its archive, and changes of an archive."""

import io
import json
import zipfile
from contextlib import closing

from sweep_service.archives.contents import MANIFEST, digest, format_manifest
from sweep_service.archives.import_archive import import_archive
from sweep_service.archives.write_archive import write_archive
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import INDEX_SUFFIX, DataFolder
from tests.execution.conducting import open_conductor
from tests.specs import SMALL_SPEC

NOTES = {"name": "renamed", "note": "two\nlines", "tags": ["colt"]}


def compute(root, spec=SMALL_SPEC):
    """Compute a sweep; return its id."""
    with open_conductor(root) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        return conductor.run(sweep.id).id


def archive(root, output, *sweep_ids, figures=False):
    folder = DataFolder(root)
    with closing(folder.ledger()) as ledger:
        sweeps = [ledger.sweep(sweep_id) for sweep_id in sweep_ids]
    write_archive(folder, sweeps, output, with_figures=figures)
    return output


def import_into(root, path, limits=None):
    with open_conductor(root) as conductor:
        return import_archive(conductor, path, limits)


def list_files(root):
    """Return what a data folder holds, apart from its lock, its ledger, indexes and kept states.

    Indexes are derived. An archive has no kept states: they only save time, and could not be checked.
    """
    sweeps = root / "sweeps"
    files = (path.relative_to(sweeps).as_posix() for path in sweeps.rglob("*") if path.is_file())
    return sorted(name for name in files if ".states/" not in name and not name.endswith(INDEX_SUFFIX))


def read_entries(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write_entries(path, entries, sealed=True):
    """Write an archive of these files, with a manifest that fits them unless it is not `sealed`."""
    entries = dict(entries)
    if sealed:
        names = [name for name in entries if name != MANIFEST]
        entries[MANIFEST] = format_manifest({name: digest(entries[name]) for name in names})
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name), content)
    return path


def edit_json(content, change):
    """Change a JSON file in place; `change` gets its content."""
    record = json.loads(content)
    change(record)
    return json.dumps(record).encode()


def deflated(entries):
    """Return a zip file whose entries are compressed, as other programs would pack them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return stream.getvalue()
