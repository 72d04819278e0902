"""The Zarr store over HTTP: exact bytes, ranges, ETags, and no other files."""

import os
import socket
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest
import xarray as xr

from tests.api.served import assert_problem, until


@pytest.fixture(scope="module")
def root(service, sweep_id):
    return service.folder.dataset_path(sweep_id)


@pytest.fixture(scope="module")
def base(sweep_id):
    return f"/v1/sweeps/{sweep_id}/zarr"


@pytest.fixture(scope="module")
def chunk(root):
    """The path of a chunk in the store."""
    result = next(path for path in sorted(root.glob("sgd_risk/c/**/*")) if path.is_file())
    return str(result.relative_to(root))


@pytest.fixture
def large(root):
    """A large object, which is sent in blocks and exceeds all network buffers."""
    path = root / "large"
    path.write_bytes(os.urandom(1 << 20) * 24)
    yield path
    path.unlink()


def test_objects_are_sent_unchanged(service, root, base):
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        answer = service.get(f"{base}/{path.relative_to(root)}")
        assert answer.status_code == 200
        assert answer.content == path.read_bytes()
        assert int(answer.headers["content-length"]) == path.stat().st_size
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["accept-ranges"] == "bytes"
        assert "content-encoding" not in answer.headers


def test_dataset_opens_by_url(service, root, base):
    with (
        xr.open_zarr(root, chunks=None) as local,
        xr.open_zarr(f"{service.url}{base}", chunks=None) as remote,
    ):
        xr.testing.assert_identical(remote.load(), local.load())


def test_head_equals_headers_of_get(service, base, chunk):
    for name in (chunk, "zarr.json"):
        whole, head = service.get(f"{base}/{name}"), service.head(f"{base}/{name}")
        assert (head.status_code, head.content) == (200, b"")
        for part in ("content-length", "etag", "last-modified", "accept-ranges", "content-type"):
            assert head.headers[part] == whole.headers[part]
    missing = service.head(f"{base}/missing")
    assert (missing.status_code, missing.content) == (404, b"")


RANGES = {
    "bytes=0-0": slice(0, 1),
    "bytes=0-9": slice(0, 10),
    "bytes=5-5": slice(5, 6),
    "bytes=7-": slice(7, None),
    "bytes=-4": slice(-4, None),
    "bytes=-999999999": slice(None),
    "bytes=0-999999999999999999": slice(None),
}


@pytest.mark.parametrize("wanted", RANGES)
def test_range_is_returned(service, root, base, chunk, wanted):
    whole = (root / chunk).read_bytes()
    answer = service.get(f"{base}/{chunk}", headers={"Range": wanted})
    assert answer.status_code == 206
    assert answer.content == whole[RANGES[wanted]]
    first, last, _ = RANGES[wanted].indices(len(whole))
    assert answer.headers["content-range"] == f"bytes {first}-{last - 1}/{len(whole)}"
    assert int(answer.headers["content-length"]) == last - first


@pytest.mark.parametrize("wanted", ["bytes={size}-", "bytes={size}-{size}", "bytes=999999999-", "bytes=-0"])
def test_range_beyond_end_is_rejected(service, root, base, chunk, wanted):
    size = (root / chunk).stat().st_size
    answer = service.get(f"{base}/{chunk}", headers={"Range": wanted.format(size=size)})
    assert_problem(answer, 416)
    assert answer.headers["content-range"] == f"bytes */{size}"


@pytest.mark.parametrize(
    "wanted",
    [
        "bytes=", "bytes=-", "bytes=a-b", "bytes 0-1", "items=0-1", "bytes=0-1,3-4", "bytes=--1", "odd",
        "bytes=0x1-", "bytes=" + "9" * 5000 + "-", "bytes=1.5-2", "bytes=²-³", "bytes=5-2",
    ],
)  # fmt: skip
def test_invalid_range_is_ignored(service, root, base, chunk, wanted):
    answer = service.get(f"{base}/{chunk}", headers={"Range": wanted.encode()})
    assert (answer.status_code, answer.content) == (200, (root / chunk).read_bytes())


