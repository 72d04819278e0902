"""All benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.analysis import analysis
from benchmarks.atlas import atlas
from benchmarks.cheap_points import cheap_points
from benchmarks.cliffs import cliffs
from benchmarks.cluster import cluster
from benchmarks.crossover import crossover
from benchmarks.estimates import estimates
from benchmarks.euler import euler
from benchmarks.fluctuations import fluctuations
from benchmarks.full_model import full_model
from benchmarks.harness import Row
from benchmarks.mean_field import mean_field
from benchmarks.odes import odes
from benchmarks.page import page
from benchmarks.prices import prices
from benchmarks.regret import regret
from benchmarks.sampling import sampling
from benchmarks.scale import scale
from benchmarks.service import service
from benchmarks.simulators import sgd
from benchmarks.startup import startup
from benchmarks.store import store
from benchmarks.time_left import time_left
from benchmarks.wide import wide

Case = Callable[[bool], Iterator[Row]]  # quick -> rows

_CASES: tuple[Case, ...] = (
    euler, odes, cliffs, mean_field, sampling, wide, sgd, full_model, crossover, regret, fluctuations,
    startup, store, analysis, atlas, estimates, prices, time_left, cluster, cheap_points, scale, service,
    page,
)  # fmt: skip
CASES: dict[str, Case] = {case.__name__: case for case in _CASES}
