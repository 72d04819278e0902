"""The bits of a chain do not depend on other chains, processes, threads or the times of records."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from sweep_service.simulators.selection import SIMULATORS
from tests.simulators.chains import (
    CASES,
    REPEAT,
    SEED,
    STEPS,
    assert_same_bits,
    case_id,
    cases,
    digest,
    narrow_cases,
    point,
    run,
    run_alone,
    times_of,
)


def test_cases_cover_every_simulator():
    assert {case[0] for case in CASES} == set(SIMULATORS)
    forms = {run_alone(case).attrs["engine_form"] for case in CASES}
    first = {case[0]: case for case in reversed(CASES)}
    forms |= {
        run(first[engine], seed=range(count)).attrs["engine_form"]
        for engine, count in (("S1", 2), ("S1", 4), ("S1", 8), ("S3", 8))
    }
    assert forms == {
        "StepLoop",
        "StepLoopOfTwo",
        "StepLoopOfFour",
        "StepLoopOfChains",
        "Blocked",
        "OverlapProcess",
        "OverlapProcessOfChains",
        "WideOverlapProcess",
        "FactoredOverlapProcess",
    }


@cases
def test_running_again_gives_the_same_bits(case):
    assert_same_bits(run(case, seed=SEED, repeat=REPEAT), run_alone(case))


@cases
@pytest.mark.parametrize(
    "chains",
    [
        {"seed": [SEED, 8, 1], "repeat": REPEAT},
        {"seed": SEED, "repeat": [0, 1, REPEAT]},
        {"seed": [0, SEED], "repeat": [REPEAT, 0, 9, 2, 1]},
        {"seed": [7, 8, 9, 1, SEED], "repeat": [11, REPEAT]},
    ],
    ids=["first of three", "last of three", "sixth of ten", "last of ten"],
)
def test_bits_do_not_depend_on_other_chains(case, chains):
    together = run(case, **chains)
    chosen = {
        name: value
        for name, value in (("seed", SEED), ("repeat", REPEAT))
        if not isinstance(chains[name], int)
    }
    assert_same_bits(together.sel(chosen), run_alone(case))


@narrow_cases
@pytest.mark.parametrize("along", ["seed", "repeat"])
def test_bits_do_not_depend_on_hundred_other_chains(case, along):
    chains = {"seed": SEED, "repeat": REPEAT, along: range(128)}
    together = run(case, **chains)
    assert_same_bits(together.sel({along: SEED if along == "seed" else REPEAT}), run_alone(case))
    assert len(np.unique(together.risk.sel(time=together.time[STEPS.index(13)]))) == 128


PRINT_DIGESTS = """
import hashlib, json, sys
import numpy as np
import sweep_service as ss
for engine, point, times, seed, repeat in json.loads(sys.stdin.read()):
    found = ss.simulate(point, times=times, engine=engine, seed=seed, repeat=repeat)
    content = b"".join(np.ascontiguousarray(found[name]).tobytes() for name in sorted(found.data_vars))
    print(hashlib.sha256(content).hexdigest())
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_process_and_blas_threads(threads):
    calls = []
    for engine, *shape in CASES:
        parameters = point(*shape)
        calls.append((engine, parameters, times_of(parameters, STEPS).tolist(), SEED, REPEAT))
    done = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    expected = {case: digest(run_alone(case)) for case in CASES}
    assert dict(zip(CASES, done.stdout.split(), strict=True)) == expected


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0] == "S1" or case == ("S4", 40, 2, 5, "square")], ids=case_id
)
def test_path_of_step_loop_does_not_depend_on_records(case):
    often = run(case, sorted({*range(0, 333, 7), *STEPS}), seed=SEED, repeat=REPEAT)
    rows = np.searchsorted(often.step, STEPS)
    assert_same_bits(often.isel(time=rows), run_alone(case))
