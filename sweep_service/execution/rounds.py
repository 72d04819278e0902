"""Decisions of rounds, taken off the conductor's thread from what the dataset of a sweep holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.numerics.time_average import time_weights
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.growth.rounds import Round, Rounds
from sweep_service.planning.growth.target_error import Target, count_seeds
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, RunTable
from sweep_service.planning.schema import Variable
from sweep_service.planning.spec import FINAL_RISK
from sweep_service.status import Status
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.folder import DataFolder

POLL_SECONDS = 0.02  # for which the conductor waits for a decision
MAX_READ_BYTES = 64 << 20  # of values at once
RISK = "risk"
MAX_NONLINEARITY = 0.3  # above, the linear theory of fluctuations does not hold
MAX_START_SHARE = (
    0.01  # of the variance, that the scatter between starts may have where theory gives the rest
)


class RoundDecisions:
    """Decisions under way, one at a time, by sweep id."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self.pool = ThreadPoolExecutor(1, "rounds")
        self.futures: dict[str, Future[Rounds]] = {}

    def poll(self, sweep_id: str, rounds: Rounds) -> Rounds | None:
        """Return the rounds with the next one, or None while it is being decided."""
        if sweep_id not in self.futures:
            self.futures[sweep_id] = self.pool.submit(decide_round, self.folder, sweep_id, rounds)
        wait([self.futures[sweep_id]], POLL_SECONDS)
        return self.futures.pop(sweep_id).result() if self.futures[sweep_id].done() else None

    def forget(self, sweep_id: str) -> None:
        """Drop the decision of a sweep; it would be taken again, alike."""
        if future := self.futures.pop(sweep_id, None):
            future.cancel()

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


def decide_round(folder: DataFolder, sweep_id: str, rounds: Rounds) -> Rounds:
    """Decide the next round of a sweep whose rounds so far are stored."""
    dataset = folder.dataset(sweep_id)
    grid, target = dataset.plan.grid, dataset.plan.grid.target
    assert target is not None
    error = target.absolute if target.relative is None else target.relative
    assert error is not None
    pilot = read_draws(dataset, target.value, grid.pilot)
    predicted = predict_scatter(dataset) if target.value == RISK else None
    goal = Target(error, target.relative is not None, target.max_seeds)
    counts = count_seeds(pilot, goal, predicted)
    return rounds.append(Round(counts.seeds, counts.basis), is_complete=True)


def read_draws(dataset: SweepDataset, value: str, seeds: int) -> Array:
    """Return a value of SGD (point, seed) at the last time, or of the last half, the mean over repeats.

    NaN where a run of the seed is not done.
    """
    plan = dataset.plan
    grid, observable = plan.grid, RISK if value == FINAL_RISK else value
    weights = np.zeros(len(grid.times))
    weights[-1] = 1.0
    if value == FINAL_RISK:
        weights = time_weights(grid.times, grid.times[-1] / 2)
    variables = plan.schema.variables["sgd"]
    targets = {name: variables[name] for name in (observable, "status")}
    numbers = plan.runs.numbers("sgd", _pilot_runs(plan, seeds))
    size = max(1, MAX_READ_BYTES // variables[observable].run_bytes)
    draws = [
        _read_block(dataset, "sgd", numbers[begin : begin + size], targets, weights)
        for begin in range(0, len(numbers), size)
    ]
    return np.concatenate(draws).reshape(len(grid), seeds, len(grid.repeats)).mean(axis=2)


def _read_block(
    dataset: SweepDataset, kind: Kind, numbers: AnyArray, targets: Mapping[str, Variable], weights: Array
) -> Array:
    values = dataset.read(kind, numbers, targets)
    (name,) = targets.keys() - {"status"}
    used = weights > 0.0
    result = values[name][:, used] @ weights[used]
    return np.where(values["status"] == Status.DONE, result, np.nan)


def _pilot_runs(plan: SweepPlan, seeds: int) -> RunTable:
    shape = len(plan.grid), seeds, len(plan.grid.repeats)
    point, seed, repeat = np.unravel_index(np.arange(math.prod(shape)), shape)
    return RunTable.of("sgd", point=point, seed=seed, repeat=repeat)


def predict_scatter(dataset: SweepDataset) -> Array | None:
    """Return the predicted standard deviation of ln(risk) of a draw at each point, at the last time.

    NaN where it does not apply: where the starts scatter, or the linear theory fails. None without theory.
    """
    plan = dataset.plan
    grid = plan.grid
    regimes = [
        place for place, name in enumerate(grid.regimes) if name in REGIMES and REGIMES[name].has_fluctuations
    ]
    if not grid.options.fluctuations or not regimes:
        return None
    shape = len(grid), grid.pilot
    point, seed = np.unravel_index(np.arange(math.prod(shape)), shape)
    runs = RunTable.of("ode", point=point, regime=np.full(len(point), regimes[0]), seed=seed)
    numbers, variables = plan.runs.numbers("ode", runs), plan.schema.variables["ode"]
    last = np.zeros(len(grid.times))
    last[-1] = 1.0
    risk, std, nonlinearity = (
        _read_block(
            dataset, "ode", numbers, {name: variables[name] for name in (name, "status")}, last
        ).reshape(shape)
        for name in (RISK, "risk_std", "nonlinearity")
    )
    root = np.sqrt(plan.schema.delta_t.reshape(-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = ((root[:, None] * std / risk) ** 2).mean(axis=1)
        between = np.var(np.log(risk), axis=1, ddof=1) if grid.pilot > 1 else np.full(len(grid), np.nan)
        holds = (between <= MAX_START_SHARE * variance) & (
            np.max(root[:, None] * nonlinearity, axis=1) <= MAX_NONLINEARITY
        )
        scatter = np.sqrt(np.log1p(variance / len(grid.repeats)))
    return np.where(holds & (variance > 0.0), scatter, np.nan)
