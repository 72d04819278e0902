"""Conformance tests of every `Objects` backend: a class of tests, and a machine of random operations."""

import json
import random
import subprocess
import sys
import threading

import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sweep_service.errors import InUse, InvalidInput, NotFound
from sweep_service.store.objects import no_guard

OUTSIDE = [
    "", ".", "..", "../x", "a/../b", "a/..", "/a", "//a", "a//b", "a/", "./a", "a/.", "a\0b", "a\nb", "a\n",
    "a\\b", "a b", "~", ".hidden", "é", "a:b", "*", "-rf", None, 7, b"a", "a" * 5000,
    "/".join(["a" * 100] * 50),
    "a" * 300,  # longer than a file system allows
    "a.partial",  # would not be listed, and be removed at the next start
]  # fmt: skip

RACE = """
import sys, time
from sweep_service.errors import NotFound
{open}
me = sys.argv[1]
while True:
    try:
        objects.get("go")
        break
    except NotFound:
        time.sleep(0.001)
won = [at for at in range(40) if objects.create(f"race/{{at}}", me.encode())]
print(*won)
"""

WRITER = """
import sys
{open}
version, size = map(int, sys.argv[1:])
while True:
    version += 1
    objects.put("kept", version.to_bytes(8, "big") * (size // 8))
    sys.stdout.buffer.write(version.to_bytes(8, "big"))
    sys.stdout.flush()
"""

# Child processes write versions of one object and are killed at random moments; the parent checks.
# They are not forked, because network clients do not survive a fork.
KILLS = """
import json, random, subprocess, sys, time
{open}
writer = {writer!r}
rounds, size, random_seed = map(int, sys.argv[1:])
rng, torn, lost, versions = random.Random(random_seed), 0, 0, 0
whole = lambda version: version.to_bytes(8, "big") * (size // 8)
objects.put("kept", whole(0))
for _ in range(rounds):
    before = int.from_bytes(objects.get("kept")[:8], "big")
    child = subprocess.Popen(
        [sys.executable, "-c", writer, str(before), str(size)], stdout=subprocess.PIPE, bufsize=0
    )
    child.stdout.read(8)
    time.sleep(rng.random() * 0.02)
    child.kill()
    child.wait()
    acknowledged = before + 1
    while word := child.stdout.read(8):
        acknowledged = int.from_bytes(word, "big")
    child.stdout.close()
    content = objects.get("kept")
    found = int.from_bytes(content[:8], "big")
    torn += content != whole(found)
    lost += found not in (acknowledged, acknowledged + 1)
    versions = found
print(json.dumps(dict(torn=torn, lost=lost, versions=versions, listed=list(objects.list()))))
"""


