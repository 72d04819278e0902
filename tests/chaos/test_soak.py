"""Minutes of random kills during many sweeps, whose datasets must equal those of undisturbed runs.

`SOAK_SECONDS` sets the duration, and `SOAK_SEED` repeats the random choices (not their timing).
"""

import os
import random
import statistics
import threading
import time as clock
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from math import ceil

import pytest
from distributed.diskutils import WorkSpace

from tests.chaos.crashes import assert_tidy
from tests.chaos.soak_customer import Customer, Twins
from tests.chaos.soak_stage import WEIGHTS, WORKERS, Stage, Usage, worker_processes
from tests.service import free_ports

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SEED = int(os.environ.get("SOAK_SEED", random.randrange(10**6)))
# 250 in ten minutes, 1,000 in an hour
MIN_KILLS = ceil(min(250 * SECONDS / 600, max(250, 1000 * SECONDS / 3600)))
SHARES = {"remote": 0.6, "embedded": 0.4}  # of the kills
# Processes that are suspended one after another, each for a minute.
SUSPENDED = (
    ("remote", "worker"),
    ("embedded", "service"),
    ("remote", "scheduler"),
    ("embedded", "worker"),
    ("remote", "service"),
)
SUSPEND_SECONDS = min(60.0, SECONDS / 10)
# For some of the time the remote service is not killed, and its memory and open files must not grow.
SPARED = ((0.25, 0.55), (0.75, 1.0))
FINISH_SECONDS = 900.0 + SECONDS  # for the sweeps that are left at the end, on a busy machine
START_SECONDS = 300.0
LOCKS = ("global.lock", "purge.lock")  # empty files that Dask workers leave
# Left in a private folder by a process that is killed while Dask passes them to OpenSSL. They are of use only
# in the cluster that died with it.
CERTIFICATES = ("dask.crt", "dask.pem")


@pytest.mark.slow
@pytest.mark.timeout(int(3 * SECONDS) + 3600)
def test_minutes_of_kills_leave_correct_datasets(tmp_path, record_property):
    print(f"\nSOAK_SECONDS={SECONDS:.0f} SOAK_SEED={SEED}")
    ports = iter(free_ports(2 * len(WEIGHTS)))
    stages = {
        kind: Stage(tmp_path / kind, kind, f"{SEED} {kind}", (next(ports), next(ports))) for kind in WEIGHTS
    }
    twins = Twins(tmp_path / "twins")
    customers = [Customer(stage, twins) for stage in stages.values()]
    try:
        begin(customers)
        usage = endure(stages, customers)
        figures = check_figures(stages, customers)
        print(figures)
        for stage in stages.values():
            check_processes(stage)
        for customer in customers:
            check_folder(customer)
        check_usage(usage)
        compared = sum(customer.numbers for customer in customers)
        print(f"{compared:,} numbers compared")
        record_property("figures", f"{figures}, {compared:,} numbers compared")
    finally:
        for stage in stages.values():
            stage.close()


def begin(customers):
    """Wait until every cluster computes, so that the time and the kills do not go to the first start."""
    for customer in customers:
        customer.fill()
    end = clock.monotonic() + START_SECONDS
    while not all(customer.stage.ended() for customer in customers):
        assert clock.monotonic() < end
        clock.sleep(0.2)


def endure(stages, customers):
    """Kill and suspend processes while sweeps are submitted, steered and removed."""
    stopping, usage = threading.Event(), [Usage() for _ in SPARED]
    with ThreadPoolExecutor(max_workers=3 + 2 * len(stages)) as pool:
        jobs = [
            pool.submit(suspend_in_turn, stages, stopping),
            pool.submit(watch, stages, usage, stopping),
            pool.submit(customers[0].twins.compute_all, stopping),
        ]
        for stage, customer in zip(stages.values(), customers, strict=True):
            kills = SHARES[stage.kind] * MIN_KILLS
            jobs.append(pool.submit(stage.kill_for, SECONDS, kills, stopping))
            jobs.append(pool.submit(customer.run_for, SECONDS, stopping))
        try:
            for job in as_completed(jobs):
                job.result()
        finally:
            stopping.set()
    for customer in customers:
        customer.finish(FINISH_SECONDS)
    return usage


