"""Small inputs that expand or are malformed: archives, bodies, specs."""

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sweep_service.errors import Damaged, InvalidInput
from sweep_service.numerics.npz import read_arrays
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators.checkpoint import unpack
from sweep_service.store.parts import Part
from tests.api.served import JSON, YAML, assert_problem
from tests.specs import SMALL_SPEC, TINY_SPEC

ROOT = Path(__file__).resolve().parents[2]
MANY_BYTES = 100 << 20  # must never be allocated


def header(shape, kind="<f8"):
    """Return the header of an array file."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(*members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as result:
        for name, content in members:
            result.writestr(name, content)
    return file.getvalue()


def overlapping(size, copies):
    """Return an archive whose directory lists one member many times."""
    plain = archive(("a.npy", header((size,), "|u1") + bytes(size)))
    begin, end = plain.index(b"PK\x01\x02"), plain.index(b"PK\x05\x06")
    entry, tail = plain[begin:end], bytearray(plain[end:])
    tail[8:12] = copies.to_bytes(2, "little") * 2
    tail[12:16] = (copies * len(entry)).to_bytes(4, "little")
    return plain[:begin] + entry * copies + bytes(tail)


class Trap:
    """An object that runs a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def trap():
    """Return an array of objects, which NumPy would unpickle if allowed."""
    return header((1,), "|O") + pickle.dumps(np.array([Trap()], dtype=object))


ARCHIVES = {
    "compressed": lambda: archive(
        ("failures.npy", header((MANY_BYTES,), "|u1") + bytes(MANY_BYTES)), compression=zipfile.ZIP_DEFLATED
    ),
    "compressed otherwise": lambda: archive(("failures.npy", header((9,))), compression=zipfile.ZIP_LZMA),
    "overlapping": lambda: overlapping(1 << 20, 1000),
    "a large shape": lambda: archive(("failures.npy", header((1 << 28,)) + bytes(8))),
    "a shape beyond all": lambda: archive(("failures.npy", header((1 << 60,)) + bytes(8))),
    "a negative shape": lambda: archive(("failures.npy", header((-1,)) + bytes(8))),
    "a long item": lambda: archive(("failures.npy", header((1,), f"|S{1 << 30}") + bytes(8))),
    "items of nothing": lambda: archive(("failures.npy", header((1 << 60,), "|S0"))),
    "a long header": lambda: archive(
        ("failures.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b"{" * (1 << 20))
    ),
    "pickles": lambda: archive(("failures.npy", trap())),
    "pickles as they are": lambda: pickle.dumps(Trap()),
    "deep": lambda: archive(("failures.npy", header((200_000,), "|u1") + b"[" * 200_000)),
    "no archive": lambda: b"PK\x03\x04" + bytes(1000),
    "names that lead elsewhere": lambda: archive(("../../escaped.npy", header((1,)) + bytes(8))),
}  # fmt: skip


def memory():
    """Return the peak memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0


def try_all():
    """In its own process: return the error of each archive, and the increase of the peak memory."""
    plan, results = SweepPlan(Grid.of(SweepSpec.parse(SMALL_SPEC))), {}
    for name, make in ARCHIVES.items():
        content = make()
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        before = memory()
        try:
            Part.unpack(content, plan)
        except Exception as error:
            results[name] = [type(error).__name__, memory() - before]
        try:
            unpack("mine", content)
        except Exception as error:
            results[name] += [type(error).__name__, memory() - before]
    print(json.dumps(results))


@pytest.mark.parametrize("name", [name for name in ARCHIVES if name != "compressed"])
def test_invalid_archives_are_rejected(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, plan = ARCHIVES[name](), SweepPlan(Grid.of(SweepSpec.parse(SMALL_SPEC)))
    with pytest.raises(Damaged):
        Part.unpack(content, plan)
    with pytest.raises(InvalidInput):
        unpack("mine", content)
    assert list(tmp_path.iterdir()) == []  # nothing was unpickled, or written


def test_archive_bomb_is_not_opened():
    content = archive(("failures.npy", bytes(20 << 20)), compression=zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(ValueError, match="compressed"):
        read_arrays(content)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 << 20


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="memory is read in /proc")
def test_invalid_archives_are_rejected_before_using_memory(tmp_path):
    code = "from tests.security.test_bombs import try_all; try_all()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert list(content) == list(ARCHIVES)
    for name, (part, part_bytes, checkpoint, checkpoint_bytes) in content.items():
        assert (part, checkpoint) == ("Damaged", "InvalidInput"), name
        assert max(part_bytes, checkpoint_bytes) < 60 << 20, name
    assert list(tmp_path.iterdir()) == []  # nothing was unpickled, or written


def test_own_archives_are_read():
    file = io.BytesIO()
    np.savez(file, a=np.arange(5), b=np.empty((0, 3)), c=np.array("word"))
    result = read_arrays(file.getvalue())
    assert result["a"].tolist() == [0, 1, 2, 3, 4]
    assert (result["b"].shape, str(result["c"])) == ((0, 3), "word")


@pytest.mark.parametrize("numbers", [np.array([0.0]), np.array([np.nan]), np.array([[0]]), np.array([10**6])])
def test_invalid_run_numbers_are_rejected(numbers):
    plan = SweepPlan(Grid.of(SweepSpec.parse(SMALL_SPEC)))
    values = {
        name: np.zeros((len(numbers), *variable.run_shape), variable.dtype)
        for name, variable in plan.schema.variables["sgd"].items()
    }
    with pytest.raises(Damaged):
        Part.unpack(Part({"sgd": numbers}, {"sgd": values}, ()).pack(), plan)


# ---- bodies


def test_compressed_body_is_never_expanded(service):
    """So no body exceeds the size that was counted on arrival."""
    bomb = gzip.compress(json.dumps(TINY_SPEC).encode() + b" " * (10 << 20))
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip", "identity"):
        for kind in (JSON, YAML):
            headers = {**kind, "Content-Encoding": encoding}
            assert_problem(service.post("/v1/estimate", content=bomb, headers=headers), 422)


# ---- spec files

SPECS = {
    "merges": "a: &a {b: 1}\nc: {<<: *a}\n",
    "Python": "!!python/object/apply:os.mkdir [trapped]\n",
    "a name of Python": "name: !!python/name:os.system\n",
    "another document": "name: a\n---\nname: b\n",
    "a directive": "%TAG ! tag:yaml.org,2002:python/\n---\n!object/apply:os.mkdir [trapped]\n",
    "binary": "name: !!binary AAAA\n",
    "deep": "[" * 60_000,
    "many documents": "---\n" * 10_000,
    "a name without end": "name: " + "x" * 60_000,
    "a key without end": "x" * 60_000 + ": 1",
    "digits": "time: {max: " + "9" * 60_000 + "}",
    "1e400": '{"time": {"max": 1e400}}',
    "surrogates": '{"name": "\\ud800\\udfff\\ud800"}',
    "from right to left": '{"name": "\\u202egnp.exe", "unknown": 1}',
    "nothing but marks": "\ufeff" * 1000,
    "a NUL": "name: a\x00b",
}  # fmt: skip


@pytest.mark.parametrize("name", SPECS)
def test_invalid_spec_file_gives_one_line_per_error(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_bytes(SPECS[name].encode("utf-8", "surrogatepass"))
    with pytest.raises(InvalidInput) as caught:
        Grid.of(SweepSpec.load("spec.yaml"))
    assert len(str(caught.value)) < 1000
    assert all(str(error).isprintable() for error in caught.value.errors)
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]  # none of its commands was run