def test_head_ignores_range(service, base, chunk):
    """Ranges are defined for GET only."""
    head = service.head(f"{base}/{chunk}", headers={"Range": "bytes=0-0"})
    assert (head.status_code, "content-range" in head.headers) == (200, False)


def test_empty_object_is_sent(service, root, base):
    (root / "empty").touch()
    try:
        answer = service.get(f"{base}/empty")
        assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")
        for wanted in ("bytes=0-", "bytes=-1", "bytes=0-0"):
            assert_problem(service.get(f"{base}/empty", headers={"Range": wanted}), 416)
    finally:
        (root / "empty").unlink()


def test_known_etag_gives_not_modified(service, base, chunk):
    tag = service.get(f"{base}/{chunk}").headers["etag"]
    for seen in (tag, f"W/{tag}", "*", f'"other", {tag}', f'{tag} , "x"'):
        answer = service.get(f"{base}/{chunk}", headers={"If-None-Match": seen})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
        assert service.head(f"{base}/{chunk}", headers={"If-None-Match": seen}).status_code == 304
    for seen in ('"other"', tag.strip('"'), "", "odd", tag[:-2] + '"'):
        answer = service.get(f"{base}/{chunk}", headers={"If-None-Match": seen})
        assert answer.status_code == 200


def test_if_range_of_another_version_gives_whole_object(service, root, base, chunk):
    whole, headers = (root / chunk).read_bytes(), service.get(f"{base}/{chunk}").headers
    wanted = {"Range": "bytes=2-3"}
    same = service.get(f"{base}/{chunk}", headers={**wanted, "If-Range": headers["etag"]})
    assert (same.status_code, same.content) == (206, whole[2:4])
    for other in ('"other"', f"W/{headers['etag']}", headers["last-modified"], "odd"):
        answer = service.get(f"{base}/{chunk}", headers={**wanted, "If-Range": other})
        assert (answer.status_code, answer.content) == (200, whole)


def test_etag_identifies_version(service, root, base):
    """Even if an object is replaced by one of the same size at the same time, as the merger does."""
    path, tags = root / "object", set()
    try:
        for number in range(5):
            fresh = root / "object.partial"
            fresh.write_bytes(b"%08d" % number)
            os.utime(fresh, ns=(10**18, 10**18 + number))
            os.replace(fresh, path)
            answer = service.get(f"{base}/object", headers={"If-None-Match": ", ".join(tags)})
            assert answer.content == b"%08d" % number
            tags.add(answer.headers["etag"])
        assert len(tags) == 5
    finally:
        path.unlink()


def test_large_object_is_sent_whole_and_in_ranges(service, base, large):
    whole = large.read_bytes()
    assert service.get(f"{base}/large").content == whole
    for first, last in ((1, len(whole) - 2), ((1 << 20) - 1, (3 << 20) + 5)):
        answer = service.get(f"{base}/large", headers={"Range": f"bytes={first}-{last}"})
        assert answer.content == whole[first : last + 1]


def test_object_replaced_while_sent_is_consistent(service, base, large):
    old = large.read_bytes()
    with service.stream("GET", f"{base}/large") as answer:
        parts = answer.iter_raw()
        result = next(parts)
        large.with_name("fresh").write_bytes(bytes(len(old)))
        os.replace(large.with_name("fresh"), large)
        result += b"".join(parts)
    assert result == old
    assert service.get(f"{base}/large").content == bytes(len(old))