def suspend_in_turn(stages, stopping):
    began = clock.monotonic()
    for at, (kind, what) in enumerate(SUSPENDED):
        stopping.wait(began + at * SECONDS / len(SUSPENDED) + 10.0 - clock.monotonic())
        stages[kind].suspend(what, SUSPEND_SECONDS, stopping)


def watch(stages, usage, stopping):
    """Measure the remote service while it is not killed."""
    stage, began = stages["remote"], clock.monotonic()
    while (share := (clock.monotonic() - began) / SECONDS) < 1.0 and not stopping.is_set():
        phase = next((at for at, (begin, end) in enumerate(SPARED) if begin <= share <= end), None)
        if phase is not None and stage.spared:
            usage[phase].look(stage.kept["service"].pid)
        stage.spared = phase is not None
        stopping.wait(1.0)


def check_figures(stages, customers):
    kills = {kind: dict(stage.kills) for kind, stage in stages.items()}
    stops = sum((stage.stops for stage in stages.values()), Counter())
    starts = {kind: {name: kept.starts for name, kept in one.kept.items()} for kind, one in stages.items()}
    completed = sum((customer.completed for customer in customers), Counter())
    total = sum(sum(one.values()) for one in kills.values())
    print(f"starts {starts}, bundles { ({kind: stage.ended() for kind, stage in stages.items()}) }")
    print(f"retried after blame: {[customer.blamed for customer in customers]}, sweeps {dict(completed)}")
    assert total >= MIN_KILLS, kills
    for kind, one in kills.items():
        assert set(WEIGHTS[kind]) == {what for what, number in one.items() if number}
    assert stops.total() == len(SUSPENDED)
    assert min(completed["left alone"], *(customer.completed["left alone"] for customer in customers)) > 0
    return (
        f"soak of {SECONDS:.0f} s: {total} SIGKILLs {kills}, {stops.total()} processes suspended for "
        f"{SUSPEND_SECONDS:.0f} s {dict(stops)}, {completed.total()} sweeps completed"
    )


def check_processes(stage):
    """One process per worker is left; those of killed nannies and services have ended."""
    parents = ["service"] if stage.kind == "embedded" else WORKERS
    count = len(WORKERS) // len(parents)
    end = clock.monotonic() + 120.0
    while any(len(worker_processes(stage.kept[name].pid)) != count for name in parents):
        assert clock.monotonic() < end, [worker_processes(stage.kept[name].pid) for name in parents]
        clock.sleep(0.5)
    ours = {kept.pid for kept in stage.kept.values()}
    assert [one for one in stage.everyone() if one.pid not in ours and one.ppid() not in ours] == []


def check_folder(customer):
    """Nothing accepted is lost, nothing is left of killed processes, and every dataset equals its twin."""
    stage = customer.stage
    wal = stage.data / "ledger.sqlite-wal"
    assert wal.stat().st_size < 16 << 20  # SQLite restarts the file after 4 MB if there are no readers
    states = {sweep: stage.sweep(sweep)["state"] for sweep in customer.orders}
    assert stage.stop(60.0) == []
    assert_tidy(stage.data, len(customer.orders))
    assert not wal.exists()
    scratch = stage.temporary / "dask-scratch-space"
    WorkSpace(str(scratch)).new_work_dir(prefix="next-").release()  # the next start removes leftovers
    left = {path for path in stage.temporary.rglob("*") if path.is_file() and path.name not in CERTIFICATES}
    assert left <= {scratch / name for name in LOCKS}
    for sweep, order in customer.orders.items():
        customer.compare(sweep, order, states[sweep])


def check_usage(usage):
    for phase, one in enumerate(usage):
        for name in ("files", "threads", "memory"):
            print(f"service, phase {phase}: {name} {flat(getattr(one, name))} of {len(one.files)} looks")
        assert len(one.pids) == 1  # it was not killed while all others were
        before, after = flat(one.files)
        assert after <= before + 5, one.files  # a leak would add a few at each of several reconnections
        before, after = flat(one.memory)
        assert after <= before + 15, one.memory  # of 290 MB; 1 or 2 MB are typical


def flat(values, skip=0.3):
    """Return medians of early and late samples, after the start-up phase."""
    later = values[int(len(values) * skip) :]
    part = max(1, len(later) // 3)
    return statistics.median(later[:part]), statistics.median(later[-part:])
