"""Hostile archives are refused, and leave nothing."""

import json
import stat
import struct
import zipfile

import numpy as np
import pytest
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.sync import sync

from sweep_service.archives import safe_zip
from sweep_service.archives.archived_sweep import _SPEC, frame_size
from sweep_service.archives.contents import MANIFEST
from sweep_service.errors import Conflict, Damaged, InvalidInput, LimitExceeded, SweepError
from sweep_service.planning.estimate import Limits
from sweep_service.store.metadata import seal_metadata
from sweep_service.store.sealed import pack_json
from tests.archives.archiving import (
    archive,
    compute,
    edit_json,
    import_into,
    list_files,
    read_entries,
    write_entries,
)
from tests.specs import TINY_SPEC


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The files of an archive, and the id of its sweep."""
    root = tmp_path_factory.mktemp("source")
    sweep_id = compute(root, TINY_SPEC)
    return read_entries(archive(root, root / "a.zip", sweep_id)), sweep_id


@pytest.fixture
def entries(original):
    return dict(original[0])


@pytest.fixture
def sweep_id(original):
    return original[1]


@pytest.fixture
def refused(tmp_path):
    """Check that an archive is refused with an error of this kind, and leaves nothing; return its text."""

    def check(path, error=SweepError, match=None, limits=None):
        with pytest.raises(error, match=match):
            import_into(tmp_path / "data", path, limits)
        assert list_files(tmp_path / "data") == []
        return path

    return check


def test_unchanged_files_are_accepted(entries, sweep_id, tmp_path):
    """Otherwise every test below would pass."""
    path = write_entries(tmp_path / "a.zip", entries)
    assert [sweep.id for sweep in import_into(tmp_path / "data", path)] == [sweep_id]


@pytest.mark.parametrize(
    "name",
    [
        "../evil", "sweeps/../../evil", "/etc/evil", "C:/evil", "sweeps\\..\\evil", "sweeps//evil", ".hidden",
        "sweeps/ID.zarr/../../evil", "evil", "sweeps/evil.json", "sweeps/ID.keys", "sweeps/ID.unowned",
        "sweeps/ID.index.parquet", "sweeps/ID.parts/x", "sweeps/ID.failures/sgd-1.json", "figures/evil.png",
        "figures/ID.png/x", "sweeps/ID.zarr/evil/zarr.json", "sweeps/ID.zarr/sgd_risk/c/9/0/0/0/0/0",
        "sweeps/ID.zarr/sgd_risk/c/0/0/0/0/0/0.partial", "ledger.sqlite", "sweeps/ID.JSON",
        "Sweeps/ID.json", "sweeps/ID.zarr/SGD_RISK/zarr.json", "a" * 300, "nul\0l",
    ],
)  # fmt: skip
def test_names_that_are_not_listed_are_refused(entries, sweep_id, tmp_path, refused, name):
    entries[name.replace("ID", sweep_id)] = b"evil"
    refused(write_entries(tmp_path / "a.zip", entries), SweepError)
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_devices_are_refused(entries, sweep_id, tmp_path, refused, kind):
    path = write_entries(tmp_path / "a.zip", entries)
    with zipfile.ZipFile(path, "a") as file:
        entry = zipfile.ZipInfo(f"figures/{sweep_id}.png")
        entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
        file.writestr(entry, "/etc/passwd")
    refused(path, InvalidInput, "plain file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("spelling", [str, str.upper])
def test_repeated_names_are_refused(entries, tmp_path, refused, spelling):
    path = write_entries(tmp_path / "a.zip", entries)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(spelling("README.md") if spelling is str else "readme.md", "other")
    refused(path, InvalidInput, "once")


def test_bombs_are_refused_before_they_are_unpacked(entries, sweep_id, tmp_path, refused, monkeypatch):
    path = write_entries(tmp_path / "a.zip", entries)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"figures/{sweep_id}.png", bytes(10_000_000))
    monkeypatch.setattr(zipfile.ZipExtFile, "read", None)  # nothing is read
    refused(path, LimitExceeded, "100 times")


def test_size_that_is_too_small_in_the_table_is_refused(entries, sweep_id, tmp_path, refused):
    """A bomb that understates its size: Python unpacks no more than is stated, and its digest is wrong."""
    bomb, path = f"sweeps/{sweep_id}.json", tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content + b" " * 5_000_000 * (name == bomb))
        file.getinfo(bomb).file_size = len(entries[bomb])
    refused(path, Damaged, "cannot be read")


def test_entries_that_share_bytes_are_refused(entries, sweep_id, tmp_path, refused):
    path = write_entries(tmp_path / "a.zip", entries)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(f"figures/{sweep_id}.png", b"x" * 100)
        file.getinfo(f"figures/{sweep_id}.png").header_offset = file.getinfo("README.md").header_offset
    refused(path, SweepError, "share bytes")


def test_encrypted_files_are_refused(entries, tmp_path, refused):
    path = write_entries(tmp_path / "a.zip", entries)
    with zipfile.ZipFile(path, "a") as file:
        file.getinfo("README.md").flag_bits |= 1
        file._didModify = True
    refused(path, SweepError, "encrypted")


def test_huge_tables_of_contents_are_refused_unread(tmp_path, refused, monkeypatch):
    path = tmp_path / "a.zip"
    monkeypatch.setattr(zipfile, "ZipFile", None)  # which would read it
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 10, 10, 3 << 30, 0, 0)
    path.write_bytes(end)
    refused(path, LimitExceeded, "table of contents")
    many = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 9_000_000, 9_000_000, 1000, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    path.write_bytes(many + locator + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 10, 10, 10, 0, 0))
    refused(path, LimitExceeded, "files")


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99, -1])
def test_truncated_archives_are_refused(entries, tmp_path, refused, kept):
    content = write_entries(tmp_path / "a.zip", entries).read_bytes()
    end = int(kept * len(content)) if 0 < kept < 1 else kept
    (tmp_path / "b.zip").write_bytes(content[:end])
    refused(tmp_path / "b.zip", Damaged, "zip file|cut off")


def test_appended_comments_are_refused(entries, tmp_path, refused):
    path = write_entries(tmp_path / "a.zip", entries)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"x" * 10_000
    refused(path, Damaged, "comment")


@pytest.mark.parametrize("name", ["sweeps/ID.json", "sweeps/ID.zarr/zarr.json", "sweeps/ID.zarr/sgd_status"])
def test_wrong_checksums_are_refused(entries, sweep_id, tmp_path, refused, name):
    prefix = name.replace("ID", sweep_id)
    name = next(key for key in entries if key.startswith(prefix) and (prefix == key or "/c/" in key))
    content = bytearray(entries[name])
    content[len(content) // 2] ^= 4
    entries[name] = bytes(content)
    refused(write_entries(tmp_path / "a.zip", entries, sealed=False), Damaged, "SHA-256")


def test_manifest_must_list_what_is_there(entries, tmp_path, refused):
    lines = entries[MANIFEST].decode().splitlines(keepends=True)
    for content, match in (
        ("".join(lines[1:]), "must be listed"),
        ("".join([*lines, f"{'0' * 64}  README2.md\n"]), "missing"),
        ("".join([*lines, lines[0]]), "repeats"),
        ("".join(lines)[:-3], "cut off"),
        ("".join([*lines, "no digest\n"]), "is no digest"),
    ):
        entries[MANIFEST] = content.encode()
        refused(write_entries(tmp_path / "a.zip", entries, sealed=False), SweepError, match)
    del entries[MANIFEST]
    refused(write_entries(tmp_path / "a.zip", entries, sealed=False), Damaged, MANIFEST)


def change_root(entries, sweep_id, change):
    """Change the metadata of the dataset, with the digest that its author would give it."""
    name = f"sweeps/{sweep_id}.zarr/zarr.json"
    entries[name] = seal_metadata(edit_json(entries[name], change))


@pytest.mark.parametrize("attribute", ["key", "keys_sha256"])
def test_forged_keys_are_refused(entries, sweep_id, tmp_path, refused, attribute):
    change_root(entries, sweep_id, lambda root: root["attributes"].update({attribute: "0" * 64}))
    refused(write_entries(tmp_path / "a.zip", entries), InvalidInput, "keys of its spec")


def test_foreign_specs_are_refused(entries, sweep_id, tmp_path, refused):
    """Values of one spec under another would be reused as its own."""
    name = f"sweeps/{sweep_id}.json"

    def change(spec):
        spec["axes"]["gamma"] = 0.2

    foreign = edit_json(entries[name], change)
    path = write_entries(tmp_path / "a.zip", {**entries, name: foreign})
    refused(path, InvalidInput, "must be the spec of the dataset")
    change_root(entries, sweep_id, lambda root: root["attributes"].update(spec=foreign.decode()))
    path = write_entries(tmp_path / "b.zip", {**entries, name: foreign})
    refused(path, InvalidInput, "keys of its spec")


def test_other_versions_are_refused(entries, sweep_id, tmp_path, refused):
    def change(root):
        versions = json.loads(root["attributes"]["versions"])
        root["attributes"]["versions"] = json.dumps(dict.fromkeys(versions, 99))

    change_root(entries, sweep_id, change)
    refused(write_entries(tmp_path / "a.zip", entries), Conflict, "had version 99")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("sweeps/ID.json", b"{}", "is required"),
        ("sweeps/ID.json", b"[" * 100_000, "cannot be read"),
        ("sweeps/ID.json", b'{"axes": {"d": 1}}' + b" " * (5 << 20), "at most"),
        ("sweeps/ID.zarr/zarr.json", b"{}", "cannot be read|without checksums"),
        ("sweeps/ID.zarr/zarr.json", b"[[]]", "cannot be read"),
        ("sweeps/ID.zarr/zarr.json", b" " * (17 << 20), "at most"),
        ("sweeps/ID.notes.json", pack_json({"name": "x\x1b[2J", "note": None, "tags": []}), "name"),
        ("sweeps/ID.notes.json", pack_json({"name": "x", "note": None, "tags": ["a/b"]}), "tags"),
        ("sweeps/ID.notes.json", b'{"name": "x", "note": null, "sha256": "0"}', "checksum"),
    ],
)
def test_wrong_metadata_is_refused(entries, sweep_id, tmp_path, refused, name, content, match):
    entries[name.replace("ID", sweep_id)] = content
    refused(write_entries(tmp_path / "a.zip", entries), SweepError, match)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shape", [10**12]), ("data_type", "int64"), ("codecs", []), ("fill_value", 1),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [10**12]}}),
    ],
)  # fmt: skip
def test_other_arrays_are_refused(entries, sweep_id, tmp_path, refused, field, value):
    def change(root):
        root["consolidated_metadata"]["metadata"]["sgd_risk"][field] = value

    change_root(entries, sweep_id, change)
    refused(write_entries(tmp_path / "a.zip", entries), Damaged)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("git", "\x1b[2J"), ("sweep_service_version", ["x"]), ("created", "yesterday"), ("extends", "../x"),
        ("environment", '{"python": "\\u001b[2J"}'), ("environment", "[]"),
    ],
)  # fmt: skip
def test_wrong_provenance_is_refused(entries, sweep_id, tmp_path, refused, attribute, value):
    change_root(entries, sweep_id, lambda root: root["attributes"].update({attribute: value}))
    refused(write_entries(tmp_path / "a.zip", entries), SweepError)


def encode(values):
    """Return the stored bytes of a chunk."""
    buffer = _SPEC.prototype.buffer.from_bytes(np.asarray(values).tobytes())
    (compressed,) = sync(ZstdCodec().encode([(buffer, _SPEC)]))
    (checked,) = sync(Crc32cCodec().encode([(compressed, _SPEC)]))
    return checked.to_bytes()


def find_chunk(entries, variable):
    return next(name for name in entries if f"/{variable}/c/" in name)


@pytest.mark.parametrize(
    ("variable", "content", "match"),
    [
        ("sgd_status", lambda: encode(np.full(2, 7, np.int8)), "only the values"),
        ("sgd_status", lambda: encode(np.array([1, 0], np.int8)), "have ended"),
        ("sgd_status", lambda: encode(np.ones(3, np.int8)), "another size"),
        ("sgd_diverged_quantity", lambda: encode(np.full(2, 99, np.int8)), "only the values"),
        ("sgd_risk", lambda: encode(np.full(8, np.nan)), "no risk at t = 0"),
        ("sgd_risk", lambda: encode(np.zeros(1 << 22)), "another size"),
        ("sgd_risk", lambda: b"evil", "cannot be read"),
        ("sgd_risk", lambda: encode(np.zeros(8))[:-1] + b"\0", "cannot be read"),
        ("sgd_risk", None, "missing"),
        ("sgd_status", None, "have not ended"),
    ],
)
def test_wrong_chunks_are_refused(entries, tmp_path, refused, variable, content, match):
    name = find_chunk(entries, variable)
    if content is None:
        del entries[name]
    else:
        entries[name] = content()
    refused(write_entries(tmp_path / "a.zip", entries), SweepError, match)


def test_sizes_of_zstandard_frames_are_read_before_memory_is_allocated(entries, tmp_path, refused):
    for count in (0, 1, 100, 255, 256, 257, 65_791, 65_792, 1 << 20):
        (compressed,) = sync(ZstdCodec().encode([(_SPEC.prototype.buffer.from_bytes(bytes(count)), _SPEC)]))
        assert frame_size(compressed.to_bytes()[:18]) == count
    assert frame_size(b"\x28\xb5\x2f\xfd\x00\x58") is None  # no size
    # A frame that states 64 GB.
    frame = b"\x28\xb5\x2f\xfd\xe0" + (64 << 30).to_bytes(8, "little") + b"\x01\x00\x00"
    (checked,) = sync(Crc32cCodec().encode([(_SPEC.prototype.buffer.from_bytes(frame), _SPEC)]))
    entries[find_chunk(entries, "sgd_risk")] = checked.to_bytes()
    refused(write_entries(tmp_path / "a.zip", entries), Damaged, "another size")


def test_limits_hold_before_the_spec_is_expanded(entries, tmp_path, refused):
    path = write_entries(tmp_path / "a.zip", entries)
    refused(path, LimitExceeded, "runs", Limits(runs=3))


def test_archive_larger_than_the_disk_is_refused(entries, tmp_path, refused, monkeypatch):
    path = write_entries(tmp_path / "a.zip", entries)
    monkeypatch.setattr("sweep_service.store.folder.DataFolder.free_dataset_bytes", lambda self: 1000)
    refused(path, LimitExceeded, "free space")


def test_too_many_files_are_refused(entries, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(safe_zip, "MAX_FILES", 5)
    refused(write_entries(tmp_path / "a.zip", entries), LimitExceeded, "files")


def test_second_sweep_that_is_wrong_leaves_not_even_the_first(entries, tmp_path, refused):
    root = tmp_path / "other"
    other = read_entries(archive(root, tmp_path / "o.zip", compute(root, {**TINY_SPEC, "seeds": 3})))
    name = find_chunk(other, "sgd_risk")
    other[name] = b"evil"
    both = {**entries, **{name: other[name] for name in other if name.startswith("sweeps/")}}
    refused(write_entries(tmp_path / "a.zip", both), Damaged)