def test_disconnected_clients_leave_no_open_files(service, base, large):
    def still():
        return [file for file in psutil.Process().open_files() if file.path == str(large.resolve())]

    for _ in range(10):
        with httpx2.stream("GET", f"{service.url}{base}/large") as answer:
            next(answer.iter_raw(10))
        where = urlsplit(service.url)
        with socket.create_connection(
            (where.hostname, where.port)
        ) as line:  # disconnected before the response
            line.sendall(f"GET {base}/large HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    service.get(f"{base}/large", headers={"If-None-Match": "*"})
    service.get(f"{base}/large", headers={"Range": "bytes=99999999-"})
    service.head(f"{base}/large")
    until(lambda: not still(), 20.0)


# ---- paths outside the store


def status(service, path):
    """Request a path without the normalisation of an HTTP client, and return the status."""
    where = urlsplit(service.url)
    with socket.create_connection((where.hostname, where.port), timeout=30.0) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1"))
        data = b""
        while block := line.recv(1 << 16):
            data += block
    return int(data.split()[1]), data


SECRET = b"nobody may read this"
ESCAPES = [
    "../secret", "../../secret", "..%2fsecret", "..%2Fsecret", "%2e%2e/secret", "%2e%2e%2fsecret",
    ".%2e/secret", "..%5csecret", "..\\secret", "..%252fsecret", "%252e%252e%252fsecret", "..%c0%afsecret",
    "..%ef%bc%8fsecret", "sgd_risk/../../secret", "sgd_risk/..%2f..%2fsecret", "./../secret",
    "sgd_risk/%2e%2e/%2e%2e/secret", "{root}/../secret", "%2f{root}/../secret", "/etc/passwd",
    "%2fetc%2fpasswd", "//etc/passwd", "///etc/passwd", "../../ledger.sqlite", "..%2f..%2fledger.sqlite",
    "../{sweep}.json", "..%2f{sweep}.json", "..%2f{sweep}.zarr%2fzarr.json", "zarr.json%00", "%00",
    "zarr.json%00.png", "%00/zarr.json", "..%00/secret", ".", "..", "./zarr.json", "%2e/zarr.json",
    "/zarr.json", "sgd_risk//zarr.json", "sgd_risk/./zarr.json", "zarr.json/", "sgd_risk", "sgd_risk/", "",
    "sgd_risk/c", "zarr.json/zarr.json", "file:%2f%2f%2fetc%2fpasswd", "~", "~root", "$HOME", "zarr.json;x",
    "zarr%2ejson%20", "a" * 201, "a/" * 21 + "a", "%ff", "ü", "con", "missing", "sgd_risk/c/99/99", "*",
    "%2a", "link", "folder", "folder/secret", "fifo",
]  # fmt: skip


@pytest.fixture(scope="module")
def surroundings(root):
    """Files in and around the store that do not belong to it."""
    (root.parent / "secret").write_bytes(SECRET)
    (root.parent.parent / "secret").write_bytes(SECRET)
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "secret").write_bytes(SECRET)
    (root / "link").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to(root.parent / "elsewhere")
    os.mkfifo(root / "fifo")
    yield
    for name in ("link", "folder", "fifo"):
        (root / name).unlink()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", ESCAPES)
def test_paths_outside_dataset_are_not_found(service, sweep_id, root, base, surroundings, path):
    path = path.format(root=root, sweep=sweep_id)
    code, content = status(service, f"{base}/{path}")
    assert code in (400, 404, 422), content[:300]
    assert SECRET not in content
    assert b"root:" not in content
    assert b"SQLite" not in content


def test_missing_object_gives_404_for_zarr(service, base):
    for path in ("missing", "sgd_risk/c/99/99/99/99/99/99", "c/0", "zarr.json.partial"):
        assert_problem(service.get(f"{base}/{path}"), 404, "no such object", without=["missing", "99"])


def test_store_is_read_only(service, base, chunk):
    before = service.get(f"{base}/{chunk}").content
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        answer = service.request(method, f"{base}/{chunk}", content=b"x")
        assert_problem(answer, 405)
        assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert service.get(f"{base}/{chunk}").content == before
