"""The ledger: transactions, queries, migration, and a hundred thousand bundles."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa

from sweep_service.errors import Conflict, Damaged, NotFound, TooNew
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job
from sweep_service.status import Status
from sweep_service.store.ledger import SCHEMA_VERSION, Ledger, Request, State, SweepRecord, utc_now

MANY = 100_000
THEN = "2026-01-01T00:00:00.000+00:00"
SWEEP = SweepRecord("s", "key", "a name", State.QUEUED, THEN, THEN, None, "", 10, 0)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    yield ledger
    ledger.close()


def bundle(at, cost=1.0):
    return Bundle((Job("sgd", at, 0, (0, 1), (0,)), Job("ode", at, 1, (0,), (0,))), cost)


@dataclass(frozen=True)
class SimpleBundle:
    """The attributes of a bundle that the ledger reads."""

    key: str
    cost: float = 1.0
    jobs_json: str = "[]"
    work_class: str = ""


def test_sweep_is_read_as_added(ledger):
    sweep = replace(SWEEP, extends="other", name="Δ ≠ 0", state=State.PAUSED, reused=3)
    ledger.add(sweep, [bundle(0)])
    assert ledger.sweep("s") == sweep
    assert ledger.sweeps() == [sweep]


def test_bundles_are_read_in_order(ledger):
    bundles = [bundle(at, cost) for at, cost in enumerate([1.0, 3.0, 2.0, 3.0])]
    ledger.add(SWEEP, bundles)
    pending = ledger.pending_bundles("s", 10)
    assert pending == bundles
    assert [item.key for item in pending] == [item.key for item in bundles]
    assert ledger.pending_bundles("s", 2) == pending[:2]
    assert ledger.pending_bundles("s", 2, pending[0].key) == pending[1:3]
    assert ledger.pending_bundles("s", 2, pending[-1].key) == []
    assert ledger.bundle("s", bundles[1].key) == bundles[1]
    assert ledger.pending_bundles("other", 10) == []


def test_unknown_sweep_is_not_found(ledger):
    with pytest.raises(NotFound, match="nowhere"):
        ledger.sweep("nowhere")


def test_sweeps_are_listed_newest_first_and_by_key_and_state(ledger):
    times = ["2026-01-03", "2026-01-01", "2026-01-02", "2026-01-02"]
    for at, created in enumerate(times):
        state = State.RUNNING if at % 2 else State.QUEUED
        ledger.add(replace(SWEEP, id=f"s{at}", key=f"k{at % 2}", created=created, state=state), [])
    assert [record.id for record in ledger.sweeps()] == ["s0", "s3", "s2", "s1"]
    assert [record.id for record in ledger.sweeps(key="k1")] == ["s3", "s1"]
    assert [record.id for record in ledger.sweeps(states=[State.QUEUED])] == ["s0", "s2"]
    assert ledger.sweeps(states=[]) == []
    assert ledger.sweeps(key="other") == []


@pytest.mark.parametrize("state", State)
def test_every_state_is_stored_with_its_reason(ledger, state):
    ledger.add(SWEEP, [])
    ledger.set_state("s", state, "because")
    record = ledger.sweep("s")
    assert record.state is state
    assert record.reason == "because"
    assert record.updated > SWEEP.updated
    assert record.created == SWEEP.created
    assert state.has_ended is (state.value in ("completed", "incomplete", "cancelled", "failed"))


def test_merged_bundles_are_not_pending_and_are_summed(ledger):
    bundles = [bundle(at, at + 1.0) for at in range(4)]
    ledger.add(SWEEP, bundles)
    ledger.mark_merged(
        "s",
        {bundles[0].key: (3.0, {Status.DONE: 2}), bundles[1].key: (4.0, {Status.DONE: 1, Status.FAILED: 1})},
    )
    for _ in range(2):  # the second call, as after a crash, changes nothing
        ledger.mark_merged(
            "s", {bundles[3].key: (2.0, {Status.DONE: 2}), "never-heard-of": (1.0, {Status.DONE: 9})}
        )
    assert ledger.pending_bundles("s", 10) == [bundles[2]]
    assert ledger.totals("s") == {
        "bundles_left": 1, "cost_done": 7.0, "cost_left": 3.0, "cost_dropped": 0.0, "seconds": 9.0,
        "bundles": {"pending": 1, "merged": 3, "dropped": 0},
        "counts": {Status.DONE: 5, Status.FAILED: 1},
    }  # fmt: skip


def test_dropped_bundles_can_be_replaced(ledger):
    bundles = [bundle(at) for at in range(3)]
    ledger.add(SWEEP, bundles)
    ledger.mark_merged("s", {bundles[0].key: (1.0, {Status.DONE: 1})})
    ledger.drop_bundles("s")
    assert ledger.pending_bundles("s", 10) == []
    assert ledger.totals("s")["bundles_left"] == ledger.totals("s")["cost_left"] == 0
    ledger.replace_bundles("s", [bundles[1], bundle(7)])
    assert {pending.key for pending in ledger.pending_bundles("s", 10)} == {bundles[1].key, bundle(7).key}
    assert ledger.totals("s")["cost_done"] == 1.0


def test_merged_bundle_can_become_pending_again(ledger):
    ledger.add(SWEEP, [bundle(0)])
    ledger.mark_merged("s", {bundle(0).key: (1.0, {Status.FAILED: 3})})
    ledger.replace_bundles("s", [bundle(0)])
    assert ledger.pending_bundles("s", 10) == [bundle(0)]
    assert ledger.totals("s")["counts"] == {}


def test_set_counts_replaces_counts_of_bundles(ledger):
    bundles = [bundle(at) for at in range(3)]
    ledger.add(SWEEP, bundles)
    ledger.set_counts("s", {Status.DONE: 9})
    assert ledger.totals("s")["counts"] == {Status.DONE: 9}
    ledger.mark_merged("s", {merged.key: (1.0, {Status.DONE: 1, Status.FAILED: 1}) for merged in bundles[:2]})
    ledger.set_counts("s", {Status.DONE: 3})
    ledger.mark_merged("s", {bundles[2].key: (1.0, {Status.DONE: 2})})
    assert ledger.totals("s")["counts"] == {Status.DONE: 5}
    assert ledger.totals("s")["seconds"] == 3.0


def test_stored_runs_are_counted_with_those_of_bundles(ledger):
    ledger.add(SWEEP, [bundle(0)], {Status.DONE: 2, Status.DIVERGED: 1})
    ledger.mark_merged("s", {bundle(0).key: (1.0, {Status.DONE: 1})})
    assert ledger.totals("s")["counts"] == {Status.DONE: 3, Status.DIVERGED: 1}
    assert ledger.pending_bundles("s", 9) == []


def test_events_contain_every_state_and_the_last_progress(ledger):
    ledger.add(SWEEP, [bundle(at) for at in range(3)])
    ledger.set_state("s", State.RUNNING)
    for at in range(3):
        ledger.mark_merged("s", {bundle(at).key: (1.0, {Status.DONE: 1})})
    ledger.set_state("s", State.FAILED, "no such file")
    events = ledger.events("s")
    assert [(event.kind, event.state.value, event.reason) for event in events] == [
        ("state", SWEEP.state.value, ""), ("state", "running", ""), ("progress", "running", ""),
        ("state", "failed", "no such file"),
    ]  # fmt: skip
    numbers = [event.id for event in events]
    assert numbers == sorted(set(numbers))
    assert ledger.events("s", numbers[1]) == events[2:]


def test_on_change_is_called_after_the_commit(tmp_path, ledger):
    heard = []
    with closing(Ledger(tmp_path / "ledger.sqlite")) as other:
        ledger.on_change = lambda sweep: heard.append((sweep, other.sweeps()[:1]))
        ledger.add(SWEEP, [bundle(0)])
        assert heard == [("s", [SWEEP])]
        ledger.set_state("s", State.RUNNING)
        assert heard[-1][1][0].state is State.RUNNING
        for change in (
            lambda: ledger.mark_merged("s", {bundle(0).key: (1.0, {Status.DONE: 1})}),
            lambda: ledger.set_counts("s", {}),
            lambda: ledger.drop_bundles("s"),
            lambda: ledger.replace_bundles("s", []),
            lambda: ledger.remove("s"),
        ):  # fmt: skip
            before = len(heard)
            change()
            assert len(heard) == before + 1
        assert heard[-1] == ("s", [])


def test_event_ids_are_never_reused(ledger):
    ledger.add(SWEEP, [])
    (first,) = ledger.events("s")
    ledger.remove("s")
    assert ledger.events("s") == []
    ledger.add(SWEEP, [])
    assert ledger.events("s")[0].id > first.id


def test_request_is_known_until_its_sweep_is_removed(ledger):
    ledger.add(SWEEP, [])
    request = Request("k", "digest")
    ledger.save_answer(request, "s", True)
    assert ledger.find_answer(request) == (ledger.sweep("s"), True)
    assert ledger.find_answer(Request("other", "digest")) is None
    with pytest.raises(Conflict):
        ledger.find_answer(Request("k", "another digest"))
    ledger.remove("s")
    assert ledger.find_answer(request) is None


def test_pages_contain_every_sweep_once(ledger):
    for at in range(7):  # two at each time
        ledger.add(replace(SWEEP, id=f"s{at}", created=f"2026-01-0{1 + at // 2}"), [])
    everything, listed = ledger.sweeps(), []
    while page := ledger.sweeps(before=(listed[-1].created, listed[-1].id) if listed else None, limit=3):
        assert len(page) <= 3
        listed += page
    assert listed == everything
    assert len(everything) == 7


def test_ledger_of_schema_1_is_migrated(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.add(replace(SWEEP, reused=3), [bundle(0)])
    ledger.mark_merged("s", {bundle(0).key: (1.0, {Status.DONE: 1})})
    with ledger.engine.begin() as now:  # schema 1 has no events and no requests
        now.execute(sa.text("DELETE FROM bundles WHERE key = 'stored'"))
        now.execute(sa.text("DROP TABLE events"))
        now.execute(sa.text("DROP TABLE requests"))
        now.execute(sa.text("UPDATE about SET value = '1'"))
    ledger.close()
    with closing(Ledger(tmp_path / "ledger")) as again:
        assert again.totals("s")["counts"] == {Status.DONE: 4}
        assert [event.kind for event in again.events("s")] == ["state"]
    with closing(Ledger(tmp_path / "ledger")) as third:
        assert third.totals("s")["counts"] == {Status.DONE: 4}


def make_schema_2(path):
    """Write a ledger of schema 2, which has no versions, with a sweep and an answered request."""
    ledger = Ledger(path)
    ledger.add(SWEEP, [bundle(0)])
    ledger.save_answer(Request("k", "digest"), "s", True)
    with ledger.engine.begin() as now:
        for name in ("versions", "package"):
            now.execute(sa.text(f"ALTER TABLE sweeps DROP COLUMN {name}"))
        now.execute(sa.text("UPDATE about SET value = '2'"))
    ledger.close()


def assert_migrated(ledger):
    assert ledger.sweeps(key="key") == [SWEEP]
    assert ledger.pending_bundles("s", 9) == [bundle(0)]
    assert ledger.find_answer(Request("k", "digest")) == (SWEEP, True)
    assert [one.kind for one in ledger.events("s")] == ["state"]


def test_ledger_of_schema_2_is_migrated(tmp_path):
    path = tmp_path / "ledger"
    make_schema_2(path)
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            assert_migrated(ledger)
    with closing(sqlite3.connect(path)) as raw:  # a program of schema 2 that is still running adds a sweep
        names = "id, key, name, state, created, updated, extends, reason, runs, reused, priority"
        raw.execute(
            f"INSERT INTO sweeps ({names}) VALUES ('s2', '', '', 'queued', '', '', NULL, '', 1, 0, 0)"
        )
        raw.commit()
    with closing(Ledger(path)) as ledger:
        assert (ledger.sweep("s2").versions, ledger.sweep("s2").package) == ({}, "")


def test_interrupted_migration_is_repeated(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    make_schema_2(path)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("sweep_service.store.ledger.tables.SCHEMA_VERSION", BrokenNumber(SCHEMA_VERSION))
        Ledger(path)
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT value FROM about").fetchall() == [("2",)]
        assert "versions" not in [row[1] for row in raw.execute("PRAGMA table_info(sweeps)")]
    with closing(Ledger(path)) as ledger:
        assert_migrated(ledger)


class BrokenNumber(int):
    """A number that fails when it is written, which is the last step of a migration."""

    def __str__(self):
        raise RuntimeError("out of order")


def test_ledger_is_migrated_once_by_several_openers(tmp_path):
    path = tmp_path / "ledger"
    make_schema_2(path)
    ready, ledgers = threading.Barrier(4), []

    def migrate():
        ready.wait(60)
        ledgers.append(Ledger(path))

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledgers) == 4
    for ledger in ledgers:
        assert_migrated(ledger)
        ledger.close()


def test_attempts_are_counted(ledger):
    ledger.add(SWEEP, [bundle(0), bundle(1)])
    assert [ledger.count_attempt("s", bundle(0).key, "x" * 10_000) for _ in range(3)] == [1, 2, 3]
    assert ledger.count_attempt("s", bundle(1).key, "other") == 1


def test_removed_sweep_leaves_no_rows(ledger):
    for name in ("s", "s2"):
        ledger.add(replace(SWEEP, id=name), [bundle(0), bundle(1)])
    ledger.remove("s")
    assert [record.id for record in ledger.sweeps()] == ["s2"]
    assert ledger.pending_bundles("s", 10) == []
    assert len(ledger.pending_bundles("s2", 10)) == 2


def test_sweep_and_bundles_are_added_in_one_transaction(ledger):
    def broken():
        yield bundle(0)
        raise RuntimeError("here")

    with pytest.raises(RuntimeError):
        ledger.add(SWEEP, broken())
    assert ledger.sweeps() == []
    ledger.add(SWEEP, [bundle(0)])
    with pytest.raises(sa.exc.IntegrityError):
        ledger.add(SWEEP, [bundle(1)])
    assert ledger.pending_bundles("s", 10) == [bundle(0)]
    with pytest.raises(RuntimeError):
        ledger.replace_bundles("s", broken())
    assert ledger.pending_bundles("s", 10) == [bundle(0)]  # existing bundles stay
    with pytest.raises(sa.exc.IntegrityError):
        ledger.replace_bundles("nowhere", [bundle(0)])


def test_reader_does_not_wait_for_a_writer(ledger, tmp_path):
    ledger.add(SWEEP, [bundle(0)])
    inside, seen = threading.Event(), threading.Event()

    def write():
        with ledger.engine.begin() as now:
            now.execute(sa.text("UPDATE sweeps SET state = 'paused'"))
            inside.set()
            seen.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    assert inside.wait(60)
    reader = Ledger(tmp_path / "ledger.sqlite")  # opening also reads
    began = time.monotonic()
    assert reader.sweep("s").state is State.QUEUED
    assert reader.totals("s")["bundles_left"] == 1
    assert time.monotonic() - began < 5.0  # a waiting reader would give up after 30 s
    seen.set()
    writer.join()
    assert reader.sweep("s").state is State.PAUSED
    reader.close()


def test_many_readers_see_complete_transactions(ledger, tmp_path):
    ledger.add(SWEEP, [])
    done, wrong = threading.Event(), []

    def read():
        reader = Ledger(tmp_path / "ledger.sqlite")
        while not done.is_set():
            totals = reader.totals("s")
            if totals["bundles_left"] % 10 or totals["cost_left"] != totals["bundles_left"]:
                wrong.append(totals)
        reader.close()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(1, 20):
        ledger.replace_bundles("s", [SimpleBundle(f"{turn}-{at}") for at in range(10 * turn)])
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


CRASHES = """
import os, random, signal, sys, time
from dataclasses import replace
from pathlib import Path
from sweep_service.store.ledger import Ledger
from tests.store.test_ledger import SWEEP, SimpleBundle
path, rng, there, acknowledged = Path(sys.argv[1]), random.Random(0), 0, 0
for turn in range(15):
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        ledger, at = Ledger(path), 0
        while True:
            ledger.add(replace(SWEEP, id=f"{turn}-{at}"), [SimpleBundle(str(b)) for b in range(300)])
            os.write(tell, b".")
            at += 1
    os.close(tell)
    acknowledged += len(os.read(told, 1))  # the first one may take long on a busy machine
    time.sleep(rng.random() * 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while some := os.read(told, 1000):
        acknowledged += len(some)
    os.close(told)
ledger = Ledger(path)
for sweep in ledger.sweeps():
    assert ledger.totals(sweep.id)["bundles_left"] == 300, sweep
    there += 1
print(there, acknowledged)
"""


def test_killed_writers_leave_complete_sweeps(tmp_path):
    command = [sys.executable, "-c", CRASHES, str(tmp_path / "ledger.sqlite")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stderr
    stored, acknowledged = map(int, process.stdout.split())
    assert (
        15 <= acknowledged <= stored <= acknowledged + 15
    )  # at most the last of each writer is not acknowledged


def test_committed_changes_are_read_after_a_restart(tmp_path):
    path = tmp_path / "ledger.sqlite"
    first = Ledger(path)
    first.add(SWEEP, [bundle(0)])
    second = Ledger(path)  # while the first is still open, as after a crash
    assert second.sweep("s") == SWEEP
    assert second.pending_bundles("s", 1) == [bundle(0)]
    first.close()
    second.close()


def test_commits_are_synced_to_disk(ledger):
    with ledger.engine.connect() as now:
        assert now.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert now.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert now.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def later(path):
    """Write a ledger of a later version, with other tables."""
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
        raw.execute("INSERT INTO about VALUES ('schema', ?)", (str(SCHEMA_VERSION + 1),))
        raw.execute("CREATE TABLE campaigns (id TEXT)")
    raw.close()


def test_newer_schema_is_rejected(tmp_path):
    later(tmp_path / "ledger.sqlite")
    with pytest.raises(TooNew, match=str(SCHEMA_VERSION + 1)):
        Ledger(tmp_path / "ledger.sqlite")


def test_rejected_ledger_is_unchanged(tmp_path):
    path = tmp_path / "ledger.sqlite"
    later(path)
    with pytest.raises(TooNew):
        Ledger(path)
    with sqlite3.connect(path) as raw:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    raw.close()
    assert tables == {"about", "campaigns"}


@pytest.mark.parametrize("name", ["with space", "a?b", "a#b", "a%41b", "é"])
def test_ledger_path_may_have_special_characters(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.add(SWEEP, [])
    ledger.close()
    assert (folder / "ledger.sqlite").exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_times_are_utc_and_sortable():
    times = [utc_now() for _ in range(3)]
    assert times == sorted(times)
    assert all(text.endswith("+00:00") for text in times)


def test_next_of_a_hundred_thousand_bundles_are_found_by_index(ledger):
    bundles = [Bundle((Job("sgd", at, -1, (0,), (0,)),), 5.0) for at in range(MANY)]
    ledger.add(SWEEP, bundles)
    with ledger.engine.connect() as now:
        plan = now.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT jobs FROM bundles WHERE sweep = 's' AND progress = 0 "
            "ORDER BY place LIMIT 8"
        ).all()
    assert len(plan) == 1  # a sort would be a second step
    assert "bundles_by_progress" in plan[0][3]
    ledger.mark_merged("s", {bundle.key: (1.0, {Status.DONE: 1}) for bundle in bundles[:1000]})
    assert ledger.pending_bundles("s", 8) == bundles[1000:1008]
    assert ledger.pending_bundles("s", 8, bundles[1007].key) == bundles[1008:1016]
    assert ledger.without_pending(["s"]) == set()
    assert ledger.totals("s")["bundles_left"] == MANY - 1000
    assert ledger.totals("s")["counts"] == {Status.DONE: 1000}
    ledger.drop_bundles("s")
    assert ledger.totals("s")["bundles_left"] == 0
    assert ledger.without_pending(["s", "other"]) == {"s"}


def test_error_names_a_file_that_is_not_a_ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(Damaged, match="is not a ledger: move it away, then run sweep doctor --rebuild"):
        Ledger(path)
    assert path.read_bytes() == b"garbage " * 1000