class StoreConformance:
    """Subclass with a fixture `objects` (an empty store) and a method `opening`."""

    turns = 20  # of a race between threads

    def opening(self, objects):
        """Python source that opens the same store as `objects` in another process."""
        raise NotImplementedError

    def start(self, source, objects, *arguments):
        opened = self.opening(objects)
        code = source.format(open=opened, writer=WRITER.format(open=opened))
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
        )

    def test_get_returns_what_was_put(self, objects):
        objects.put("a", b"one")
        objects.put("folder/deep/b.json", b"two")
        assert objects.get("a") == b"one"
        assert objects.get("folder/deep/b.json") == b"two"

    def test_put_replaces_longer_and_shorter_content(self, objects):
        for content in (b"short", b"much longer than before", b""):
            objects.put("a", content)
            assert objects.get("a") == content
        assert list(objects.list()) == ["a"]

    @pytest.mark.parametrize(
        "content", [b"", b"\0", bytes(range(256)) * 5, b"\r\n\n\r\x1a", b"\xff\xfe"], ids=len
    )
    def test_any_bytes_are_preserved(self, objects, content):
        objects.put("a", content)
        assert objects.create("b", content)
        assert objects.get("a") == objects.get("b") == content

    def test_fifty_megabytes_are_preserved(self, objects):
        content = random.Random(0).randbytes(50_000_000)
        objects.put("large", content)
        assert objects.get("large") == content

    def test_missing_name_is_not_found(self, objects):
        objects.put("folder/a", b"")
        for name in ("a", "folder", "folder/b", "folder/a/b", "nowhere/at/all"):
            with pytest.raises(NotFound, match=name):
                objects.get(name)

    def test_deleted_object_can_be_written_again(self, objects):
        objects.put("a", b"1")
        objects.delete("a")
        assert list(objects.list()) == []
        with pytest.raises(NotFound):
            objects.get("a")
        assert objects.create("a", b"2")
        assert objects.get("a") == b"2"

    def test_several_objects_are_deleted_at_once(self, objects):
        for name in ("a", "f/a", "f/b", "g"):
            objects.put(name, b"")
        objects.delete("a", "f/b", "nowhere/at/all")
        objects.delete()
        assert list(objects.list()) == ["f/a", "g"]

    def test_delete_of_a_missing_name_does_nothing(self, objects):
        objects.put("b", b"")
        objects.delete("a")
        objects.delete("nowhere/at/all")
        assert list(objects.list()) == ["b"]

    def test_new_store_is_empty(self, objects):
        assert list(objects.list()) == list(objects.list("a")) == []

    def test_names_are_listed_in_order_by_prefix(self, objects):
        names = ["b/2", "b/10", "a", "b.x", "b-y", "bb", "b/c/d", "B", "a_", "z/a", "b_"]
        for name in names:
            objects.put(name, name.encode())
        assert list(objects.list()) == sorted(names)
        for prefix in ("", "b", "b/", "b/1", "b/c/", "b.", "B", "q", "z/a", "z/a/"):
            assert list(objects.list(prefix)) == sorted(n for n in names if n.startswith(prefix)), prefix

    @pytest.mark.parametrize(
        "prefix", ["../", "..", "/", "a/../", "a/./", ".", "*", "?", "[a]", "a*", "**", "a//", "\0", "a/b/c/"]
    )
    def test_a_prefix_that_no_name_has_lists_nothing(self, objects, prefix):
        objects.put("a/b", b"")
        objects.put("c", b"")
        assert list(objects.list(prefix)) == []

    def test_objects_may_be_deleted_while_they_are_listed(self, objects):
        names = [f"f/{at:02}" for at in range(20)]
        for name in names:
            objects.put(name, b"")
        seen = []
        for name in objects.list("f/"):
            seen.append(name)
            objects.delete(name)
        assert seen == names
        assert list(objects.list()) == []

    def test_size_is_that_of_everything_below_a_folder(self, objects):
        objects.put("one.zarr/a", b"12345")
        objects.put("one.zarr/b/c", b"123")
        objects.put("one.zarr2/a", b"1")
        objects.put("one", b"1")
        assert (objects.size("one.zarr"), objects.size("nothing")) == (8, 0)

    def test_create_keeps_an_existing_object(self, objects):
        assert objects.create("a", b"first") is True
        assert objects.create("a", b"second") is False
        assert objects.get("a") == b"first"
        objects.put("b", b"put")
        assert objects.create("b", b"created") is False
        assert objects.get("b") == b"put"
        assert list(objects.list()) == ["a", "b"]

    def test_exactly_one_of_16_threads_creates(self, objects):
        for turn in range(self.turns):
            barrier, won = threading.Barrier(16), []

            def attempt(me, turn=turn, barrier=barrier, won=won):
                barrier.wait()
                if objects.create(f"turn/{turn}", b"%d" % me):
                    won.append(me)

            threads = [threading.Thread(target=attempt, args=(me,)) for me in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(won) == 1
            assert objects.get(f"turn/{turn}") == b"%d" % won[0]
        assert len(list(objects.list())) == self.turns

    def test_exactly_one_of_many_processes_creates(self, objects):
        racers = {me: self.start(RACE, objects, me) for me in range(6)}
        objects.put("go", b"")
        won = {}
        for me, racer in racers.items():
            out, _ = racer.communicate(timeout=60)
            assert racer.returncode == 0
            for name in out.split():
                assert name not in won, f"{me} and {won[name]} both created {name}"
                won[name] = me
        assert len(won) == 40
        assert all(objects.get(f"race/{name}") == str(me).encode() for name, me in won.items())

    def test_concurrent_writers_leave_one_of_their_contents(self, objects):
        contents = [bytes([me]) * 200_000 for me in range(8)]
        threads = [threading.Thread(target=objects.put, args=("a", content)) for content in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert objects.get("a") in contents
        assert list(objects.list()) == ["a"]

    def test_readers_see_the_old_or_the_new_content(self, objects):
        contents = [bytes([version]) * 100_000 for version in range(30)]
        objects.put("a", contents[0])
        seen, done = [], threading.Event()

        def read():
            while not done.is_set():
                content = objects.get("a")
                seen.append(content[0] if content in contents else "torn")

        reader = threading.Thread(target=read)
        reader.start()
        for content in contents:
            objects.put("a", content)
        done.set()
        reader.join()
        assert len(seen) > 1
        assert "torn" not in seen
        assert seen == sorted(seen)

    @pytest.mark.parametrize("name", OUTSIDE, ids=lambda name: repr(name)[:20])
    def test_name_outside_the_root_is_rejected(self, objects, name):
        for call in (
            lambda: objects.put(name, b""),
            lambda: objects.create(name, b""),
            lambda: objects.get(name),
            lambda: objects.delete(name),
        ):
            with pytest.raises(InvalidInput) as error:
                call()
            assert error.value.field == "name"
        assert list(objects.list()) == []

    @pytest.mark.parametrize("name", ["a" * 200, "/".join(["a" * 90] * 5), "a.b-c_d/0", "_/9..x"])
    def test_valid_name_is_accepted(self, objects, name):
        objects.put(name, b"1")
        assert objects.create(name, b"2") is False
        assert list(objects.list()) == [name]
        assert objects.get(name) == b"1"

    def test_write_guard_protects_chunks(self, objects):
        """Neither by a write nor by a deletion: zarr deletes a chunk that becomes empty."""

        def overtaken():
            raise InUse("another's now")

        chunks = objects.chunks("s.zarr")
        array = zarr.create_array(chunks, shape=4, chunks=2, dtype=float, fill_value=np.nan)
        array[:] = 1.0
        objects.write_guard = overtaken
        for value in (2.0, np.nan):
            with pytest.raises(InUse):
                array[:2] = value
        assert list(array[:]) == [1.0] * 4
        objects.write_guard = no_guard
        array[:2] = np.nan
        assert len(list(objects.list("s.zarr/c/"))) == 1

    @pytest.mark.parametrize(
        ("size", "rounds"), [(64, 10), pytest.param(1 << 20, 30, marks=pytest.mark.slow)]
    )
    def test_killed_writer_leaves_the_old_or_the_new_content(self, objects, size, rounds):
        killer = self.start(KILLS, objects, rounds, size, 1)
        out, _ = killer.communicate(timeout=100)
        assert killer.returncode == 0
        report = json.loads(out)
        assert report["torn"] == report["lost"] == 0
        assert report["versions"] >= rounds
        assert report["listed"] == ["kept"]


class StoreMachine(RuleBasedStateMachine):
    """Compares random operations and crashes with a dict. A subclass opens a store in `start`."""

    names = st.sampled_from(["a", "b.json", "f/a", "f/b", "f/g/c", "f.x", "f-x", "g", "Z"])
    contents = st.binary(max_size=20)

    def start(self):
        """Return an empty store."""
        raise NotImplementedError

    def crash(self, objects, name, content):
        """Leave what a writer that dies leaves behind."""

    def recover(self, objects):
        """Clean up, as at the next start."""

    @initialize()
    def begin(self):
        self.objects, self.model = self.start(), {}

    @rule(name=names, content=contents)
    def put(self, name, content):
        self.objects.put(name, content)
        self.model[name] = content

    @rule(name=names, content=contents)
    def create(self, name, content):
        assert self.objects.create(name, content) is (name not in self.model)
        self.model.setdefault(name, content)

    @rule(name=names)
    def delete(self, name):
        self.objects.delete(name)
        self.model.pop(name, None)

    @rule(name=names)
    def get(self, name):
        if name in self.model:
            assert self.objects.get(name) == self.model[name]
        else:
            with pytest.raises(NotFound):
                self.objects.get(name)

    @rule(prefix=st.sampled_from(["a", "f", "f/", "f/g/", "f.", "q"]))
    def list_some(self, prefix):
        assert list(self.objects.list(prefix)) == sorted(n for n in self.model if n.startswith(prefix))

    @rule(name=names, content=contents)
    def writer_dies(self, name, content):
        self.crash(self.objects, name, content)

    @rule()
    def start_again(self):
        self.recover(self.objects)

    @invariant()
    def lists_what_there_is(self):
        if hasattr(self, "objects"):
            assert list(self.objects.list()) == sorted(self.model)
